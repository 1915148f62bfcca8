"""LUCIR's heads: worked examples, three classes in two dimensions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from scail import heads
from tests.heads.evidence import make_evidence

# The layer's rows have the length of its scale, 10. Classes 0 and 1 are past ones, class 2 is new.
ROWS = [[10, 0], [6, 8], [0, 10]]
EXAMPLE = replace(
    make_evidence(
        ROWS, [0, 0, 0], ROWS, [0, 0, 0], first_state=[0, 0, 1],
        # Cosines with their own rows: 0.6, 1 and (of the new class, which does not count) 0.
        exemplar_features=[[3, 4], [3, 4], [5, 0]], exemplar_labels=[0, 1, 2],
    ),
    new_features_MD=torch.tensor([[0.0, 2.0], [4.0, 3.0]]),  # cosines 1 and 0.6
    new_labels_M=torch.tensor([2, 2]),
)  # fmt: skip
X = torch.tensor([[0.0, 7.0]])  # cosines 0, 0.8 and 1


def test_lucir_is_cosines_times_the_scale():
    torch.testing.assert_close(heads.lucir(EXAMPLE).scores(X), torch.tensor([[0.0, 8.0, 10.0]]))
    torch.testing.assert_close(heads.lucir(EXAMPLE).scores(100 * X), torch.tensor([[0.0, 8.0, 10.0]]))


def test_mean_scores_of_past_and_new_classes_calibrate_past_scores():
    # own scores: past exemplars 6 and 10, mean 8; new images 10 and 6, mean 8: nothing to do
    assert torch.equal(heads.lucir_mc(EXAMPLE).scores(X), heads.lucir(EXAMPLE).scores(X))
    # without the second exemplar: 8 / 6
    few = replace(
        EXAMPLE, exemplar_features_ED=EXAMPLE.exemplar_features_ED[[0, 2]],
        exemplar_labels_E=EXAMPLE.exemplar_labels_E[[0, 2]],
    )  # fmt: skip
    torch.testing.assert_close(heads.lucir_mc(few).scores(X), torch.tensor([[0.0, 8 * 8 / 6, 10.0]]))


@pytest.mark.parametrize(
    "given",
    [
        {"exemplar_features_ED": torch.zeros(0, 2), "exemplar_labels_E": torch.zeros(0, dtype=torch.int64)},
        {"new_features_MD": torch.zeros(0, 2), "new_labels_M": torch.zeros(0, dtype=torch.int64)},
        {"exemplar_features_ED": torch.tensor([[-3.0, -4.0]]), "exemplar_labels_E": torch.tensor([1])},
        {"first_state_C": torch.zeros(3, dtype=torch.int64)},
    ],
)
def test_where_a_mean_says_nothing_past_scores_stay(given):
    evidence = replace(EXAMPLE, **given)
    assert torch.equal(heads.lucir_mc(evidence).scores(X), heads.lucir(evidence).scores(X))
