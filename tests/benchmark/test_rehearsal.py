"""What rows say of their network: worked out a second time, from the networks themselves."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.measured import measured_states
from scail.benchmark.trajectory import Trajectory
from scail.networks.network import extract_features
from scail.runtime.devices import fabric_of
from scail.storage.store import Store


def trajectory_of(tiny, trainer, *methods, memory=12):
    return Trajectory(settle(tiny.but(methods=methods)), trainer, "random" if memory else None, memory, methods)


def test_every_number_is_what_the_networks_themselves_say(tiny, store_dir):
    of = trajectory_of(tiny.but(precision="32-true"), "fine_tune", "ft", "scail")
    store = Store(store_dir)
    rows = [measured.rows for measured in measured_states(of, store, Watch())]
    steps = list(steps_of(of, store, fabric_of(of.configuration.experiment.machine), Watch()))
    data = of.configuration.dataset
    assert rows[0][0].exemplar_top1 is rows[0][0].drift is rows[0][0].floor is rows[0][0].initial_top1 is None
    for step, (ft, scail) in zip(steps, rows, strict=True):
        state, network, memory = step.state, step.learned.network, step.learned.memory
        assert (ft.exemplar_top1, ft.new_top1, ft.drift) == (scail.exemplar_top1, scail.new_top1, scail.drift)

        def top1(indices, labels, network=network):
            with torch.inference_mode():
                scores = network.linear(extract_features(network, data.train.images[indices]))
            return 100 * float((scores.argmax(1) == labels).double().mean())

        assert ft.new_top1 == pytest.approx(top1(state.train_indices, state.train_labels))
        if state.index == 0:
            continue
        past = memory.labels < state.past_classes
        indices, labels = memory.indices[past], memory.labels[past]
        assert ft.exemplar_top1 == pytest.approx(top1(indices, labels))
        assert ft.floor == pytest.approx(100 * 2 / state.num_classes)
        cosines = []
        for index, label in zip(indices.tolist(), labels.tolist(), strict=True):
            first = steps[int(step.learned.evidence.first_state_C[label])].learned.network
            then, now = (extract_features(n, data.train.images[[index]]) for n in (first, network))
            cosines.append(float(F.cosine_similarity(then, now)))
        assert ft.drift == pytest.approx(1 - sum(cosines) / len(cosines), abs=1e-5)
        assert ft.learned == (ft.top1 > ft.floor + 2 and ft.exemplar_top1 >= 50)


def test_a_network_that_never_moves_does_not_drift(tiny, store_dir):
    of = trajectory_of(tiny, "frozen_svm", "deesil")
    rows = [measured.rows[0] for measured in measured_states(of, Store(store_dir), Watch())]
    assert [row.drift for row in rows[1:]] == pytest.approx([0, 0], abs=1e-6)
    assert all(row.exemplar_top1 is not None for row in rows[1:])


def test_trained_long_enough_it_has_learned_and_untrained_it_has_not(tiny, store_dir):
    def last(epochs, lr):
        changed = tiny.recipe.schedules.with_epochs(epochs).but([("later", "lr", lr)])
        of = trajectory_of(
            tiny.but(later_schedule=changed["later"], first_schedule=changed["first"]), "fine_tune", "ft"
        )
        return [measured.rows[0] for measured in measured_states(of, Store(store_dir), Watch())][-1]

    assert last(40, 0.1).learned is True
    lazy = last((10, 1), 1e-6)
    assert lazy.learned is False and lazy.exemplar_top1 < 50


def test_without_a_memory_there_is_nothing_to_rehearse(tiny, store_dir):
    of = trajectory_of(tiny, "fine_tune", "ft", memory=0)
    for measured in measured_states(of, Store(store_dir), Watch()):
        assert measured.rows[0].exemplar_top1 is None and measured.rows[0].drift is None
