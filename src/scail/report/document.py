"""The document about measured numbers: tables in the paper's layout, claims, errors, and how each number was made."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from scail.evaluation import ERROR_KINDS, gap_to_full
from scail.report.claims import (
    CLAIMS,
    BySeed,
    Held,
    Place,
    hold,
    not_learned_by_place,
    place_of,
    published_top5,
    top5_by_place,
)
from scail.report.drawing import literal
from scail.report.grid import Columns, grid_caption, label_of, markdown_lines, markdown_rows, rows_of, text_of
from scail.report.settings import BASE, group_by_settings, titles_of
from scail.report.table import about_mark
from scail.results.archive import Measurements
from scail.results.published import DATASETS, published_full, published_label
from scail.results.summary import AVERAGING, summarise, summarise_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def columns_of(group: Sequence[Measurements]) -> Columns:
    """A column for each Z and B: the summary over its seeds."""
    seeds: dict[Place, dict[int, Mapping[str, Any]]] = {}
    for one in group:
        seeds.setdefault(place_of(one), {})[one.configuration["experiment"]["seed"]] = summarise(one.rows)
    memory = {place_of(one): one.configuration["memory"] for one in group}
    return {
        f"Z={states}, B={share.replace('%', ' %')} ({memory[states, share]})": summarise_seeds(of)
        for (states, share), of in seeds.items()
    }


def write_document(kept: Sequence[Measurements], out: Path, command: Sequence[str]) -> None:
    """Write the document to `out`; if it is about one setting, with a figure beside it."""
    from scail.storage.atomic import aside, write_text
    from scail.storage.flushing import Flushed

    groups = group_by_settings(kept)
    if not groups:
        raise ValueError("no results there; `scail grid ... --results DIR` adds some")
    out.parent.mkdir(parents=True, exist_ok=True)
    picture = out.parent / "images" / f"{out.stem}.png"
    if len(groups) == 1:
        picture.parent.mkdir(exist_ok=True)
        with aside(picture, Flushed.CONTENT) as begun:
            literal(draw(columns_of(groups[0]))).savefig(begun, format="png", dpi=110, bbox_inches="tight")
    write_text(out, document(groups, f"images/{picture.name}", command))


def document(groups: Sequence[Sequence[Measurements]], picture: str, command: Sequence[str]) -> str:
    """All about one setting; or several settings, compared."""
    text = section(groups[0], picture) if len(groups) == 1 else compared(groups)
    return f"# Measured\n\nMade by `{shlex.join(command)}`; not written by hand.\n\n{text}"


def compared(groups: Sequence[Sequence[Measurements]]) -> str:
    """Settings below each other, named by what sets each apart; all about one of them needs a folder of its own."""
    columns: Columns = {}
    parts = [f"## {len(groups)} settings\n"]
    titled = list(zip(titles_of(groups), groups, strict=True))
    for title, group in sorted(titled, key=lambda one: one[0] != BASE):
        columns |= {f"{title}; {place}": summary for place, summary in columns_of(group).items()}
        parts += [f"{BASE}: {_setting(group)}"] if title == BASE else []
    for value, name in (("top5", "Top-5"), ("top1", "Top-1")):
        for select in _selections(columns):
            of = {title: with_selection(summary, select) for title, summary in columns.items()}
            alone = {title for title, summary in columns.items() if select is None and not summary["methods"]}  # Full
            of = {title: summary for title, summary in of.items() if summary["methods"] or title in alone}
            if not of:
                continue
            rows = [(label, texts[:-1]) for label, texts in rows_of(of, value)]  # G_IL over settings says nothing
            lines = [
                ["setting", *(label.removesuffix(f", {select}") for label, _ in rows)],
                ["---", *["---:"] * len(rows)],
            ]
            lines += [[title, *(texts[i] for _, texts in rows)] for i, title in enumerate(of)]
            chosen = f"{select} exemplars" if select else "no exemplars"
            parts += [f"### {name}, {chosen}\n", *markdown_lines(lines), ""]
    beyond = f"*: not in the paper; –: not run{about_mark(columns.values())}"
    parts.append(f"Percent; {AVERAGING}; mean ± standard deviation over seeds; {beyond}.\n")
    return "\n".join([*parts, _provenance([kept for group in groups for kept in group])])


def _selections(columns: Columns) -> list[str | None]:
    """The ways in which exemplars were chosen: the paper's, others, none."""
    found = {record["select"] for summary in columns.values() for record in summary["methods"]}
    return ["random", "herding", *sorted(found - {"random", "herding", None}), None]


def with_selection(summary: Mapping[str, Any], select: str | None) -> Mapping[str, Any]:
    """Only the methods whose exemplars were chosen so."""
    return {**summary, "methods": [record for record in summary["methods"] if record["select"] == select]}


def section(group: Sequence[Measurements], picture: str) -> str:
    """All about one setting; what has no memory apart, as in the paper: each table has its own G_IL."""
    parts = [[one for one in group if (one.configuration["memory"] > 0) == some] for some in (True, False)]
    tables = [(part, columns_of(part)) for part in parts if part]
    columns = {title: summary for _, table in tables for title, summary in table.items()}
    name = group[0].configuration["dataset"]["name"]
    return "\n".join(
        (
            f"## {DATASETS.get(name, name)}\n",
            _setting(group),
            "### Top-5\n", *_tables(tables, "top5"), f"![top-5 after each state]({picture})\n",
            "### Top-1\n", *_tables(tables, "top1"),
            *(_published(tables) if name == "cifar100" else ()),
            *(_claims(group) if name == "cifar100" else ()),
            _best(columns),
            _errors(group),
            _provenance(group),
        )
    )  # fmt: skip


def _tables(tables: Iterable[tuple[Sequence[Measurements], Columns]], value: str) -> Iterable[str]:
    for _, columns in tables:
        yield from markdown_rows(columns, value)
        yield f"\n{grid_caption(columns, value, reasons=False)}; –: not run.\n"


def _setting(group: Sequence[Measurements]) -> str:
    configuration = group[0].configuration
    data, experiment = configuration["dataset"], configuration["experiment"]
    trained = {
        "first_schedule": "state 0 and Full", "later_schedule": "fine tuning", "distill_schedule": "distillation",
        "balanced_schedule": "the balanced step", "bic_schedule": "BiC",
    }  # fmt: skip
    schedules = [f"{name}: {_schedule(experiment[key])}" for key, name in trained.items() if key in experiment]
    seeds = sorted({one.configuration["experiment"]["seed"] for one in group})
    return (
        f"{data['train_images']} training and {data['test_images']} test images ({data['split']}); "
        f"{experiment['network']}; {'; '.join(schedules)}; "
        f"linear layer {'kept' if experiment.get('keep_past_rows') else 're-created in each state'}; "
        f"seeds {', '.join(map(str, seeds))}, each with a class order of its own.\n"
    )


def _schedule(schedule: Mapping[str, Any]) -> str:
    by_state = " / (k + 1)" if schedule["divide_by_state"] else ""
    return f"{schedule['epochs']} epochs from {schedule['lr']}{by_state}, {schedule['decay']}, " + (
        f"batches of {schedule['batch_size']}"
    )


def _published(tables: Iterable[tuple[Sequence[Measurements], Columns]]) -> Iterable[str]:
    """The paper's cells under the same headings. Less data and another network: only the order can be compared."""
    cells, full, lines = published_top5(), published_full("CIFAR-100"), list[str]()
    for part, columns in tables:
        of = [cells.get(place, {}) for place in dict.fromkeys(map(place_of, part))]
        rows = []
        for pair in dict.fromkeys(pair for column in of for pair in column):
            label = published_label({"method": pair[0], "select": pair[1], "memory": part[0].configuration["memory"]})
            known = [column[pair] for column in of if pair in column]
            gap = f"{gap_to_full(known, full):.2f}" if len(known) == len(of) else "–"
            rows.append([str(label), *(f"{column[pair]:.1f}" if pair in column else "" for column in of), gap])
        if rows:
            heads = [["method", *columns, "G_IL"], ["---", *["---:"] * (len(of) + 1)]]
            lines += [*markdown_lines([*heads, *rows]), ""]
    if lines:
        yield "### Published, for the same Z and share of memory\n"
        yield from lines
        yield f"Top-5 with ResNet-18 and all 500 images a class; Full: {full:.1f}.\n"


def _claims(group: Sequence[Measurements]) -> Iterable[str]:
    measured, unlearned = top5_by_place(group), not_learned_by_place(group)
    paper: dict[Place, BySeed] = {place: {0: of} for place, of in published_top5().items()}
    yield "### What was published, held against these numbers\n"
    yield "| Z | B | claim | published | verdict | measured difference ± standard error | seeds |"
    yield "|---:|---:|---|---:|---|---:|---:|"
    for claim in CLAIMS:
        held, (states, share) = hold(claim, measured, unlearned), claim.place
        cells = [str(states), share, claim.text, _difference(hold(claim, paper)), held.verdict, _difference(held)]
        yield f"| {' | '.join(cells)} | {held.seeds or ''} |"
    yield (
        "\nDifferences in averaged top-5, in points, of the same seeds; of a claim about several methods, the one that "
        "speaks for it the least. Shown, not shown: above or below zero with 95 % confidence by Student's t (12.7 "
        "standard errors with two seeds, 4.3 with three); undecided: neither, or one seed; missing: not all was run. "
        "Published of FT^distill are errors only.\n"
    )


def _difference(held: Held) -> str:
    error = "" if held.error is None else f" ± {held.error:.1f}"
    return "" if held.difference is None else f"{held.difference:+.1f}{error}"


def _best(columns: Columns) -> str:
    lines = [
        "### Best of all heads and methods\n",
        "| configuration | best | top-5 | second | top-5 |",
        "|---|---|---:|---|---:|",
    ]
    fewer = False
    for title, summary in columns.items():
        ranked = sorted(summary["methods"], key=lambda record: -record["top5"])[:2]
        cells = [f"{label_of(record)} | {text_of(record, 'top5')}" for record in ranked]
        lines.append(f"| {title} | {' | '.join(cells)} |")
        fewer |= any("seeds" in record for record in ranked)
    note = "; (n=...): of fewer seeds than the others, so the order may change" if fewer else ""
    return "\n".join([*lines, f"\n*: not in the paper{note}.\n"])


def _errors(group: Sequence[Measurements]) -> str:
    """The paper's Table 2 for these runs: mean counts over seeds, in the last state."""
    lines = [
        "### Errors in the last state\n",
        f"| configuration | method | {' | '.join(ERROR_KINDS)} |",
        f"|---|---|{'---:|' * len(ERROR_KINDS)}",
    ]
    for (states, share), of in _by_place(group).items():
        last = [row for one in of for row in one.rows if row.state == states - 1]
        for method in ("ft", "scail", "ft_distill"):
            found = [row for row in last if row.method == method]
            rows = [row for row in found if row.select == "random"] or found  # one selection: the paper's, if there
            if rows:
                counts = [f"{mean(row.errors[kind] for row in rows):.0f}" for kind in ERROR_KINDS]
                lines.append(f"| Z={states}, B={share} | {label_of(asdict(rows[0]))} | {' | '.join(counts)} |")
    return "\n".join(
        [
            *lines,
            "\nTest images, top-1, mean over seeds: past (p) and new (n) classes, c correct, e(a,b) a taken for b.\n",
        ]
    )


def _by_place(group: Sequence[Measurements]) -> dict[Place, list[Measurements]]:
    found: dict[Place, list[Measurements]] = {}
    for one in group:
        found.setdefault(place_of(one), []).append(one)
    return found


def _provenance(group: Sequence[Measurements]) -> str:
    """Each command once, with what it ran on and how long its configurations took together."""
    runs: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    # A run may serve several settings, and Full several configurations.
    once = {json.dumps(part.made, sort_keys=True): part.made for one in group for part in one.parts}
    for made in once.values():
        versions = made["provenance"]
        names = f"scail {versions['scail']}, torch {versions['torch']}, Python {versions['python']}"
        machine = f"{versions['device']}, {versions['threads']} thread(s)"
        key = (made["command"], _short(made["commit"]), f"{names}; {machine}")
        runs.setdefault(key, []).append(made)
    lines = [
        "### How\n",
        "| command | commit | with | begun | configurations | hours, one after another |",
        "|---|---|---|---|---:|---:|",
    ]
    for (command, commit, versions_text), of in runs.items():
        hours = sum(made["seconds"] for made in of) / 3600
        begun = min(made["started"] for made in of)[:10]
        lines.append(f"| `{command}` | {commit} | {versions_text} | {begun} | {len(of)} | {hours:.1f} |")
    return "\n".join([*lines, ""])


def _short(commit: str | None) -> str:
    """Enough of a commit to find it; the plus of changed files stays."""
    return f"{commit[:10]}{'+' if commit.endswith('+') else ''}" if commit else ""


def draw(columns: Columns) -> Figure:
    """Top-5 after each state, one panel for each configuration: the paper's methods, and the best one beyond them."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    across = min(3, len(columns))
    down = -(-len(columns) // across)
    figure = Figure(figsize=(4.4 * across, 3.2 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    strong, light = range(0, 20, 2), range(1, 20, 2)  # in tab20 they take turns
    palette = [to_hex(colormaps["tab20"](i)) for i in (*strong, *light)]
    colours: dict[str, str] = {}
    for axis, (title, summary) in zip(axes, columns.items(), strict=False):
        beyond = max((r["top5"] for r in summary["methods"] if not r["in_paper"]), default=None)
        for record in summary["methods"]:
            if not record["in_paper"] and record["top5"] != beyond:
                continue
            label = label_of(record)
            if record["in_paper"] and ", " in label:  # a selection that the paper's table does not have
                continue
            colour = colours.setdefault(label, palette[len(colours) % len(palette)])
            style = "-" if record["in_paper"] else "--"
            states = record["per_state"][1:]
            axis.plot([s["classes"] for s in states], [s["top5"] for s in states], style, color=colour, linewidth=1.3)
        axis.set_title(title, fontsize=9)
        axis.set(xlabel="classes seen", ylim=(0, 100))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.25)
    for axis in axes[len(columns) :]:
        axis.set_visible(False)
    axes[0].set_ylabel("top-5 (%)")
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=c, linestyle="--" if "*" in label else "-", label=label) for label, c in colours.items()
    ]
    figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
    return figure
