"""Is accuracy the same in bfloat16? Every trainer in both number formats, with several seeds; so not in `make bench`.

`SCAIL_DATA=... python -m benchmarks.precision --out DIR`: all data sets (digits, glyphs, cifar100), or those that are
named. Each result is appended to DIR/rows.jsonl as it comes, and states go to DIR/store: the same command goes on where
it was stopped. `--table` prints what is there. Fewer `--epochs`, `--classes` or `--images` make a trial.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scail.benchmark.runner import run_experiment
from scail.config import Experiment
from scail.config.recipes import cifar100_cpu, quick
from scail.methods import METHODS
from scail.networks.precision import FULL, HALF, quick_bf16
from scail.results.archive import Archive
from scail.training import TRAINERS

DATASETS = {"digits": (quick, 5), "glyphs": (quick, 10), "cifar100": (cifar100_cpu, 10)}
"""Recipe, states."""
READ = {"fine_tune": ("ft:random", "scail:random"), "frozen": ("slda",)}
"""What is measured on a trainer's networks; else the first method that has it."""
CONTROL = f"{FULL}, 2 threads"
"""Nothing but another order of additions: how far rounding alone moves a result."""
MOST = 0.5
"""Points that two means may lie apart."""
_EACH = ("dataset", "seed", "precision", "method", "epochs", "classes", "images")
"""What tells one result from the others."""


def methods_of(trainer: str) -> tuple[str, ...]:
    """The methods that are measured on this trainer's networks."""
    return READ.get(trainer) or next((name,) for name, method in METHODS.items() if method.trainer == trainer)


def asked(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One record for each training, its formats one after the other: a table of what is there is always fair."""
    size = {name: getattr(given, name) for name in ("epochs", "classes", "images")}
    for dataset in given.datasets:
        for seed in range(1, given.seeds + 1):
            for trainer in given.trainers:
                for precision in (FULL, HALF, CONTROL)[: 3 if given.control else 2]:
                    yield {"dataset": dataset, "seed": seed, "trainer": trainer, "precision": precision, **size}


def experiment_of(one: dict[str, Any]) -> Experiment:
    """The experiment of such a record."""
    make, states = DATASETS[one["dataset"]]
    precision, names = one["precision"], {"classes": "classes", "images": "images_per_class"}
    size = {setting: one[name] for name, setting in names.items() if one[name] is not None}
    experiment = make(one["dataset"]).but(
        states=states, seed=one["seed"], methods=methods_of(one["trainer"]), accelerator="cpu",
        precision=precision.partition(",")[0], threads=2 if precision == CONTROL else 1, **size,
    )  # fmt: skip
    return experiment.with_epochs(one["epochs"])


def measured(one: dict[str, Any], store: Path) -> Iterator[dict[str, Any]]:
    """A row for each method: its top-1, averaged over the incremental states (Full: of its only one)."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        summary = run_experiment(experiment_of(one), Path(place) / "run", store=store, jobs=1).summary
    seconds = round(time.perf_counter() - began, 1)
    found = summary["methods"] or [{"method": "full", **summary["full"]}]
    for record in found:
        yield {**one, "method": record["method"], "top1": record["top1"], "seconds": seconds}


def rows_in(path: Path) -> list[dict[str, Any]]:
    """What was measured so far. A line that was cut off is measured again."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def kept_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each method, selection and seed of a folder of kept numbers, as `measured` gives them."""
    for of in Archive(folder).all():
        data, states = f"{of.configuration['dataset']['name']}, B={of.configuration['memory']}", defaultdict(list)
        for part in of.parts:
            for row in part.rows:
                if row.state or row.method == "full":
                    states[row.trainer, row.method, row.select, part.made["provenance"]["precision"]].append(row.top1)
        for (trainer, method, select, precision), top1 in states.items():
            name, seed = f"{method}:{select}" if select else method, of.configuration["experiment"]["seed"]
            yield {"dataset": data, "trainer": trainer, "method": name, "precision": precision, "seed": seed,
                   "top1": mean(top1)}  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Means and standard deviations over the seeds that both formats have, and whether they agree."""
    yield "| data | trainer | method | seeds | 32 bits | bfloat16 | difference | agree | two threads, difference |"
    yield "|---|---|---|---:|---:|---:|---:|---|---:|"
    values = {(row["dataset"], row["method"], row["precision"], row["seed"]): row["top1"] for row in rows}
    for one in dict.fromkeys((row["dataset"], row["trainer"], row["method"]) for row in rows):
        dataset, trainer, method = one
        full, half, control = (
            {seed: top1 for (*of, seed), top1 in values.items() if of == [dataset, method, precision]}
            for precision in (FULL, HALF, CONTROL)
        )
        seeds = sorted(full.keys() & half.keys())
        if len(seeds) < 2:
            continue
        columns = [[of[seed] for seed in seeds] for of in (full, half)]
        apart, spread = mean(columns[1]) - mean(columns[0]), max(map(stdev, columns))
        agree = "yes" if abs(apart) <= min(MOST, spread) else "within the spread" if abs(apart) <= spread else "**no**"
        known = [str(dataset), TRAINERS[trainer].title, METHODS[method.partition(":")[0]].label, str(len(seeds))]
        known += [f"{mean(column):.1f}±{stdev(column):.1f}" for column in columns]
        yield f"| {' | '.join(known)} | {_apart(full, half)} | {agree} | {_apart(full, control)} |"


def _apart(one: dict[int, float], other: dict[int, float]) -> str:
    """Mean and standard deviation of the differences, seed by seed."""
    by_seed = [other[seed] - one[seed] for seed in sorted(one.keys() & other.keys())]
    return f"{mean(by_seed):+.1f}±{stdev(by_seed):.1f}" if len(by_seed) > 1 else "–"


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=", ".join(DATASETS))
    parser.add_argument("--out", type=Path, default=Path("precision"))
    parser.add_argument("--trainers", nargs="+", choices=tuple(TRAINERS), default=list(TRAINERS), metavar="NAME")
    for name, default in (("seeds", 3), ("epochs", None), ("classes", None), ("images", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--kept", nargs="+", type=Path, metavar="FOLDER", help="measure nothing")
    given = parser.parse_args()
    if given.kept:
        print(*table([row for folder in given.kept for row in kept_rows(folder)]), sep="\n")
        return
    given.datasets = given.datasets or list(DATASETS)
    if strange := [name for name in given.datasets if name not in DATASETS]:
        parser.error(f"{strange[0]}: expected {', '.join(DATASETS)}")
    if not quick_bf16("cpu"):
        print("this processor has no instructions for bfloat16: it will take long")
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "rows.jsonl"
    done = {tuple(row[name] for name in _EACH) for row in rows_in(path)}
    for one in () if given.table else asked(given):
        names = [name.partition(":")[0] for name in methods_of(one["trainer"])]
        if all(tuple({**one, "method": name}[part] for part in _EACH) in done for name in names):
            continue
        with path.open("a", encoding="utf-8") as file:
            for row in measured(one, given.out / "store"):
                file.write(json.dumps(row) + "\n")
                print(*(row[name] for name in ("dataset", "seed", "method", "precision")), f"{row['top1']:.2f}",
                      f"{row['seconds']} s", flush=True)  # fmt: skip
    size = {name: getattr(given, name) for name in ("epochs", "classes", "images")}
    print(*table([row for row in rows_in(path) if size.items() <= row.items()]), sep="\n")


if __name__ == "__main__":
    main()
