"""Pictures that were learned before, or stand twice in one call."""

from __future__ import annotations

import torch

from scail.classifier.repeats import first_seen


def test_a_picture_under_two_names_is_learned_as_both_and_said():
    images = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 1, 8, 8)[[0, 0, 1, 2, 2]]
    found = first_seen(None, images, ["cat", "dog", "cat", "dog", "dog"])
    assert found.names == ["cat", "dog", "cat", "dog"] and len(found.images) == 4
    several, twice = found.notes
    assert several.startswith("1 pictures stand here under several names, the first under cat, dog")
    assert twice.startswith("1 of 5 images were learned before, or stand here twice")
