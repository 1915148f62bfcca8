"""Checkpoints of a training. That a resumed one ends with the same bits: tests/benchmark/test_resume.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from scail.config import Schedule
from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.training import Joint
from tests.training.test_loop import task


@pytest.mark.parametrize(
    "facts", [{}, {"batch": "1", "loss": 0.0, "losses": []}, {"batch": 0, "loss": 0, "losses": [[]]}]
)
@pytest.mark.parametrize("whole", [True, False], ids=["its weights", "no weights"])
def test_a_checkpoint_of_something_else_is_a_clear_error(facts, whole, tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.safetensors")
    network = create_network("resnet8", 1, 2, generator_for(0, "any"))
    weights = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    checkpoint.stage("training").save(Entry(weights if whole else {"x": torch.ones(1)}, facts))
    with pytest.raises(ValueError, match=r"a\.training\.safetensors: not the checkpoint of this training; remove it"):
        Joint("resnet8", Schedule(epochs=1, lr=0.1, batch_size=4)).train(replace(task(), checkpoint=checkpoint))
