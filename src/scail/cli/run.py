"""`scail run`: its options, the configuration that they ask for, and the run itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from scail.config.recipes import RECIPES, TRAININGS, Experiment, Schedule, Select, with_epochs, with_number
from scail.runtime.launch import become_rank, launch, started_ranks


@dataclass(frozen=True)
class RunOptions:
    """The options of `scail run`."""

    dataset: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = "glyphs"
    """Which images: a name of `scail datasets`, hf:owner/name, or the path of a folder or list file of your own."""
    states: Annotated[str, tyro.conf.arg(metavar="Z|SIZES")] = "10"
    """Z, the number of states, which are of equal size.
    Or the number of new classes in each state, as 50,25,25."""
    first_state: Annotated[str | None, tyro.conf.arg(metavar="N|half")] = None
    """How many classes state 0 has, if more than the others: a number, or half. The other states share the rest."""
    memory: Annotated[str, tyro.conf.arg(metavar="B")] = "2%"
    """B, how many images of past classes are kept in all: a number, or a share of the training images."""
    methods: Annotated[str, tyro.conf.arg(metavar="NAMES")] = "all"
    """Which methods: all, or names of `scail methods`, separated by commas.
    A name can have a --select of its own, as scail:herding."""
    select: Literal["random", "herding", "both"] = "both"
    """How the images that are kept of a class are chosen.
    random: by chance.
    herding: so that their mean feature is close to that of the class.
    both: FT, ScaIL and the other heads of fine tuning are measured both ways, any other method in the way of its paper.
    Example: --select herding, for all methods. Fine tuning is then trained once, not twice."""
    recipe: Literal["quick", "cifar100-cpu", "paper", "paper-224"] = "quick"
    """The named set of numbers to train with: network, epochs, learning rates and so on.
    quick: a small network and short trainings, for a CPU.
    cifar100-cpu: the paper's CIFAR-100 as far as a CPU goes.
    paper: the paper's own training, for a GPU.
    paper-224: the same for small images, scaled to 224 pixels.
    Example: --dataset cifar100 --recipe paper. `scail recipes paper` prints every number, options below change some."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """Epochs of every training, as 10. Default: the recipe's.
    30,10 is 30 in state 0 and for Full, 10 in later states. iCaRL and others that distil have 10 in all states."""
    lr: Annotated[float | None, tyro.conf.arg(metavar="RATE")] = None
    """Learning rate at the start of state 0, of Full and of fine tuning. Default: the recipe's.
    Other trainings have rates of their own: see --schedule."""
    schedule: Annotated[str | None, tyro.conf.arg(metavar="NAME.WHAT=N,...")] = None
    """Change any number of the recipe's trainings. Example: later.lr=0.05,distill.epochs=40.
    NAME is the training. first: state 0, and Full. later: fine tuning after state 0.
    balanced: the last step of FT^BAL and E2E. distill: iCaRL, FT^distill, iCaRL^duet and LwF.
    bic-first, bic and bic-correction: BiC's state 0, later states, and second stage.
    WHAT is epochs, lr, batch_size, momentum, weight_decay, divide_by, patience or weight_decay_states."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images in a batch, in every training. Default: the recipe's."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """resnet8, resnet8-half, resnet20, resnet32, resnet18-3x3, resnet18, or timm:<name> if timm is installed.
    Default: the recipe's."""
    keep_past_rows: bool = False
    """Fine tuning: past classes keep their rows of the linear layer. Without this, each state begins a new layer."""
    candidates: Annotated[str | None, tyro.conf.arg(metavar="N|all")] = None
    """ScaIL: how many past classes can be predicted for an image: a number, or all. Default: 10."""
    as_published: bool = False
    """ScaIL: compute the factors as the authors' code does. Without this, as the paper writes them."""
    classes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only the first N classes. Default: all (glyphs: 100 of 134)."""
    images_per_class: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only N training images of each class. Default: all (glyphs: 100)."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Side of the images in pixels.
    Default: 20 for glyphs, 32 for cifar100, 64 for image files (224 with recipe paper)."""
    split: Literal["icarl", "official"] | None = None
    """ILSVRC: which images to test on. Default: icarl.
    icarl: 50 of each class, held out of the training folder. official: the validation images."""
    held_out: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """Share of each class to test on, if the data set has no test images of its own. Default: 0.2."""
    tune: bool = False
    """To choose settings: test on --held-out of the training images, and leave the test images alone."""
    split_seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Draws the images that are held out. --seed does not change them. Default: 0."""
    images: Literal["auto", "memory", "disk"] = "auto"
    """memory: keep all images in memory. disk: decode regions of them from disk when they are needed.
    auto: disk, if images are larger than 64 pixels or fill more than 2 GiB."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Threads that decode images from disk. Default: 2."""
    broken: Literal["error", "skip"] | None = None
    """What to do with an image that cannot be read. Default: error.
    error: stop and name it. skip: open every image once, leave the broken ones out, and count them."""
    image_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of images, if there are several that it could be."""
    label_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """hf: the column of labels, if there are several that it could be."""
    order: Annotated[str | None, tyro.conf.arg(metavar="seed|icarl|given|FILE")] = None
    """The order in which classes arrive. Default: the recipe's.
    seed: drawn by --seed. icarl: that of the iCaRL paper. given: that of the data set.
    FILE: that of a file with one class name per line."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Draws the order of classes, weights, batches and random exemplars. Same seed, same numbers."""
    seeds: Annotated[int, tyro.conf.arg(metavar="K")] = 1
    """How many seeds to run, from --seed on. The table then has means and standard deviations."""
    threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """CPU threads of one training; DeeSIL's SVMs use all cores. Another number changes the last bits. Default: 1."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many trainings run at a time. Never changes a number. Default: as the cores allow."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    """Where to train. auto: on a GPU if there is one."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Number format of the training."""
    devices: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many devices of this machine train one network together; on CPUs, how many processes.
    Each batch is shared out among them. Default: 1, or as many as torchrun has started."""
    nodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many machines train together, each with its --devices. Start the same command on all: see docs/scaling.md."""
    sync_batch_norm: bool = False
    """Several GPUs: batch norm over the whole batch. Without this, each device normalises its own images."""
    linear_scaling: bool = False
    """Several devices: each has a whole batch, and the learning rate is multiplied by their number."""
    keep_features: bool = False
    """Keep the features of test images in the store. Other heads are then scored without the network."""
    logger: Literal["tensorboard", "wandb", "mlflow"] | None = None
    """Also send losses and accuracies there as they arrive. What stays on this machine goes to logs/ in --out.
    To install one: pip install 'scail[tensorboard]'."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the results. Default: a new one in runs/."""
    store: Annotated[str | None, tyro.conf.arg(metavar="DIR|URL")] = None
    """Where trained states are kept: a folder, or an object store such as s3://bucket/states.
    Default: SCAIL_STORE, or the user's cache folder."""


def experiment_of(run: RunOptions) -> Experiment:
    """The configuration that these options ask for: the recipe, with the given values in place of its own."""
    recipe = _with_numbers(run, RECIPES[run.recipe](run.dataset))
    states = _numbers("--states", run.states, "a number, or sizes as 50,10,10")
    given_values: dict[str, Any] = {
        "network": run.network, "threads": run.threads, "classes": run.classes, "image_size": run.image_size,
        "images_per_class": run.images_per_class, "class_order": _order(run.order), "split": run.split,
        "held_out": run.held_out, "split_seed": run.split_seed, "workers": run.workers, "broken": run.broken,
        "image_column": run.image_column, "label_column": run.label_column,
        "on_disk": None if run.images == "auto" else run.images == "disk",
    }  # fmt: skip
    selects: tuple[Select, ...] | None = None if run.select == "both" else (run.select,)
    return replace(
        recipe,
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
        tune=run.tune,
        seed=run.seed,
        keep_features=run.keep_features,
        accelerator=run.accelerator,
        precision=run.precision,
        devices=devices_of(run),
        nodes=run.nodes,
        sync_batch_norm=run.sync_batch_norm,
        linear_scaling=run.linear_scaling,
        **{name: value for name, value in given_values.items() if value is not None},
    )


def devices_of(run: RunOptions) -> int:
    """Devices on each node: as given; else as many as torchrun has started, or one."""
    started = started_ranks()
    if run.devices is not None or started is None or run.nodes < 1:
        return 1 if run.devices is None else run.devices
    return started[1] // run.nodes


def _with_numbers(run: RunOptions, recipe: Experiment) -> Experiment:
    """The recipe with the numbers of its schedules that were given."""
    given = () if run.epochs is None else _numbers("--epochs", run.epochs, "E, or E0,E")
    if len(given) > 2:
        raise ValueError(f"--epochs {run.epochs}: expected E, or E0,E")
    found = with_epochs(recipe, (given[0], given[-1]) if given else None)
    numbers: list[tuple[str, str, float | None]] = [(name, "batch_size", run.batch_size) for name in TRAININGS]
    numbers += [(name, "lr", run.lr) for name in ("first", "bic_first", "later")]
    numbers += [_number_of_schedule(part) for part in filter(None, (run.schedule or "").split(","))]
    for name, what, value in numbers:
        found = found if value is None else with_number(found, name, what, value)
    return found


def _number_of_schedule(text: str) -> tuple[str, str, float]:
    """Which schedule is meant, what of it, and the new value: of `distill.lr=2`, say."""
    said, _, value = text.strip().partition("=")
    name, _, what = said.replace("-", "_").partition(".")
    if name not in (known := (*TRAININGS, "bic_correction")):
        names = ", ".join(known).replace("_", "-")
        raise ValueError(f"--schedule {text}: expected NAME.WHAT=N, as distill.lr=2, with a NAME of {names}")
    kinds = {field: kind for field, kind in get_type_hints(Schedule).items() if kind in (int, float)}
    try:
        return name, what, kinds[what](value)
    except KeyError:
        raise ValueError(f"--schedule {text}: expected one of {', '.join(kinds)} after {name}.") from None
    except ValueError:
        kind = "a whole number" if kinds[what] is int else "a number"
        raise ValueError(f"--schedule {text}: expected {kind} after =") from None


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


def write_report(out: Path, summary: dict[str, Any], runs: Sequence[Path]) -> Path:
    """Draw the paper's figures of each run, write the page, then the table: where it is, all of it is there."""
    from scail.report.figures import PAPERS, write_figures
    from scail.report.runs import read_report_run
    from scail.report.table import markdown_table
    from scail.report.write import write_page_of
    from scail.results.run_directory import write_text

    for run in runs:
        write_figures(read_report_run(run), run / "figures", ["png"], PAPERS)
    page = write_page_of(out)
    write_text(out / "table.md", markdown_table(summary))
    return page


@dataclass(frozen=True)
class RunCommand(RunOptions):
    """Train one configuration and print the paper's table.

    A network learns the classes in Z states, and keeps at most B images of past ones. One training serves many methods:
    FT, ScaIL and others differ only in how they read it. Finished states are kept in a store and never trained twice.
    After Ctrl-C or a crash the same command goes on where it stopped.

      scail run --dataset digits --states 5    # every method, a minute or so
      scail run                                # on glyphs, several minutes
      scail run --states 20 --memory 1% --methods ft,scail --seeds 3 --out runs/mine
    """

    def __call__(self) -> None:
        """Run, and print the table; with several devices, in a process for each of them."""
        devices, started = devices_of(self), started_ranks()
        experiment = experiment_of(self)
        if devices * self.nodes > 1 and started is None:
            from scail.benchmark.runner import check_counts

            check_counts(experiment, self.seeds, self.jobs)  # what is wrong is said before any process is started
            sys.exit(launch(_as_rank, self, devices, self.nodes))
        if started is not None and started[0] > 0:
            from scail.benchmark.runner import follow_experiment

            follow_experiment(experiment, seeds=self.seeds, given_out=bool(self.out or self.logger))
        else:
            self._lead(experiment)

    def _lead(self, experiment: Experiment) -> None:
        """Run as the only process, or as the one of several that speaks and writes."""
        from rich.console import Console

        from scail.benchmark.loggers import check_logger, logging_to
        from scail.benchmark.runner import new_run_folder, run_experiment
        from scail.cli.display import Display
        from scail.report.table import caption, rich_table

        if self.logger:
            check_logger(self.logger)
        console = Console()
        out = self.out or (new_run_folder(experiment) if self.logger else None)  # logs are written from the start
        with logging_to(self.logger, (out or Path()) / "logs", Display(console)) as (begin, receive):
            results = run_experiment(
                experiment, out, seeds=self.seeds, store=self.store, jobs=self.jobs, begin=begin, receive=receive
            )
        out, summary = results.directory, results.summary
        console.print(rich_table(summary))
        console.print(caption(summary), highlight=False, soft_wrap=True)
        seeds = range(self.seed, self.seed + self.seeds)
        page = write_report(out, summary, [out] if self.seeds == 1 else [out / f"seed-{seed}" for seed in seeds])
        where = f"{summary['trained_epochs']} epochs trained, {summary['seconds']:.0f} s. Results, table and figures: "
        console.print(f"{where}{out}/", highlight=False, soft_wrap=True)
        console.print(f"Report: {page}", highlight=False, markup=False, soft_wrap=True)


def _as_rank(local: int, command: RunCommand, around: dict[str, str]) -> None:
    """One of the processes of `scail run --devices`."""
    from scail.cli.main import carry_out

    become_rank(local, around)
    carry_out(command)
