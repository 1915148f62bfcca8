"""Which number format `auto` comes to, that it is in every key, and what stays in 32 bits."""

from __future__ import annotations

import json
import math

import pytest
import torch

from scail.benchmark.configuration import describe, provenance_of, settle
from scail.benchmark.trajectory import Trajectory, facts_of, keys_of
from scail.config import Schedule
from scail.datasets.images.batches import Augmentation
from scail.learner import Rows, train_state
from scail.networks import precision
from scail.networks.network import extract_features
from scail.networks.precision import quick_bf16, used_precision
from scail.runtime.devices import make_fabric
from scail.storage.store import Store
from scail.training import Interrupted, Joint, Task

FORMATS = ["32-true", "bf16-mixed"]  # without instructions for it bfloat16 is slow, and the same


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch, tmp_path):
    quick_bf16.cache_clear()
    monkeypatch.setenv("SCAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    yield
    quick_bf16.cache_clear()


def processor(monkeypatch, *flags, machine="x86_64"):
    """A machine whose processor has these instructions."""
    monkeypatch.setattr(precision.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(flags, True) | {"sse": False, "cores": 2})


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("avx2",), "32-true"),
        (("avx512_f",), "32-true"),
        (("avx512_bf16",), "bf16-mixed"),
        (("amx_bf16",), "bf16-mixed"),
    ],
)
def test_a_processor_is_known_by_its_instructions(monkeypatch, flags, expected):
    processor(monkeypatch, *flags)
    monkeypatch.setattr(precision, "_gain", lambda kind: pytest.fail("there is no doubt"))
    assert used_precision("auto") == used_precision("auto", "cpu") == expected
    assert used_precision("16-mixed") == "16-mixed"
    assert used_precision("32-true") == "32-true"


def test_an_older_torch_asks_the_system(monkeypatch):
    processor(monkeypatch)
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    found = precision._cpu_flags()
    assert found is None or "fpu" in found  # None: a system without /proc


@pytest.mark.parametrize(
    ("capability", "expected"), [((7, 5), "32-true"), ((8, 0), "bf16-mixed"), ((9, 0), "bf16-mixed")]
)
def test_a_gpu_is_known_by_its_capability_unless_the_cpu_is_asked_for(monkeypatch, capability, expected):
    processor(monkeypatch, "avx2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert used_precision("auto") == expected
    assert used_precision("auto", "cpu") == "32-true"


@pytest.mark.parametrize(("gain", "expected"), [(1.1, "32-true"), (1.7, "bf16-mixed")])
def test_in_doubt_a_few_steps_are_timed_once_and_remembered(monkeypatch, gain, expected):
    processor(monkeypatch, machine="aarch64")
    monkeypatch.setattr(precision, "_gain", lambda kind: gain)
    assert used_precision("auto") == expected
    quick_bf16.cache_clear()
    monkeypatch.setattr(precision, "_gain", lambda kind: pytest.fail("it was measured before"))
    assert used_precision("auto") == expected


def test_the_timing_itself_gives_a_ratio():
    assert 0 < precision._gain("cpu") < math.inf


def test_what_auto_came_to_is_said_and_in_keys_and_records(monkeypatch, tiny):
    def settled(asked, *flags):
        quick_bf16.cache_clear()
        processor(monkeypatch, *flags)
        return settle(tiny.but(precision=asked, methods=("ft",)))

    def keys(configuration):
        of = Trajectory(configuration, "fine_tune", "random", 12, ("ft",))
        return keys_of(of, ("cpu", "same"), lambda state: "data")

    slow, quick = settled("auto", "avx2"), settled("auto", "avx512_bf16")
    assert keys(slow) == keys(settled("32-true")) != keys(quick) == keys(settled("bf16-mixed"))
    assert not set(keys(slow)) & set(keys(quick))  # machines of both kinds share a store
    for configuration, name in ((slow, "32-true"), (quick, "bf16-mixed")):
        assert configuration.experiment.record()["precision"] == name
        assert provenance_of(configuration, "cpu")["precision"] == name
        assert f"precision {name}" in describe(configuration)


def test_a_record_in_32_bits_has_the_facts_that_it_always_had(tiny):
    configuration = settle(tiny.but(precision="32-true", methods=("ft",)))
    of = Trajectory(configuration, "fine_tune", "random", 12, ("ft",))
    facts = facts_of(of, of.states[0], [], "data", ("cpu", "same"))
    assert facts["precision"] == "32-true" and "features" not in facts
    json.dumps(facts)


def task_in(name, **given):
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (24, 1, 8, 8), dtype=torch.uint8, generator=draw)
    labels = torch.arange(24) % 3
    return Task(0, images, labels, 3, None, Augmentation(1), 5, make_fabric("cpu", name), **given)


SCHEDULE = Schedule(epochs=2, lr=0.05, batch_size=8)


@pytest.mark.parametrize("name", FORMATS)
def test_weights_statistics_and_features_have_32_bits(name):
    task = task_in(name)
    rows = Rows(torch.arange(24), torch.arange(0))
    trained = train_state(Joint("resnet8", SCHEDULE), task, rows)
    kinds = {tensor.dtype for tensor in trained.network.state_dict().values()}
    assert kinds <= {torch.float32, torch.int64}
    assert trained.features_ND.dtype == torch.float32
    # not one of them was rounded on its way: they are what the network says in 32 bits
    assert torch.equal(trained.features_ND, extract_features(trained.network, task.images))
    assert not torch.equal(trained.features_ND, trained.features_ND.bfloat16().float())


def test_the_training_itself_is_in_bfloat16():
    networks = [Joint("resnet8", SCHEDULE).train(task_in(name)).state_dict() for name in FORMATS]
    assert any(not torch.equal(tensor, networks[1][key]) for key, tensor in networks[0].items())


@pytest.mark.parametrize("name", FORMATS)
def test_same_seed_same_bits_also_after_a_stop(name, store_dir):
    first = Joint("resnet8", SCHEDULE).train(task_in(name))
    trainer = Joint("resnet8", SCHEDULE)
    whole = trainer.train(task_in(name)).state_dict()
    assert all(torch.equal(tensor, whole[key]) for key, tensor in first.state_dict().items())
    for stop_after in (1, 3, 5):
        batches = iter(range(1, 100))
        checkpoint = Store(store_dir).checkpoint(f"{name}-{stop_after}")
        with pytest.raises(Interrupted):
            trainer.train(task_in(name, checkpoint=checkpoint, stop_asked=lambda b=batches, s=stop_after: next(b) == s))
        resumed = trainer.train(task_in(name, checkpoint=checkpoint)).state_dict()
        assert all(torch.equal(tensor, resumed[key]) for key, tensor in whole.items())
