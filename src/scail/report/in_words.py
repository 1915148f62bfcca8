"""What a run's table shows, in sentences: whatever the order of the methods is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scail.results.summary import not_learned

Record = Mapping[str, Any]
_FEW_CLASSES = 20  # with fewer, nearly everything is among the best five
_LEVEL = 0.5  # points; closer than that is called level


def in_words(summary: Mapping[str, Any]) -> list[str]:
    """Who is best and how far from Full, what ScaIL brings, what herding brings; nothing of what did not learn."""
    records = [record for record in summary["methods"] if not not_learned(record) and record["memory"]]
    classes = max((record["per_state"][-1]["classes"] for record in records), default=0)
    value = "top1" if classes < _FEW_CLASSES else "top5"
    texts = [*_best(records, summary["full"], value), *_scail(records, value), *_herding(records, value)]
    if texts and len(summary.get("seeds", ())) < 2:
        texts.append(
            "This is one seed: differences of a point or two may be chance. --seeds 3 gives means and spreads."
        )
    return texts


def _best(records: Sequence[Record], full: Record | None, value: str) -> list[str]:
    if len(records) < 2:
        return []
    best = max(records, key=lambda record: record[value])
    text = f"The best is {_name(best, records)} with {best[value]:.1f} % {_TITLES[value]}"
    if not full:
        return [f"{text}."]
    return [f"{text}. Full, which has all data at once, has {full[value]:.1f} %: {_apart(best, full, value)}."]


def _scail(records: Sequence[Record], value: str) -> list[str]:
    """ScaIL beside fine tuning as it is, and beside the best of what else is read from the same training."""
    found = {(record["method"], record["select"]): record for record in records}
    for select in ("random", "herding"):
        ft, scail = found.get(("ft", select)), found.get(("scail", select))
        if ft and scail:
            return [
                f"FT does nothing against forgetting and has {ft[value]:.1f} %. ScaIL, without another training, has "
                f"{scail[value]:.1f} %: {_apart(ft, scail, value)}."
            ]
    return []


def _herding(records: Sequence[Record], value: str) -> list[str]:
    of = {record["select"]: record for record in records if record["method"] == "scail"}
    if len(of) < 2:
        return []
    apart = of["herding"][value] - of["random"][value]
    how = "makes no difference to" if abs(apart) < _LEVEL else f"{'helps' if apart > 0 else 'harms'}"
    return [f"Herding {how} ScaIL{'' if abs(apart) < _LEVEL else f' by {abs(apart):.1f} points'}."]


def _apart(one: Record, other: Record, value: str) -> str:
    """Where `other` stands, seen from `one`."""
    points = other[value] - one[value]
    if abs(points) < _LEVEL:
        return "about level"
    return f"{abs(points):.1f} points {'higher' if points > 0 else 'lower'}"


def _name(record: Record, records: Sequence[Record]) -> str:
    several = sum(other["method"] == record["method"] for other in records) > 1
    return f"{record['label']}, {record['select']} exemplars," if several else str(record["label"])


_TITLES = {"top1": "top-1", "top5": "top-5"}
