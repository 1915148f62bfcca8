"""When do initial classifiers help? ScaIL's gain over FT and FT^L2, state by state, from all numbers in results/.

`python -m benchmarks.drift [FOLDER ...]` draws docs/images/drift.png and prints rank correlations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean

from scipy.stats import spearmanr

from scail.report.drawing import new_figure
from scail.report.settings import BASE, group_by_settings, titles_of
from scail.results.archive import Archive, Measurements
from scail.results.row import Row

OUT = Path("docs/images/drift.png")
TITLES = {"ft": "FT", "ft_l2": "FT^L2"}


@dataclass(frozen=True)
class Point:
    """One state of one trajectory of fine tuning."""

    setting: str
    """The folder that it is from, and what sets its setting apart there."""
    drift: float
    exemplar_top1: float
    gain: dict[str, float]
    """Of ScaIL over each method, in points of top-5."""


def points_in(folder: Path) -> Iterator[Point]:
    """The points of a folder of kept numbers; other networks and schedules are settings of their own."""
    groups = group_by_settings(Archive(folder).all())
    for title, group in zip(titles_of(groups), groups, strict=True):
        setting = folder.name if title == BASE else f"{folder.name}: {title}"
        for kept in group:
            yield from points_of(kept, setting)


def points_of(kept: Measurements, setting: str) -> Iterator[Point]:
    """The states after the first, where the network learned and says how far its features moved."""
    states: dict[tuple[str | None, int], dict[str, Row]] = {}
    for row in kept.rows:
        states.setdefault((row.select, row.state), {})[row.method] = row
    for of in states.values():
        if not {"ft", "ft_l2", "scail"} <= of.keys():
            continue
        ft = of["ft"]
        if ft.state and ft.learned and ft.drift is not None and ft.exemplar_top1 is not None:
            gain = {name: of["scail"].top5 - of[name].top5 for name in TITLES}
            yield Point(setting, ft.drift, ft.exemplar_top1, gain)


def main(folders: Sequence[Path]) -> None:
    """Draw, and say how strongly gain goes with each."""
    points = [point for folder in folders for point in points_in(folder)]
    if not points:
        raise SystemExit("no state of FT, FT^L2 and ScaIL that learned, and says how far features moved")
    draw(points, OUT)
    for method, title in TITLES.items():
        for name in ("drift", "exemplar_top1"):
            for setting in ("all", *dict.fromkeys(point.setting for point in points)):
                print(f"ScaIL - {title} by {name}, {setting}: {told(points, method, name, setting)}")


def told(points: Sequence[Point], method: str, name: str, setting: str) -> str:
    """How strongly the gain over a method goes with a number, over the states of a setting, or of all."""
    of = [point for point in points if setting in ("all", point.setting)]
    numbers, gains = [getattr(point, name) for point in of], [point.gain[method] for point in of]
    mean_gain = f"mean gain {fmean(gains):+.1f}, {len(of)} states"
    if len(of) < 3 or len(set(numbers)) == 1 or len(set(gains)) == 1:
        return f"{mean_gain}, too few for a correlation"
    return f"rank correlation {spearmanr(numbers, gains).statistic:+.2f}; {mean_gain}"


def draw(points: Sequence[Point], out: Path) -> None:
    """Two panels, one for each method that ScaIL is compared with."""
    figure, axes = new_figure(len(TITLES), "What ScaIL brings in top-5, state by state")
    markers = dict(zip(dict.fromkeys(point.setting for point in points), cycle("osD^vP*X<>ph"), strict=False))
    for axis, (method, title) in zip(axes, TITLES.items(), strict=True):
        for setting, marker in markers.items():
            of = [point for point in points if point.setting == setting]
            shown = axis.scatter(
                [point.drift for point in of], [point.gain[method] for point in of],
                c=[point.exemplar_top1 for point in of], vmin=50, vmax=100, cmap="viridis", marker=marker, s=22,
                label=setting,
            )  # fmt: skip
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set(xlabel="drift of exemplars' features", ylabel=f"above {title}, points")
    figure.colorbar(shown, ax=list(axes), label="exemplars known (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(p for p in Path("results").iterdir() if p.is_dir()))
