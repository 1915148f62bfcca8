"""Layers that go by angles: numbers worked by hand, three classes in two dimensions."""

from __future__ import annotations

import math

import pytest
import torch

from scail.networks.cosine_linear import CosineLinear
from scail.networks.network import classes_of, create_network, describe_network, network_from
from scail.runtime.seeds import generator_for

# Along (0, 1), along (1, 0), and half way between: lengths do not matter.
ROWS = [[0.0, 2.0], [5.0, 0.0], [1.0, 1.0]]
HALF = math.sqrt(0.5)


def layer(rows, scale=1.0, proxies=1):
    found = CosineLinear(2, len(rows), proxies)
    with torch.no_grad():
        found.weight.copy_(torch.tensor(rows))
        found.scale.fill_(scale)
    return found


def test_scores_are_cosines_times_the_scale():
    scores = layer(ROWS, scale=4.0)(torch.tensor([[0.0, 3.0], [2.0, 2.0]]))
    torch.testing.assert_close(scores, torch.tensor([[4, 0, 4 * HALF], [4 * HALF, 4 * HALF, 4]]))


def test_of_several_rows_a_class_the_more_similar_ones_weigh_more():
    # Class 0 has rows along both axes, class 1 twice the same one, class 2 one of each side of it.
    of = layer([[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, -1]], scale=2.0, proxies=2)
    scores = of(torch.tensor([[0.0, 1.0]]))
    # cosines (1, 0), (0, 0), (1, -1); weights of the first: e / (e + 1), any, e / (e + 1/e)
    first, last = math.e / (math.e + 1), math.e / (math.e + 1 / math.e)
    torch.testing.assert_close(scores, torch.tensor([[2 * first, 0, 2 * (last - (1 - last))]]))


def test_rows_that_are_held_stay_and_score_as_before():
    of, images = layer(ROWS), torch.tensor([[1.0, 3.0]])
    before = of(images)
    of.hold(2)
    assert torch.equal(of(images), before)
    optimizer = torch.optim.SGD(of.parameters(), 0.5, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        of(images)[0, 1].backward()
        of(images)[0, 2].backward()
        optimizer.step()
    of.release()
    assert torch.equal(of.weight[:2], torch.tensor(ROWS[:2])) and not torch.equal(of.weight[2], torch.tensor(ROWS[2]))
    assert set(of.state_dict()) == {"weight", "scale"}


def test_classes_are_added_and_taken_out():
    of = layer(ROWS, scale=3.0).extended(torch.tensor([[7.0, 0.0]]))
    assert of.weight.tolist() == [*ROWS, [7.0, 0.0]] and of.scale.item() == 3 and of.out_features == 4
    few = of.only(torch.tensor([0, 3]))
    assert few.weight.tolist() == [ROWS[0], [7.0, 0.0]] and few.scale.item() == 3 and few.out_features == 2
    torch.testing.assert_close(few.scaled_rows(), torch.tensor([[0.0, 3.0], [3.0, 0.0]]))


@pytest.mark.parametrize("proxies", [1, 3])
def test_a_network_with_such_a_layer_is_read_from_its_tensors(proxies):
    network = create_network("resnet8", 1, 4, generator_for(0, "test")).eval()
    plain = describe_network(network, 8, 8)["flops"]
    network.linear = CosineLinear(64, 4, proxies).drawn(generator_for(1, "test"))
    assert describe_network(network, 8, 8)["flops"] == plain + (proxies - 1) * 2 * 4 * 64
    tensors = network.state_dict()
    again = network_from("resnet8", 1, tensors)
    images = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "test"))
    assert torch.equal(again(images), network(images)) and classes_of(tensors) == 4
    for wrong in (torch.zeros(4, 63), torch.zeros(4), torch.zeros(4, 0)):
        with pytest.raises(ValueError, match="not the weights of resnet8"):
            network_from("resnet8", 1, tensors | {"linear.weight": wrong})


@pytest.mark.parametrize(("name", "maps"), [("resnet8", 3), ("mlp", 2), ("efficientnet-lite0", 7)])
def test_a_network_shows_what_is_inside_and_scores_as_it_does_without(name, maps):
    network = create_network(name, 1, 4, generator_for(0, "test")).eval()
    images = torch.randint(0, 256, (2, 1, 32, 32), dtype=torch.uint8, generator=generator_for(2, "test"))
    shown = network(images, inside="maps")
    assert torch.equal(shown.scores_NC, network(images)) and torch.equal(shown.features_ND, network.features(images))
    assert len(shown.maps) == maps and all(of.ndim == 4 and len(of) == 2 for of in shown.maps)
    assert network(images, inside="features").maps == [] and shown.scale.item() == 1
