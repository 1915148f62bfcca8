"""A wider top: a worked example, and that it comes back from its tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scail.networks.network import create_network, describe_network, network_from
from scail.networks.widened import Widened, with_wider_top
from scail.runtime.seeds import generator_for

IMAGES = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=generator_for(2, "images"))


class Doubled(nn.Module):
    """A trunk that doubles, and a top that does nothing."""

    def pieces(self):
        return [lambda x: 2 * x, lambda x: x]


def widened(name="resnet8", groups=2, width=20):
    network = create_network(name, 1, 3, generator_for(1, "test"))
    for n in range(groups):
        wider = with_wider_top(network.backbone, width, generator_for(n, "units"))
        network.become(wider, network.feature_size + width)
    network.recreate_linear(4, generator_for(2, "test"))
    return network.eval()


def test_each_group_has_unit_length_times_its_scale():
    new = nn.Linear(2, 1, bias=False)
    nn.init.ones_(new.weight)
    backbone = Widened(Doubled(), [new])
    with torch.no_grad():
        backbone.scales.copy_(torch.tensor([5.0, 3.0]))
    # The trunk shows (3, 4) * 2, the new unit 14.
    torch.testing.assert_close(backbone(torch.tensor([[3.0, 4.0]])), torch.tensor([[3.0, 4.0, 3.0]]))


def test_scales_that_were_learned_stay_where_one_more_group_comes():
    before = widened(groups=1).backbone
    with torch.no_grad():
        before.scales.copy_(torch.tensor([5.0, 3.0]))
    after = with_wider_top(before, 20, generator_for(3, "units"))
    assert after.scales.tolist() == [5, 3, 10] and after.tops[0] is before.tops[0]


def test_all_of_it_learns_and_it_weighs_its_new_units():
    network = widened().train()
    network(IMAGES).square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    one, two = (describe_network(widened(groups=n), 8, 8) for n in (1, 2))
    new = two["parameters"] - one["parameters"] - 4 * 20
    assert new == 32 * 20 * 9 + 20 * 20 * 9 + 4 * 20 + 1  # two convolutions, two norms, a scale


@pytest.mark.parametrize("name", ["resnet8", "resnet18-3x3", "mlp", "efficientnet-lite0"])
def test_it_is_read_from_its_tensors(name):
    network = widened(name)
    assert torch.equal(network_from(name, 1, network.state_dict())(IMAGES), network(IMAGES))


def test_tensors_that_do_not_fit_are_an_error():
    tensors = widened().state_dict()
    for wrong in (tensors | {"linear.weight": torch.zeros(4, 64)}, tensors | {"linear.weight": torch.zeros(4, 90)}):
        with pytest.raises(ValueError, match="not the weights of resnet8"):
            network_from("resnet8", 1, wrong)
