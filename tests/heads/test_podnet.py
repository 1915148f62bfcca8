"""PODNet's head: a worked example, three classes of two rows each in two dimensions."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from scail import heads
from tests.heads.evidence import make_evidence

# Rows as long as the scale, 5; two of each class, one after the other.
ROWS = [[5, 0, 0, 5], [3, 4, 3, 4], [0, 5, 0, -5]]
EVIDENCE = replace(make_evidence(ROWS, [0] * 3, ROWS, [0] * 3, [0, 0, 1]), new_features_MD=torch.zeros(0, 2))


def test_each_class_is_as_similar_as_its_rows_the_nearer_ones_more_so():
    head = heads.podnet(EVIDENCE)
    # (0, 2): cosines (0, 1), (0.8, 0.8), (1, -1), each mean weighed by its softmax
    one, both = math.e / (1 + math.e), (math.e - 1 / math.e) / (math.e + 1 / math.e)
    torch.testing.assert_close(head.scores(torch.tensor([[0.0, 2.0]])), torch.tensor([[5 * one, 4, 5 * both]]))
    assert (head.proxies, head.scale) == (2, 5)
    assert head.weight_CD.shape == (6, 2) and head.bias_C.shape == (3,)


def test_no_images_have_no_scores():
    assert heads.podnet(EVIDENCE).scores(torch.zeros(0, 2)).shape == (0, 3)


def test_a_class_can_be_closed():
    head = heads.podnet(EVIDENCE)
    closed = replace(head, bias_C=torch.tensor([0.0, -torch.inf, 0.0]))
    assert closed.scores(torch.tensor([[3.0, 4.0]]))[0, 1] == -torch.inf
