"""The command line: parse, call, print. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import tyro

from scail.cli_store import StoreCommand, run_store_command
from scail.recipes import RECIPES, Experiment, Select

if TYPE_CHECKING:
    from scail.methods import Method


@dataclass(frozen=True)
class Run:
    """Train one configuration and print the paper's table.

    A network learns the classes in Z states, keeping at most B old images. All heads (FT, ScaIL, ...) are read from
    the same training. Finished states are kept in a store and never trained twice; after Ctrl-C or a crash the same
    command goes on where it stopped.

    Try `scail run --dataset digits --states 5` (seconds), `scail run` (minutes), or
    `scail run --states 20 --memory 1% --methods ft,scail --select herding --seeds 3 --out runs/mine`.
    """

    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """Which images: a name (see `scail datasets`), or a folder or list file of your own."""
    states: Annotated[str, tyro.conf.arg(metavar="Z|SIZES")] = "10"
    """Z, the number of states of equal size; or the number of new classes in each, as 50,10,10,10,10,10."""
    first_state: Annotated[str | None, tyro.conf.arg(metavar="N|half")] = None
    """Classes in state 0, when it is larger: a number, or half. The rest is spread over the other states."""
    memory: Annotated[str, tyro.conf.arg(metavar="B")] = "2%"
    """B, the old images kept, over all classes: a number, or a share of the training images."""
    methods: Annotated[str, tyro.conf.arg(metavar="NAMES")] = "all"
    """all, or names separated by commas: see `scail methods`."""
    select: Literal["random", "herding", "both"] = "both"
    """How the images to keep are chosen. both: both ways on FT's trajectory, and as in its own paper for every other
    method; random or herding: that way for all."""
    recipe: Literal["quick", "paper"] = "quick"
    """Network and schedules: quick fits a CPU, paper is the paper's training for small images."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """Epochs of every training, as E; or of state 0 (and Full) and of the later states, as E0,E (iCaRL's: E in all)."""
    lr: Annotated[float | None, tyro.conf.arg(metavar="RATE")] = None
    """Learning rate of state 0, Full and fine tuning; the recipe decides how it falls, and that of other trainers."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images in a batch, in every training."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """resnet8, resnet20, resnet32, resnet18-3x3, resnet18, or timm:<name> if timm is installed."""
    keep_past_rows: bool = False
    """Keep the past rows of the linear layer instead of re-creating all of it in each state."""
    candidates: Annotated[str | None, tyro.conf.arg(metavar="N|all")] = None
    """ScaIL: how many past classes can be predicted for an image: a number (10), or all."""
    as_published: bool = False
    """ScaIL: read the factors as the authors' code does instead of as the paper writes them."""
    classes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Only so many classes (glyphs: 100 by default, up to 134)."""
    images_per_class: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Only so many training images a class (glyphs: 100 by default)."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Side of the images in pixels (glyphs: 20 by default; files of your own: 64)."""
    order: Annotated[str | None, tyro.conf.arg(metavar="seed|icarl|given|FILE")] = None
    """Order in which classes arrive: seed, icarl, given, or a file with one class name per line."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Same seed, same numbers."""
    seeds: Annotated[int, tyro.conf.arg(metavar="K")] = 1
    """Run so many seeds, from --seed on, and give means and standard deviations."""
    threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """CPU threads of one training (1 by default; DeeSIL's SVMs use all cores)."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Trainings at a time. Default: as the cores allow. Never changes a number."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    """Where to train."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Number format of the training."""
    keep_features: bool = False
    """Keep the test images' features in the store: other heads are then scored without the network."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the results go. Default: a new folder in runs/."""
    store: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where trained states are kept. Default: SCAIL_STORE, or the user's cache directory."""


@dataclass(frozen=True)
class Paper:
    """Print what was measured beside what was published, cell by cell, and which settings differ from the paper's.

    Give one or several folders of `scail run`. A run that matches no published cell is named with what differs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folders of runs."""


@dataclass(frozen=True)
class Methods:
    """List the methods: what each one does, and what it needs."""


@dataclass(frozen=True)
class Datasets:
    """List the data sets that `scail run --dataset` knows."""


@dataclass(frozen=True)
class Recipes:
    """List the recipes, or print one in full: every hyper-parameter that `scail run --recipe` takes from it."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None
    """The recipe to print."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """For which data set."""


@dataclass(frozen=True)
class StoreTools:
    """Look into the store of trained states, check it, and make room."""

    command: tyro.conf.OmitSubcommandPrefixes[StoreCommand]


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Paper, tyro.conf.subcommand("paper")]
    | Annotated[Methods, tyro.conf.subcommand("methods")]
    | Annotated[Datasets, tyro.conf.subcommand("datasets")]
    | Annotated[Recipes, tyro.conf.subcommand("recipes")]
    | Annotated[StoreTools, tyro.conf.subcommand("store")]
)


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line, and end with its exit code: 0, 2 for a user's mistake, 130 after Ctrl-C."""
    command = tyro.cli(
        Command,
        prog="scail",
        description="Teach an image classifier new classes over time, when old data can't be kept.",
        args=argv,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        _COMMANDS[type(command)](command)
    except ValueError as error:
        if os.environ.get("SCAIL_DEBUG"):
            raise
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("stopped. Nothing is lost: the same command goes on from here", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) has seen enough
        sys.exit(141)
    except OSError as error:
        if os.environ.get("SCAIL_DEBUG"):
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    print(f"scail: {'' if code == 130 else 'error: '}{message}", file=sys.stderr)
    sys.exit(code)


def experiment_of(run: Run) -> Experiment:
    """The configuration that these options ask for: the recipe, with the given values in place of its own."""
    recipe = RECIPES[run.recipe](run.dataset)
    schedules = _schedules(run, recipe)
    states = _numbers("--states", run.states, "a number, or sizes as 50,10,10")
    given_values: dict[str, Any] = {
        "network": run.network, "threads": run.threads, "classes": run.classes, "image_size": run.image_size,
        "images_per_class": run.images_per_class, "class_order": _order(run.order),
    }  # fmt: skip
    selects: tuple[Select, ...] | None = None if run.select == "both" else (run.select,)
    return replace(
        recipe,
        **schedules,
        states=states[0] if len(states) == 1 else states,
        first_state=_first_state(run.first_state),
        memory=run.memory
        if run.memory.endswith("%")
        else _number("--memory", run.memory, "a number, or a share as 2%"),
        methods=tuple(name.strip() for name in run.methods.split(",") if name.strip()),
        select=selects,
        candidates=_candidates(run.candidates, recipe.candidates),
        as_published=run.as_published,
        keep_past_rows=run.keep_past_rows,
        seed=run.seed,
        keep_features=run.keep_features,
        accelerator=run.accelerator,
        precision=run.precision,
        **{name: value for name, value in given_values.items() if value is not None},
    )


def _schedules(run: Run, recipe: Experiment) -> dict[str, Any]:
    """The recipe's schedules, with the epochs, batch size and learning rate that were given."""
    given = (None, None) if run.epochs is None else _numbers("--epochs", run.epochs, "E, or E0,E")
    if len(given) > 2:
        raise ValueError(f"--epochs {run.epochs}: expected E, or E0,E")
    first, later = ("first_schedule", "bic_first_schedule"), ("later", "balanced", "distill", "bic")
    found = dict.fromkeys(first, (given[0], run.lr))
    found |= {f"{name}_schedule": (given[-1], run.lr if name == "later" else None) for name in later}
    changed = {}
    for name, (epochs, lr) in found.items():
        values = {"epochs": epochs, "lr": lr, "batch_size": run.batch_size}
        changed[name] = replace(getattr(recipe, name), **{k: v for k, v in values.items() if v is not None})
    return changed


def _numbers(option: str, text: str, expected: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} {text}: expected {expected}") from None


def _number(option: str, text: str, expected: str) -> int:
    numbers = _numbers(option, text, expected)
    if len(numbers) != 1:
        raise ValueError(f"{option} {text}: expected {expected}")
    return numbers[0]


def _candidates(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if text == "all":
        return None
    count = _number("--candidates", text, "a number, or all")
    if count < 1:
        raise ValueError(f"--candidates {text}: expected 1 or more, or all")
    return count


def _order(text: str | None) -> str | tuple[str, ...] | None:
    if text is None or text in ("seed", "icarl", "given"):
        return text
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"--order {text}: expected seed, icarl, given, or a file with one class name per line")
    try:
        return tuple(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line)
    except UnicodeDecodeError:
        raise ValueError(f"--order {text}: not a text file; expected one class name per line, in UTF-8") from None


def _first_state(text: str | None) -> int | Literal["half"] | None:
    if text is None or text == "half":
        return text  # type: ignore[return-value]
    return _number("--first-state", text, "a number of classes, or half")


def _run(run: Run) -> None:
    experiment = experiment_of(run)
    from rich.console import Console

    from scail.display import Display
    from scail.report.figures import write_figures
    from scail.report.table import caption, markdown_table, rich_table
    from scail.results import RunDirectory, write_text
    from scail.runner import run_experiment

    console = Console()
    display = Display(console)
    try:
        results = run_experiment(
            experiment,
            run.out,
            seeds=run.seeds,
            store=run.store,
            jobs=run.jobs,
            begin=display.begin,
            receive=display.receive,
        )
    finally:
        display.end()
    out = results.directory
    write_text(out / "table.md", markdown_table(results.summary))
    console.print(rich_table(results.summary))
    console.print(caption(results.summary), highlight=False, soft_wrap=True)
    for seed in range(run.seed, run.seed + run.seeds):
        write_figures(RunDirectory(out if run.seeds == 1 else out / f"seed-{seed}"))
    trained, seconds = results.summary["trained_epochs"], results.summary["seconds"]
    where = f"{trained} epochs trained, {seconds:.0f} s. Results, table and figures: {out}/"
    console.print(where, highlight=False, soft_wrap=True)


def _paper(command: Paper) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.report.paper import compare, differences, find_runs, gaps, nearest, read_run

    console, everything = Console(), []
    for run in find_runs(command.runs):
        config, summary = read_run(run)
        found = compare(config, summary)
        everything += found
        if not found:
            console.print(
                f"{run}: matches no published cell: {nearest(config, summary)}.", highlight=False, soft_wrap=True
            )
            continue
        table = Table("method", "data", "Z", "B", "measured", "published", "difference", box=None, pad_edge=False)
        for one in found:
            values = (f"{one.measured:.1f}", f"{one.published:.1f}", f"{one.measured - one.published:+.1f}")
            table.add_row(one.label, one.dataset, str(one.states), str(one.memory), *values)
        console.print(f"{run} (seed {config['experiment']['seed']}): top-5, {summary['averaging']}", highlight=False)
        console.print(table)
        differing = differences(config)
        console.print(
            f"Differs from the paper in: {'; '.join(differing) or 'nothing that the recipe has'}\n", soft_wrap=True
        )
    if everything:
        table = Table("method", "G_IL measured", "published", "configurations", box=None, pad_edge=False)
        for label, (mine, theirs, count) in gaps(everything).items():
            table.add_row(label, "–" if mine is None else f"{mine:.2f}", f"{theirs:.2f}", str(count))
        console.print("G_IL over the configurations above, and published over the same ones:")
        console.print(table)


def _methods(_: Methods) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.methods import METHODS

    table = Table("name", "in the paper", "trainer", "exemplars", "what it does", box=None, pad_edge=False)
    for name, method in METHODS.items():
        table.add_row(
            name,
            method.label,
            method.trainer,
            _memory_use(method),
            method.summary if method.in_paper else f"{method.summary} (not in the paper)",
        )
    Console().print(table)


def _memory_use(method: Method) -> str:
    if method.trainer == "joint" or method.without_memory:
        return "none"
    chosen = method.select or "both ways"
    return f"{chosen}, needed" if method.needs_exemplars else chosen


def _datasets(_: Datasets) -> None:
    from rich.console import Console
    from rich.table import Table

    from scail.datasets.catalog import DATASETS, OWN_FILES

    table = Table("name", "what it is", box=None, pad_edge=False)
    for name, text in DATASETS.items():
        table.add_row(name, text)
    table.add_row("PATH", OWN_FILES)
    Console().print(table)


def _recipes(command: Recipes) -> None:
    if command.name is None:
        for name, recipe in RECIPES.items():
            print(f"{name:8} {(recipe.__doc__ or '').splitlines()[0]}")
    elif command.name not in RECIPES:
        raise ValueError(f"unknown recipe {command.name!r}; known: {', '.join(RECIPES)}")
    else:
        print(json.dumps(asdict(RECIPES[command.name](command.dataset)), indent=1))


_COMMANDS: dict[type, Any] = {
    Run: _run,
    Paper: _paper,
    Methods: _methods,
    Datasets: _datasets,
    Recipes: _recipes,
    StoreTools: lambda tools: run_store_command(tools.command),
}

if __name__ == "__main__":
    main()
