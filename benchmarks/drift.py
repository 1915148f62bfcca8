"""When do initial classifiers help? ScaIL's gain over FT and FT^L2, state by state, from all numbers in results/.

`python -m benchmarks.drift [FOLDER ...]` draws docs/images/drift.png and prints rank correlations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import spearmanr

from scail.results.archive import Archive, Measurements
from scail.results.row import Row

OUT = Path("docs/images/drift.png")


@dataclass(frozen=True)
class Point:
    """One state of one trajectory of fine tuning, with every class kept in memory."""

    recipe: str
    drift: float
    exemplar_top1: float
    gain: dict[str, float]
    """Of ScaIL over each method, in points of top-5."""


def points_of(kept: Measurements, recipe: str) -> Iterator[Point]:
    """The states after the first, where the network learned and says how far its features moved."""
    states: dict[tuple[str | None, int], dict[str, Row]] = {}
    for row in kept.rows:
        states.setdefault((row.select, row.state), {})[row.method] = row
    for of in states.values():
        if not {"ft", "ft_l2", "scail"} <= of.keys():
            continue
        ft = of["ft"]
        if ft.state and ft.learned and ft.drift is not None and ft.exemplar_top1 is not None:
            gain = {name: of["scail"].top5 - of[name].top5 for name in ("ft", "ft_l2")}
            yield Point(recipe, ft.drift, ft.exemplar_top1, gain)


def main(folders: Sequence[Path]) -> None:
    """Draw, and say how strongly gain goes with each."""
    points = [point for folder in folders for one in Archive(folder).all() for point in points_of(one, folder.name)]
    if not points:
        raise SystemExit("no rows that say how far features moved")
    draw(points)
    for method, title in (("ft", "FT"), ("ft_l2", "FT^L2")):
        for name in ("drift", "exemplar_top1"):
            for recipe in ("all", *dict.fromkeys(point.recipe for point in points)):
                of = [point for point in points if recipe in ("all", point.recipe)]
                found = spearmanr([getattr(point, name) for point in of], [point.gain[method] for point in of])
                print(
                    f"ScaIL - {title} by {name}, {recipe}: rank correlation {found.statistic:+.2f} of {len(of)} states"
                )


def draw(points: Sequence[Point]) -> None:
    """Two panels, one for each method that ScaIL is compared with."""
    from scail.report.drawing import new_figure

    figure, axes = new_figure(2, "What ScaIL brings, state by state")
    markers = dict(zip(dict.fromkeys(point.recipe for point in points), "osD^vP*X", strict=False))
    for axis, (method, title) in zip(axes, (("ft", "FT"), ("ft_l2", "FT^L2")), strict=True):
        for recipe, marker in markers.items():
            of = [point for point in points if point.recipe == recipe]
            shown = axis.scatter(
                [point.drift for point in of], [point.gain[method] for point in of],
                c=[point.exemplar_top1 for point in of], vmin=50, vmax=100, cmap="viridis", marker=marker, s=22,
                label=recipe,
            )  # fmt: skip
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set(xlabel="drift of exemplars' features", ylabel=f"ScaIL above {title}, points of top-5")
    axes[0].legend(fontsize=8, frameon=False)
    figure.colorbar(shown, ax=list(axes), label="exemplars known (%)")
    figure.savefig(OUT, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(p for p in Path("results").iterdir() if p.is_dir()))
