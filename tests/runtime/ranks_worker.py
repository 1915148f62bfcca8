"""What each rank does in test_ranks.py: a process of its own, over gloo. Writes what it found to a file."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import trajectories_in
from scail.config import Experiment, Schedule
from scail.config.recipes import quick
from scail.datasets import load_dataset
from scail.datasets.images.batches import Augmentation
from scail.learner import Rows, train_state
from scail.networks.channels import Masked
from scail.networks.columns import with_column
from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import Network, create_network, drawn_linear, extract_features
from scail.networks.packed import Packing, packable
from scail.networks.widened import with_wider_top
from scail.runtime import ranks as ranks_module
from scail.runtime.devices import fabric_of, joined
from scail.runtime.ranks import Ranks, RanksDiffer, Told
from scail.runtime.seeds import generator_for
from scail.storage.store import Store
from scail.training import Fearnet, Frozen, GenerativeReplay, Joint, Task
from scail.training.apart import new_classes_loss
from scail.training.bic import bias_aware_loss
from scail.training.der import WithAuxiliary, expanded_loss
from scail.training.der_pruned import sparse_loss
from scail.training.distill import sigmoid_loss
from scail.training.earlier_models import Teacher, held, masked
from scail.training.end_to_end import distilled_cross_entropy
from scail.training.loop import fit
from scail.training.losses import cross_entropy
from scail.training.lucir import rebalanced_loss
from scail.training.m2kd import multi_model_loss
from scail.training.podnet import held_loss
from scail.training.progressive import OfNewest
from scail.training.threshold_moving import softened_loss
from scail.training.wa import never_negative

# 34 images in batches of 16: the last one has two images, and the third rank none of them.
SCHEDULE = Schedule(epochs=2, lr=0.1, batch_size=16, weight_decay=1e-3, decay="cosine")
STILL = replace(SCHEDULE, lr=1e-12, weight_decay=0.0)  # nothing moves but running statistics
SUMMED = replace(SCHEDULE, micro_batch=2, sum_micro_batches=True)
LOSSES = (
    *("cross_entropy", "distilled", "sigmoid", "bias_aware", "clipped"),
    *("rebalanced", "held", "softened", "expanded", "multi_model", "sparse", "packed", "columns", "widened"),
)


def experiment_of(count: int) -> Experiment:
    small = quick("digits").but(classes=6, images_per_class=20, states=3, memory=7, select=("herding",))
    return small.but(methods=("ft",), accelerator="cpu", precision="32-true", devices=count).with_epochs(1)


def plain_network(classes: int, seed: int = 0) -> Network:
    """No batch norm: what is left of the difference between one process and several is rounding."""
    torch.manual_seed(seed)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 8), nn.Tanh())
    network = Network("plain", backbone, 8, 1, classes)
    network.recreate_linear(classes, generator_for(seed, "linear"))
    network.mean, network.std = torch.full((1,), 128.0), torch.full((1,), 64.0)
    return network


def images_of(count: int) -> Tensor:
    return torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


def trained(fabric: Any, ranks: Ranks, loss: str, network: Network, schedule: Schedule = SCHEDULE) -> dict[str, Tensor]:
    """The weights after a short training with this loss, as trainers call it."""
    teacher = plain_network(2, seed=1).eval().requires_grad_(False)
    losses = {
        "cross_entropy": cross_entropy,
        "distilled": partial(distilled_cross_entropy, teacher),
        "sigmoid": partial(sigmoid_loss, teacher, 2, True),
        "bias_aware": partial(bias_aware_loss, teacher, 0.5),
        "clipped": partial(bias_aware_loss, teacher, 0.5),
        "rebalanced": partial(rebalanced_loss, teacher, 2, 5.0, 2.0),
        "softened": partial(softened_loss, teacher, 1.0, 2.0),
        "expanded": partial(expanded_loss, 2, 4),
        "multi_model": partial(multi_model_loss, [Teacher(torch.arange(2), with_auxiliary(2, 1).eval())], 1.0, 1.0),
        "sparse": partial(sparse_loss, 0.75, 2, 4),
        "packed": partial(new_classes_loss, 0),
        "columns": partial(new_classes_loss, 0),
        "widened": cross_entropy,
        "held": partial(held_loss, create_network("mlp", 1, 2, generator_for(1, "teacher")).eval(), 1.0, 3.0),
    }
    task = Task(0, images_of(34), torch.arange(34) % 4, 4, None, Augmentation(1), 7, fabric, ranks=ranks)
    bounds = nullcontext()
    if loss == "clipped":
        bounds = never_negative(network.linear)
    elif loss == "multi_model":
        bounds = held(network.backbone, [w > 0 for w in masked(network.backbone)], fabric.device)
    with bounds:
        fit(network, task, schedule, losses[loss])
    return {name: value.clone() for name, value in network.state_dict().items()}


def network_for(loss: str) -> Network:
    """What is trained with this loss: nothing with batch norm."""
    if loss == "multi_model":
        return with_auxiliary(4, 0)
    in_pieces = loss in ("held", "sparse", "columns", "widened")
    network = create_network("mlp", 1, 4, generator_for(0, "network")) if in_pieces else plain_network(4)
    if in_pieces and loss != "held":
        network.mean, network.std = torch.full((1,), 128.0), torch.full((1,), 64.0)
    if loss in ("rebalanced", "held"):
        layer = CosineLinear(network.feature_size, 4, 3 if loss == "held" else 1).drawn(generator_for(0, "layer"))
        layer.hold(2)
        network.linear = layer
    if loss in ("expanded", "sparse"):
        each = network.feature_size
        network.grow()
        network.recreate_linear(4, generator_for(0, "layer"))
        network.linear = WithAuxiliary(network.linear, drawn_linear(each, 3, generator_for(0, "auxiliary")))
    if loss == "sparse":
        parts = network.backbone.parts
        parts[-1] = Masked(parts[-1], 3, 10.0)
    if loss == "packed":
        free = {n: torch.arange(w.numel()).view(w.shape) % 2 == 0 for n, w in packable(network.backbone).items()}
        network.backbone = Packing(network.backbone, free, norms=False)
    if loss == "columns":
        column = create_network("mlp", 1, 1, generator_for(0, "column")).backbone
        network.become(with_column(network.backbone, column, 1, generator_for(0, "draw")), 800)
        network.linear = OfNewest(network.linear)
    if loss == "widened":
        network.become(with_wider_top(network.backbone, 200, generator_for(0, "units")), 600)
        network.recreate_linear(4, generator_for(0, "layer"))
    return network


def memories_of(fabric: Any, ranks: Ranks) -> dict[str, Tensor]:
    """FearNet after three states: the last one sleeps, and has a gate."""
    short = Schedule(epochs=2, lr=2e-3, batch_size=16, decay="steps")
    trainer, previous = Fearnet(Frozen(Joint("mlp", SCHEDULE)), short, short), None
    for state, count in enumerate((2, 3, 4)):
        labels = torch.arange(2) if state == 0 else torch.tensor([count - 1])
        task = Task(
            state, images_of(34), labels.repeat(34)[:34], count, previous, Augmentation(1), 7, fabric, ranks=ranks,
            past_classes=state and count - 1,
        )  # fmt: skip
        previous = trainer.train(task)
    return previous.state_dict()


def generated_for(fabric: Any, ranks: Ranks) -> dict[str, Tensor]:
    """Generative replay after two states: the second one trains on images that rank 0 makes up, and sends."""
    short = Schedule(epochs=2, lr=1e-3, batch_size=16, decay="steps", critic_steps=2)
    trainer = GenerativeReplay(Joint("mlp", SCHEDULE), SCHEDULE, short)
    first = Task(0, images_of(34), torch.arange(2).repeat(17), 2, None, Augmentation(1), 7, fabric, ranks=ranks)
    rows = torch.arange(34)
    trained = train_state(trainer, first, Rows(rows, rows[:0]))
    carried = ranks.decided(lambda: {n: t + ranks.rank for n, t in trainer.complete(trained, first).items()})
    second = replace(first, state=1, labels=torch.full((34,), 2), num_classes=3, past_classes=2, carried=carried)
    return trainer.train(replace(second, previous=trained.network)).state_dict()


def with_auxiliary(classes: int, seed: int) -> Network:
    """With a layer that only a loss uses."""
    network = create_network("mlp", 1, classes, generator_for(seed, "network"))
    network.auxiliary = drawn_linear(400, classes, generator_for(seed, "auxiliary"))
    network.mean, network.std = torch.full((1,), 128.0), torch.full((1,), 64.0)
    return network


def with_batch_norm() -> Network:
    return create_network("resnet8", 1, 4, generator_for(3, "network"))


def main(out: Path, count: int) -> None:
    torch.set_num_threads(1)
    experiment = experiment_of(count)
    with joined(experiment.machine) as ranks:
        fabric, found = fabric_of(experiment.machine), dict[str, Any]()
        torch.set_num_threads(1)
        for loss in LOSSES:
            found[loss] = trained(fabric, ranks, loss, network_for(loss))
        found["batch_norm"] = trained(fabric, ranks, "cross_entropy", with_batch_norm())
        found["statistics"] = trained(fabric, ranks, "cross_entropy", with_batch_norm(), STILL)
        found["micro"] = trained(fabric, ranks, "cross_entropy", plain_network(4), replace(SCHEDULE, micro_batch=2))
        found["summed"] = trained(fabric, ranks, "cross_entropy", with_batch_norm(), SUMMED)
        found["fearnet"] = memories_of(fabric, ranks)
        found["generated"] = generated_for(fabric, ranks)
        found["features"] = {n: extract_features(with_batch_norm(), images_of(n), ranks) for n in (0, 1, 300, 1500)}
        found["any"] = (ranks.any(ranks.rank == 1), ranks.any(False))
        found["gathered"] = ranks.gathered(ranks.rank * 10)
        found["decided"] = ranks.decided(lambda: f"by {ranks.rank}")
        found["on_first"] = ranks.on_first(lambda: "made")
        found["trouble"] = trouble(ranks)
        found["memories"] = memories(experiment, fabric, ranks, out)
        found["long"] = long_work(ranks)
    torch.save(found, out / f"rank-{ranks.rank}.pt")


def trouble(ranks: Ranks) -> dict[str, str]:
    """How errors show on this rank."""
    said = {}

    def fail_on(rank: int) -> str:
        if ranks.rank == rank:
            raise ValueError("the disk is full")
        return "fine"

    for name, call in {
        "differ": lambda: ranks.check_same("state 1", {"exemplars": "abc" if ranks.rank else "def"}),
        "first": lambda: ranks.on_first(fail_on, 0),
        "second": lambda: ranks.together(lambda: fail_on(1)),
    }.items():
        try:
            call()
        except (RanksDiffer, Told, ValueError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    try:
        ranks.on_first(stop)
    except KeyboardInterrupt:
        said["stop"] = "KeyboardInterrupt"
    return said


def stop() -> None:
    raise KeyboardInterrupt


def memories(experiment: Experiment, fabric: Any, ranks: Ranks, out: Path) -> dict[str, Any]:
    """The exemplars of this rank after each state; and what is said where the ranks have other data."""
    dataset = load_dataset("digits", experiment.data)
    (trajectory,) = trajectories_in(settle(experiment, dataset))
    store = Store(out / "store", create=ranks.rank == 0)
    steps = list(steps_of(trajectory, store, fabric, Watch(), ranks))
    kept = [[rows.tolist() for rows in step.learned.memory.exemplars] for step in steps]
    other = dataset
    if ranks.rank == 1:
        altered = dataset.train.images.clone()
        altered[trajectory.states[1].train_indices[0]] += 1
        other = replace(dataset, train=replace(dataset.train, images=altered))
    said = ""
    try:
        (unlike,) = trajectories_in(replace(trajectory.configuration, experiment=experiment.but(seed=9), dataset=other))
        list(steps_of(unlike, store, fabric, Watch(), ranks))
    except RanksDiffer as error:
        said = str(error)
    return {"kept": kept, "other data": said}


def long_work(ranks: Ranks) -> str | None:
    """Rank 0 is busy for longer than the others would wait in silence."""
    import datetime

    ranks_module._BEAT = 0.2
    short = torch.distributed.new_group(backend="gloo", timeout=datetime.timedelta(seconds=1))
    patient = Ranks(ranks.rank, ranks.count, short)

    def work() -> str:
        time.sleep(2.5)
        return "done"

    return patient.decided(work)
