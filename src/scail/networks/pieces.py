"""Backbones in pieces, one behind the other: stages of a ResNet, layers of a perceptron. Some grow piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from scail.networks.resnet import unfilled

Piece = Callable[[Tensor], Tensor]


def pieces_of(backbone: nn.Module) -> list[Piece]:
    """What its `forward` does, one after the other; an error where it does not say."""
    found: list[Piece] = _of(backbone, "pieces")()
    return found


def another_top(backbone: nn.Module, width: int) -> nn.Module:
    """A module like its last piece, of so many units, still to be filled in; an error where it does not say."""
    make: Callable[[int], nn.Module] = _of(backbone, "another_top")
    return unfilled(lambda: make(width))


def _of(backbone: nn.Module, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(backbone, name, None)
    if found is None:
        raise ValueError(
            f"a network that grows piece by piece shows its pieces, and {type(backbone).__name__} shows none; take one "
            "of scail's ResNets or EfficientNets, such as resnet8 or efficientnet-lite0"
        )
    return found
