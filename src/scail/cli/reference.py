"""`scail methods`, `datasets` and `recipes`: what can be asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from scail.config import RECIPES

if TYPE_CHECKING:
    from scail.methods import Method


@dataclass(frozen=True)
class MethodsCommand:
    """List the methods: what each one does, and what it needs.

    With --with also those of your own files, which are carried out for that.

      scail methods
      scail methods --with my_method.py
    """

    with_: Annotated[str | None, tyro.conf.arg(name="with", metavar="FILES")] = None
    """Methods of your own: Python files, or names that installed packages offer, separated by commas."""

    def __call__(self) -> None:
        """Print the table of methods, and what installed packages offer beside them."""
        from rich.console import Console
        from rich.table import Column, Table

        from scail.config.options import own_places
        from scail.methods.own_methods import offered
        from scail.methods.table import table_of

        methods = table_of(RECIPES["quick"]("glyphs").but(own_methods=own_places(self.with_))).methods
        console = Console()
        if not console.is_terminal:
            console.width = 200  # for other programs: a line each
        roomy = console.width >= _ROOMY
        whole = Column("name", no_wrap=True)  # it is to be typed
        extra = ("label", "trainer") if roomy else ()
        table = Table(whole, *extra, "exemplars", "what it does", box=None, pad_edge=False)
        for name, method in methods.items():
            what = method.summary if method.in_paper else f"{method.summary} (not in the paper)"
            table.add_row(name, *((method.label, method.trainer_name) if roomy else ()), _memory_use(method), what)
        console.print(table)
        print(f"\n{_LEGEND}")
        for name, point in offered().items():
            package = f"{point.dist.name} {point.dist.version}" if point.dist else point.module
            print(f"{package} offers more: --with {name}")


_ROOMY = 110  # columns of a terminal; with fewer, label and trainer are left out
_LEGEND = """\
trainer    how the network is trained; methods with the same one differ in what they make of it, and share its training
exemplars  images of past classes that are kept: chosen at random, by herding (close to the class's mean), or both ways
           for comparison; needed: not without them; not read: they change nothing
weights    of a class: its row in the network's last layer
What each one does, with formulas: docs/reference/methods/README.md"""


def _memory_use(method: Method) -> str:
    if method.kind.at_once or method.without_memory:
        return "none"
    if method.ignores_memory:
        return "not read"
    chosen = method.select_name or "both ways"
    return f"{chosen}, needed" if method.needs_exemplars else chosen


@dataclass(frozen=True)
class DatasetsCommand:
    """List the data sets that `scail run --dataset` knows."""

    def __call__(self) -> None:
        """Print the table of data sets."""
        from rich.console import Console
        from rich.table import Table

        from scail.datasets.catalog import summaries

        table = Table("name", "what it is", box=None, pad_edge=False)
        for name, text in summaries().items():
            table.add_row(name, text)
        Console().print(table)


@dataclass(frozen=True)
class RecipesCommand:
    """List the recipes, or print one in full: every number that `scail run --recipe` takes from it.

    Some numbers differ between data sets.

      scail recipes
      scail recipes paper --dataset cifar100
    """

    show: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[show NAME]")] = ()
    """The recipe to print. Default: list all."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """The data set that it is printed for."""

    def __call__(self) -> None:
        """Print their first lines, or one as JSON."""
        asked = self.show[1:] if self.show[:1] == ("show",) else self.show
        if not asked and not self.show:
            width = max(map(len, RECIPES))
            for name, recipe in RECIPES.items():
                print(f"{name:{width}}  {(recipe.__doc__ or '').splitlines()[0]}")
        elif len(asked) != 1 or asked[0] not in RECIPES:
            raise ValueError(f"unknown recipe {' '.join(asked) or '(none)'!r}; known: {', '.join(RECIPES)}")
        else:
            print(json.dumps(RECIPES[asked[0]](self.dataset).record(), indent=1))
