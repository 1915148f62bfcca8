"""Experience replay and GDumb: which images they are trained on."""

from __future__ import annotations

import torch

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import Trajectory, keys_of
from scail.datasets.images.batches import mixed_rows
from scail.networks.network import create_network
from scail.runtime.devices import fabric_of
from scail.runtime.seeds import generator_for
from scail.storage.store import Store
from scail.training import FromMemory
from scail.training.from_memory import kept_rows


def test_every_batch_is_half_new_and_every_new_image_is_shown_once():
    batches = mixed_rows(21, 26, 8, torch.Generator().manual_seed(0))
    new = [rows[rows < 21] for rows in batches]
    assert all(len(of) * 2 == len(rows) for of, rows in zip(new, batches, strict=True))
    assert sorted(torch.cat(new).tolist()) == list(range(21))
    old = torch.cat([rows[rows >= 21] for rows in batches])
    assert set(old.tolist()) <= set(range(21, 26)) and len(old) == 21


def trajectory(tiny, trainer, method, memory=12):
    return Trajectory(settle(tiny.but(methods=(method,))), trainer, "random", memory, (method,))


def test_replay_keeps_past_rows_and_shows_exemplars_as_often_as_new_images(tiny, store_dir, monkeypatch):
    seen = []

    def spy(images, labels, *arguments):
        seen.append((labels, arguments[-1]))
        return original(images, labels, *arguments)

    from scail.training import loop

    original = loop.training_batches
    monkeypatch.setattr(loop, "training_batches", spy)
    of = trajectory(tiny, "replay", "er")
    list(steps_of(of, Store(store_dir), fabric_of(of.configuration.experiment.machine), Watch()))
    assert [half for _, half in seen] == [0, 0, 40, 40]  # two epochs of state 0, one of each later one
    for labels, half in seen[2:]:
        assert (labels[:half] >= 2).all() and (labels[half:] < labels[:half].min()).all()


def test_gdumb_is_trained_on_what_the_memory_holds_and_on_nothing_else(tiny, store_dir, monkeypatch):
    trained = []
    original = FromMemory.train

    def spy(self, task):
        rows = kept_rows(task)
        trained.append(sorted(image.numpy().tobytes() for image in task.images[rows]))
        return original(self, task)

    monkeypatch.setattr(FromMemory, "train", spy)
    of = trajectory(tiny, "from_memory", "gdumb")
    images = of.configuration.dataset.train.images
    steps = list(steps_of(of, Store(store_dir), fabric_of(of.configuration.experiment.machine), Watch()))
    for step, seen in zip(steps, trained, strict=True):
        kept = sorted(image.numpy().tobytes() for image in images[step.learned.memory.indices])
        assert seen == kept and len(kept) == 12


def test_the_memory_decides_every_state_of_gdumb_and_the_later_ones_of_replay(tiny):
    def keys(trainer, method, memory):
        return keys_of(trajectory(tiny, trainer, method, memory), ("cpu", "same"), lambda state: "data")

    for trainer, method, shared in (("from_memory", "gdumb", 0), ("replay", "er", 1), ("fine_tune", "ft", 1)):
        few, many = keys(trainer, method, 12), keys(trainer, method, 18)
        assert [a == b for a, b in zip(few, many, strict=True)] == [k < shared for k in range(3)]
    assert keys("replay", "er", 12)[0] == keys("fine_tune", "ft", 12)[0]  # state 0 is shared
    assert keys("replay", "er", 12)[1] != keys("fine_tune", "ft", 12)[1]


def test_the_perceptron_takes_images_of_any_size():
    network = create_network("mlp", 1, 10, generator_for(1, "network"))
    assert sum(parameter.numel() for parameter in network.parameters()) == 784 * 400 + 400 + 400 * 400 + 400 + 4010
    for side in (8, 28, 40):
        assert network(torch.zeros(2, 1, side, side, dtype=torch.uint8)).shape == (2, 10)
    assert create_network("mlp", 3, 10, generator_for(1, "network"))(torch.zeros(2, 3, 28, 28)).shape == (2, 10)
