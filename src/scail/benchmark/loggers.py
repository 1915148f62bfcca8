"""Losses and accuracies, as they arrive, to TensorBoard, Weights & Biases or MLflow: through Fabric's loggers.

Each trajectory is a run of its own there, so that the same curve of two trajectories lies in one plot. Losses are by
epoch, counted over all states; what is measured of a method is by state. After an interruption both go on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lightning_fabric.loggers.logger import Logger

    from scail.benchmark.trajectory import Trajectory
    from scail.benchmark.workers import Update
    from scail.results.row import Row

_NEEDS = {
    "tensorboard": (("tensorboard",),),
    "wandb": (("wandb",), ("pytorch_lightning", "lightning")),
    "mlflow": (("mlflow",), ("pytorch_lightning", "lightning")),
}
"""Modules that a logger needs: one of each group."""


def check_logger(name: str) -> None:
    """A logger whose packages are missing is an error before anything is trained."""
    missing = [group[0] for group in _NEEDS[name] if not any(map(find_spec, group))]
    if missing:
        raise ValueError(f"--logger {name} needs {' and '.join(missing)}: pip install 'scail[{name}]'")


def create_logger(name: str, folder: Path, run: str) -> Logger:
    """Fabric's logger of this name, for one trajectory. What stays on this machine goes below `folder`."""
    made: Logger
    if name == "tensorboard":
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder, name="", version=run, default_hp_metric=False)
    if find_spec("pytorch_lightning"):
        from pytorch_lightning import loggers
    else:
        from lightning.pytorch import loggers
    folder.mkdir(parents=True, exist_ok=True)
    group = folder.resolve().parent.name
    if name == "wandb":
        import wandb

        project = os.environ.get("WANDB_PROJECT", "scail")
        # Several trajectories are trained at a time: each needs a run of its own beside the others.
        one = wandb.init(project=project, name=run, group=group, dir=folder, reinit="create_new")
        made = loggers.WandbLogger(experiment=one)
    else:
        server = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        made = loggers.MLFlowLogger(experiment_name=group, run_name=run, tracking_uri=server)
    return made


def close_logger(logger: Logger, status: str) -> None:
    """Write what is left. Weights & Biases keeps a run open until it is told."""
    logger.finalize(status)
    if type(logger).__name__ == "WandbLogger":
        logger.experiment.finish(exit_code=int(status != "success"))  # type: ignore[attr-defined]


class RunLog:
    """Passes on what happens in the trajectories of a run."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self._trajectories: Sequence[Trajectory] = ()
        self._loggers: dict[int, Logger] = {}
        self._at: dict[tuple[int, int], tuple[int, int]] = {}
        """(trajectory, state) -> epochs of the training's earlier stages, and of the current one."""

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """The trajectories are known. One logger is opened now: where that cannot be done nothing has been trained."""
        self._trajectories = trajectories
        self._logger(0)

    def receive(self, update: Update) -> None:
        """A loss, or what a state gave."""
        if update.progress is not None and update.progress.loss is not None:
            metrics = {"loss": update.progress.loss, "state": update.state}
            self._logger(update.trajectory).log_metrics(
                metrics, self._step(update.trajectory, update.state, update.progress.epoch)
            )
        if update.measured is not None:
            for row in update.measured.rows:
                self._logger(update.trajectory).log_metrics(metrics_of(row), row.state)
        if update.done and update.trajectory in self._loggers:
            close_logger(self._loggers.pop(update.trajectory), "success")

    def end(self) -> None:
        """What is still open was interrupted."""
        for logger in self._loggers.values():
            close_logger(logger, "failed")
        self._loggers.clear()

    def _step(self, number: int, state: int, epoch: int) -> int:
        """The epoch counted over all states, those from the store included: a run that goes on fits its beginning."""
        earlier, last = self._at.get((number, state), (0, 0))
        if epoch <= last:  # a training of several stages counts each from 1
            earlier += last
        self._at[number, state] = earlier, epoch
        return sum(self._trajectories[number].epochs[:state]) + earlier + epoch

    def _logger(self, number: int) -> Logger:
        if number not in self._loggers:
            of = self._trajectories[number]
            try:
                self._loggers[number] = create_logger(self.name, self.folder, _slug(of.title))
            except Exception as error:  # each of these packages has errors of its own
                raise ValueError(f"--logger {self.name}: cannot be started: {error}") from error
            facts = {"trainer": of.trainer, "select": of.select, "memory": of.memory}
            self._loggers[number].log_hyperparams({**_flat(of.configuration.experiment.record()), **facts})
        return self._loggers[number]


def metrics_of(row: Row) -> dict[str, float]:
    """What is logged of a method after a state."""
    found = {"top1": row.top1, "top5": row.top5}
    for group, counts in (("past", ("c(p)", "e(p,p)", "e(p,n)")), ("new", ("c(n)", "e(n,n)", "e(n,p)"))):
        if total := sum(row.errors[kind] for kind in counts):
            found[f"{group}_top1"] = 100 * row.errors[counts[0]] / total
        if (score := row.scores[group]) is not None:
            found[f"{group}_score"] = score
    shared = {"classes": float(row.classes), "exemplars": float(row.exemplars)}
    return shared | {f"{name}/{row.method}": value for name, value in found.items()}


def _flat(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by dotted name; what is no number is text."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value if isinstance(value, bool | int | float) else str(value)
    return found


def _slug(title: str) -> str:
    return re.sub(r"[^\w.-]+", "-", title).strip("-") or "run"


class Watcher(Protocol):
    """Who is told what happens in a run."""

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """The trajectories are known."""

    def receive(self, update: Update) -> None:
        """Something happened in one of them."""

    def end(self) -> None:
        """It is over, well or not."""


@contextmanager
def logging_to(
    name: str | None, folder: Path, display: Watcher
) -> Iterator[tuple[Callable[[Sequence[Trajectory]], None], Callable[[Update], None]]]:
    """What to call when a run begins and when something happens: the display, and the logger if one is asked for."""
    told: list[Watcher] = [display, *([RunLog(name, folder)] if name else [])]

    def begin(trajectories: Sequence[Trajectory]) -> None:
        for one in told:
            one.begin(trajectories)

    def receive(update: Update) -> None:
        for one in told:
            one.receive(update)

    try:
        yield begin, receive
    finally:
        for one in told:
            one.end()
