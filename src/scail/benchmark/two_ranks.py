"""One network on two ranks, in two processes on this machine: whether both have the same, and one process has it too.

The network has no batch norm, which looks at each rank's own images: what is left of a difference is rounding.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import trajectories_in
from scail.config import Experiment
from scail.runtime.devices import fabric_of, joined
from scail.runtime.launch import become_rank, launch
from scail.storage.store import Store

_ROUNDING = 2e-3


def differing_on_two_ranks(experiment: Experiment, place: Path) -> str | None:
    """What is wrong on two ranks; None: nothing."""
    place.mkdir(parents=True)
    plain = experiment.but(network="mlp", select=("random",))
    alone = place / "alone"
    _train(plain, alone, "rank-0")
    both = place / "both"
    both.mkdir()
    if launch(_as_rank, (plain.but(devices=2), both), 2, 1):
        return "; ".join(path.read_text(encoding="utf-8") for path in sorted(both.glob("*.txt"))) or "a rank has ended"
    for path in sorted(alone.glob("rank-0-*.safetensors")):
        what = path.stem.removeprefix("rank-0-")
        first, second = load_file(both / path.name), load_file(both / path.name.replace("rank-0", "rank-1"))
        if any(not torch.equal(first[name], second[name]) for name in first):
            return (
                f"{what}: the two ranks have different networks; train with scail.training.loop.fit, which joins them"
            )
        one = load_file(path)
        if any((one[name] - first[name]).abs().max() > _ROUNDING * (1 + one[name].abs().max()) for name in one):
            return (
                f"{what}: two ranks have another network than one process; the loss has to be a mean over the images "
                "of its batch, each by itself"
            )
    return None


def _train(experiment: Experiment, place: Path, name: str) -> None:
    """Every state's network, as a file of this rank."""
    place.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    with joined(experiment.machine) as ranks:
        fabric, store = fabric_of(experiment.machine), Store(place / "store", create=ranks.rank == 0)
        for trajectory in trajectories_in(settle(experiment)):
            with trajectory.table.told():
                for step in steps_of(trajectory, store, fabric, Watch(), ranks):
                    tensors = {n: t.contiguous() for n, t in step.learned.network.state_dict().items()}
                    title = f"{trajectory.kind.title}, state {step.state.index}".replace("/", "-")
                    save_file(tensors, place / f"{name}-{title}.safetensors")


def _as_rank(local: int, argument: tuple[Experiment, Path], around: dict[str, str]) -> None:
    """One of the two processes."""
    become_rank(local, around)
    experiment, place = argument
    try:
        _train(experiment, place, f"rank-{local}")
    except ValueError as error:
        (place / f"rank-{local}.txt").write_text(str(error), encoding="utf-8")
        raise SystemExit(2) from None
