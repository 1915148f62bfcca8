"""Runs the trajectories of a grid on a Ray cluster: one task each, tried again where its worker dies."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from scail.benchmark.trajectory import Reading, Trajectory
from scail.benchmark.workers import Receive, Update, stop_asked, stop_on_signals, work_and_send
from scail.config import Experiment
from scail.training import Interrupted

RETRIES = 3
_END = 20.0  # seconds that tasks have to end after Ctrl-C, before they are ended


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster: where it is, and what a training takes of it."""

    address: str | None = None
    """host:port, ray://host:port or auto; None: one is started here for as long as the grid runs."""
    gpus_per_training: float = 0.0
    jobs: int | None = None
    """Trainings at a time, where Ray is started here."""

    def __post_init__(self) -> None:
        if not 0 <= self.gpus_per_training < 1000:
            raise ValueError(f"gpus per training is {self.gpus_per_training}, expected 0 or more")


def run_on_cluster(
    trajectories: Sequence[Trajectory], store: str, receive: Receive, cluster: Cluster, say: Callable[[str], None]
) -> None:
    """Run them all on the cluster; what they give arrives as they give it. Ctrl-C ends them: `Interrupted`.

    Of those that begin with the same state 0 one goes ahead, and the others start when it is in the store.
    """
    with _connected(cluster, trajectories, say) as ray, stop_on_signals():
        from ray.util.queue import Queue

        queue = Queue(actor_options={"num_cpus": 0})
        tasks = _Tasks(ray, queue, store, cluster, trajectories)
        waiting = defaultdict[str, list[int]](list)
        for number, one in enumerate(trajectories):
            waiting[one.keys[0]].append(number)
        for group in waiting.values():
            tasks.start(group.pop(0))
        try:
            _listen(trajectories, tasks, waiting, receive)
        except BaseException:
            tasks.end()
            raise


def _listen(trajectories: Sequence[Trajectory], tasks: _Tasks, waiting: dict[str, list[int]], receive: Receive) -> None:
    """Pass on what the tasks send, each thing once: a task that is tried again sends much of it a second time."""
    finished, seen = 0, set[tuple[int, int, bool]]()
    while finished < len(trajectories):
        if stop_asked():
            raise Interrupted
        tasks.check()
        for update in tasks.news():
            if update.measured is not None or update.done:
                what = (update.trajectory, update.state, update.done)
                if what in seen:
                    continue
                seen.add(what)
            receive(update)
            finished += update.done
            if update.measured is not None and update.state == 0:
                for number in waiting.pop(trajectories[update.trajectory].keys[0], []):
                    tasks.start(number)


class _Tasks:
    """The Ray tasks under way."""

    def __init__(self, ray: Any, queue: Any, store: str, cluster: Cluster, trajectories: Sequence[Trajectory]) -> None:
        self.ray, self.queue, self.store, self.cluster = ray, queue, store, cluster
        self.trajectories, self.running = trajectories, dict[Any, Trajectory]()

    def start(self, number: int) -> None:
        of = self.trajectories[number]
        experiment = of.configuration.experiment
        options = {
            "num_cpus": experiment.machine.threads, "num_gpus": self.cluster.gpus_per_training,
            "max_retries": RETRIES, "name": f"scail: {of.title}",
        }  # fmt: skip
        task = self.ray.remote(_run_trajectory).options(**options)
        reference = task.remote(number, experiment, of.reading, self.store, self.queue)
        self.running[reference] = of

    def check(self) -> None:
        """Raise what a task has raised."""
        if not self.running:
            return
        from ray.exceptions import RayError, RayTaskError

        done, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        for reference in done:
            of = self.running.pop(reference)
            try:
                self.ray.get(reference)
            except RayTaskError as error:
                if isinstance(error.cause, ValueError | OSError):
                    raise ValueError(f"{of.title}: {error.cause}") from error
                raise
            except RayError as error:  # its process, its machine or its memory gave out
                raise ValueError(
                    f"{of.title}: given up after {RETRIES + 1} attempts ({type(error).__name__}; out of memory?). "
                    "Nothing is lost: the same command goes on"
                ) from error

    def news(self) -> list[Update]:
        """What has arrived, after a short wait for something."""
        from ray.exceptions import RayError
        from ray.util.queue import Empty

        found: list[Update] = []
        try:
            with contextlib.suppress(Empty):
                found.append(self.queue.get(timeout=0.2))
                found += self.queue.get_nowait_batch(self.queue.qsize())
        except RayError as error:
            raise ValueError(
                "the cluster lost the process that gathers results. Nothing is lost: the same command goes on"
            ) from error
        return found

    def end(self) -> None:
        """Ask all tasks to end, and wait a little."""
        for reference in self.running:
            self.ray.cancel(reference)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=_END)


def _run_trajectory(number: int, experiment: Experiment, reading: Reading, store: str, queue: Any) -> None:
    """A task: one trajectory, on a machine of the cluster."""
    work_and_send(number, experiment, reading, store, queue.put)


@contextlib.contextmanager
def _connected(cluster: Cluster, trajectories: Sequence[Trajectory], say: Callable[[str], None]) -> Iterator[Any]:
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ValueError("--engine ray needs Ray: pip install 'scail[ray]'; or use --engine local") from error
    threads = _threads(trajectories)
    cores = cluster.jobs * threads if cluster.jobs and cluster.address is None else None
    try:
        context = ray.init(cluster.address or "local", num_cpus=cores, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(f"--engine ray: cannot reach a cluster at {cluster.address}: {error}") from error
    try:
        have = ray.cluster_resources()
        _check_room(cluster, threads, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        if have.get("GPU") and not cluster.gpus_per_training:
            say("note: the cluster has GPUs, and no training asks for one; --gpus-per-training 1 uses them")
        link = getattr(context, "dashboard_url", "")
        say(
            f"Ray: {have.get('CPU', 0):.0f} CPUs and {have.get('GPU', 0):.0f} GPUs on {len(ray.nodes())} machine(s); "
            + (f"dashboard: http://{link}" if link else "no dashboard (pip install 'ray[default]')")
        )
        yield ray
    finally:
        ray.shutdown()


def _threads(trajectories: Sequence[Trajectory]) -> int:
    return max(one.configuration.experiment.machine.threads for one in trajectories)


def _check_room(cluster: Cluster, threads: int, machines: Sequence[dict[str, float]]) -> None:
    """A training that fits on no machine would wait for ever."""
    needed = {"GPU": cluster.gpus_per_training, "CPU": float(threads)}
    if not any(all(machine.get(what, 0) >= number for what, number in needed.items()) for machine in machines):
        most = {what: max((machine.get(what, 0) for machine in machines), default=0) for what in needed}
        wanted, there = (" and ".join(f"{n:g} {what}s" for what, n in of.items()) for of in (needed, most))
        raise ValueError(
            f"--engine ray: a training takes {wanted}, and no machine of the cluster has them (at most {there}); ask "
            "for less, or add machines"
        )
