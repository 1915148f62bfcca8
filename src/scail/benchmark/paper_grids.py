"""The grids of the paper: which configurations, methods and selections each of its tables and figures needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scail.benchmark.grid_file import options_of
from scail.benchmark.point import Point, check_count
from scail.config.options import experiment_of, own_places
from scail.config.recipes import RECIPES, quick
from scail.methods import METHODS, Method
from scail.methods.own_methods import own_methods
from scail.results.archive import Pair
from scail.results.published import DATASETS, WITH_MEMORY, WITHOUT_MEMORY

SHARES = ("2%", "1%", "0.5%")
MEMORY = {
    "ilsvrc": (20000, 10000, 5000),
    "vggface2": (10000, 5000, 2500),
    "landmarks": (8000, 4000, 2000),
    "cifar100": (1000, 500, 250),
}
"""B as the paper gives it for 2 %, 1 % and 0.5 %."""


@dataclass(frozen=True)
class PaperGrid:
    """A table or figure of the paper."""

    summary: str
    configurations: tuple[tuple[int, str], ...]
    """Z, and B as a share."""
    rows: frozenset[Pair]
    datasets: tuple[str, ...] = tuple(DATASETS)
    rows_elsewhere: frozenset[Pair] | None = None
    """What is needed of the data sets other than ILSVRC, where it is less."""


_SMALL: tuple[tuple[int, str], ...] = ((10, "0.5%"),)
_FT, _DISTILL, _ICARL = ("ft", "random"), ("ft_distill", "herding"), ("icarl", "herding")

GRIDS: dict[str, PaperGrid] = {
    "table1": PaperGrid(
        "Table 1: top-5 of all methods, five configurations",
        (*((10, share) for share in SHARES), (20, "0.5%"), (50, "0.5%")),
        frozenset(WITH_MEMORY) | {("full", None)},
    ),
    "table2": PaperGrid(
        "Table 2: errors of FT and FT^distill on ILSVRC", _SMALL, frozenset({_FT, _DISTILL}), ("ilsvrc",)
    ),
    "supp-errors": PaperGrid("the same errors on all data sets", _SMALL, frozenset({_FT, _DISTILL})),
    "supp-nomem": PaperGrid("methods without a memory", ((10, "0"),), frozenset((m, None) for m in WITHOUT_MEMORY)),
    "supp-distill": PaperGrid(
        "FT, FT^distill and iCaRL with fifty states", ((50, "0.5%"),), frozenset({_FT, _DISTILL, _ICARL})
    ),
    "figures": PaperGrid(
        "Figures 2 to 4 (ILSVRC) and the supplementary one on all data sets",
        _SMALL,
        frozenset({_FT, ("scail", "random"), _DISTILL}),
        rows_elsewhere=frozenset({_DISTILL}),
    ),
}


def named_grid(
    name: str,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    select: str | None = None,
    seeds: Sequence[int] = (1,),
    options: Mapping[str, object] | None = None,
) -> list[Point]:
    """The configurations of a grid of the paper.

    `datasets` replaces its own, `methods` leaves out all others, `select` replaces the paper's selections, `options`
    are further options of `scail run`. Methods of one's own, as `options` bring them, stand beside those of the grid.
    """
    if name not in GRIDS:
        raise ValueError(f"unknown grid {name!r}; known: {', '.join(GRIDS)}, or an existing YAML file of your own")
    grid, options = GRIDS[name], options or {}
    places = own_places(str(options.get("with_") or ""))
    own = {name: method for place in places for name, method in own_methods(place).methods.items()}
    _check_methods(name, grid, methods, own)
    check_count(f"grid {name}", len(datasets or grid.datasets) * len(grid.configurations) * len(seeds))
    own = {name: method for name, method in own.items() if not methods or name in methods}
    points = []
    for dataset in dict.fromkeys(datasets or grid.datasets):
        of_paper = grid.rows if datasets or dataset == "ilsvrc" else grid.rows_elsewhere or grid.rows
        rows = frozenset((m, s) for m, s in of_paper if not methods or m in methods)
        for (states, share), seed in product(grid.configurations, seeds):
            # Where --methods names free heads only, the trajectories are those of the grid's own rows.
            free = _names(rows or of_paper, methods, share == "0", select is None)
            beside = [m for m, of in own.items() if not (share == "0" and of.needs_exemplars)]
            names = ",".join([*free, *beside])
            memory = _memory(dataset, share, options)
            values = {"dataset": dataset, "states": states, "memory": memory, "methods": names, "seed": seed}
            given = {"select": select} if select else {}
            if names:
                experiment = experiment_of(options_of({**values, **given, **options}))
                points.append(Point(experiment, frozenset() if select or own else rows))
    return points


def _memory(dataset: str, share: str, options: Mapping[str, object]) -> str:
    """B as the paper's number where all of its data are used; elsewhere the share."""
    recipe = RECIPES.get(str(options.get("recipe")), quick)(dataset)
    asked = (options.get("classes"), options.get("images_per_class"))
    whole = (*asked, recipe.data.classes, recipe.data.images_per_class) == (None,) * 4
    if dataset in MEMORY and whole and share in SHARES:
        return str(MEMORY[dataset][SHARES.index(share)])
    return share


def _names(rows: frozenset[Pair], methods: Sequence[str], no_memory: bool, with_selection: bool) -> list[str]:
    """What `--methods` of `scail run` gets: each method with its selection, and all heads that come for free."""
    pairs = {(m, s) for m, s in rows if not methods or m in methods}
    for select in {s for m, s in rows if METHODS[m].trainer == "fine_tune"}:
        pairs |= {(m, select) for m in _free_heads(no_memory) if not methods or m in methods}
    ordered = sorted(pairs, key=lambda pair: (list(METHODS).index(pair[0]), pair[1] or ""))
    named = [f"{m}:{s}" if s and with_selection else m for m, s in ordered]
    return list(dict.fromkeys(named))


def _free_heads(no_memory: bool) -> list[str]:
    """The heads that are read from FT's trajectory once it is trained."""
    return [
        name
        for name, method in METHODS.items()
        if method.trainer == "fine_tune" and not method.without_memory and not (no_memory and method.needs_exemplars)
    ]


def _check_methods(name: str, grid: PaperGrid, methods: Sequence[str], beside: Mapping[str, Method]) -> None:
    own = {method for method, _ in grid.rows}
    known = [method for method in METHODS if method in own or method in _free_heads(no_memory=name == "supp-nomem")]
    known += beside
    wrong = [method for method in methods if method not in known]
    if wrong:
        raise ValueError(
            f"--methods {wrong[0]}: not in grid {name}; it has {', '.join(known)}. A grid of your own, as a YAML file, "
            "can have any method"
        )
