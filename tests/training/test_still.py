"""A network of which the layer alone learns."""

from __future__ import annotations

from scail.networks.network import create_network
from scail.runtime.seeds import generator_for
from scail.training.still import held


def test_nothing_of_the_backbone_moves_meanwhile_and_afterwards_what_moved_before():
    network = create_network("resnet8", 1, 3, generator_for(1, "test"))
    network.grow()
    with held(network):
        network.train()
        assert network.linear.training and not any(module.training for module in network.backbone.modules())
        assert not any(p.requires_grad for p in network.backbone.parameters())
    network.train()
    for n, part in enumerate(network.backbone.parts):
        assert all(p.requires_grad == bool(n) for p in part.parameters()) and part.training == bool(n)
