"""One backbone for several states: what each of them sees, and which weights it keeps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scail.networks.network import create_network, describe_network, network_from
from scail.networks.packed import Packed, Packing, kept_weights, packable
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "images"))


def one_row(*weights):
    layer = nn.Linear(len(weights), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights]))
    return nn.Sequential(layer)


def packed_network(states=2):
    """A network whose weights belong to its states in turns; every fourth one is free."""
    network = create_network("resnet8", 1, 3, generator_for(1, "test"))
    owners = {
        name: (torch.arange(w.numel()) % (states + 1)).view(w.shape).to(torch.int16)
        for name, w in packable(network.backbone).items()
    }
    network.become(Packed(network.backbone, owners), 64 * states)
    network.recreate_linear(3, generator_for(2, "test"))
    return network.eval()


def test_a_state_sees_its_weights_and_those_of_the_states_before():
    # Weights 2 of state 1, 3 of state 2, 5 of nobody.
    backbone = Packed(one_row(2.0, 3.0, 5.0), {"0.weight": torch.tensor([[1, 2, 0]], dtype=torch.int16)})
    assert backbone.states == 2
    assert backbone(torch.tensor([[1.0, 10.0, 100.0]])).tolist() == [[2.0, 32.0]]


def test_the_largest_of_the_free_weights_are_kept():
    weight, free = torch.tensor([[3.0, -1.0], [0.5, -4.0]]), torch.tensor([[True, True], [True, False]])
    assert kept_weights(weight, free, 0.5).tolist() == [[True, True], [False, False]]  # one of three is given up
    assert kept_weights(weight, free, 0.67).tolist() == [[True, False], [False, False]]
    assert kept_weights(weight, free, 0.99).sum() == 1  # never none
    assert kept_weights(weight, free, 0.0).equal(free)


def test_while_a_state_learns_only_free_weights_move():
    packing = Packing(one_row(2.0, 3.0), {"0.weight": torch.tensor([[False, True]])}, norms=False)
    with torch.no_grad():
        packable(packing.backbone)["0.weight"] += 10  # what a step would do, weight decay included
    assert packing(torch.tensor([[1.0, 1.0]])).item() == 2 + 13
    packing(torch.tensor([[1.0, 1.0]])).sum().backward()
    assert packable(packing.backbone)["0.weight"].grad.tolist() == [[0, 1]]


def test_norms_go_by_batches_in_the_first_state_alone():
    backbone = create_network("resnet8", 1, 3, generator_for(1, "test")).backbone
    free = {name: torch.ones_like(w, dtype=torch.bool) for name, w in packable(backbone).items()}
    assert Packing(backbone, free, norms=True).train().backbone.bn1.training
    later = Packing(backbone, free, norms=False).train()
    assert not later.backbone.bn1.training and not later.backbone.bn1.weight.requires_grad
    assert later.backbone.conv1.weight.requires_grad


def test_it_weighs_what_one_network_weighs_and_takes_a_pass_for_each_state():
    one, two = (describe_network(packed_network(states), 8, 8) for states in (1, 2))
    assert two["parameters"] - one["parameters"] == 3 * 64  # of the layer
    assert two["flops"] == 2 * one["flops"]


def test_unpacked_it_gives_the_same_features():
    network = packed_network(3)
    features = network.features(IMAGES)
    network.backbone = network.backbone.unpacked().eval()
    torch.testing.assert_close(network.features(IMAGES), features)


def test_it_is_read_from_its_tensors_and_tensors_that_do_not_fit_are_an_error():
    network = packed_network()
    tensors = network.state_dict()
    assert torch.equal(network_from("resnet8", 1, tensors)(IMAGES), network(IMAGES))
    name = "backbone.owners.conv1-weight"
    without = {key: value for key, value in tensors.items() if key != name}
    nobody = {key: 0 * value if ".owners." in key else value for key, value in tensors.items()}
    for wrong in (without, tensors | {name: tensors[name].float()}, nobody):
        with pytest.raises(ValueError, match="not the weights of resnet8"):
            network_from("resnet8", 1, wrong)
