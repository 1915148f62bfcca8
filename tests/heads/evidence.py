"""Builders of `Evidence` for the tests of the heads."""

import torch
from hypothesis import strategies as st

from scail.heads import Evidence


def make_evidence(
    weight, bias, initial_weight, initial_bias, first_state, exemplar_features=(), exemplar_labels=()
) -> Evidence:
    """Evidence from plain lists; what no head under test reads is left at zero."""
    weight_CD = torch.tensor(weight, dtype=torch.float32)
    num_classes, feature_size = weight_CD.shape
    return Evidence(
        weight_CD=weight_CD,
        bias_C=torch.tensor(bias, dtype=torch.float32),
        initial_weight_CD=torch.tensor(initial_weight, dtype=torch.float32),
        initial_bias_C=torch.tensor(initial_bias, dtype=torch.float32),
        first_state_C=torch.tensor(first_state),
        train_count_C=torch.zeros(num_classes, dtype=torch.int64),
        initial_score_C=torch.zeros(num_classes),
        exemplar_score_C=torch.zeros(num_classes),
        top_score_S=torch.zeros(max(first_state) + 1),
        exemplar_features_ED=torch.tensor(exemplar_features, dtype=torch.float32).reshape(-1, feature_size),
        exemplar_labels_E=torch.tensor(exemplar_labels, dtype=torch.int64),
        new_features_MD=torch.zeros(0, feature_size),
        new_labels_M=torch.zeros(0, dtype=torch.int64),
    )


@st.composite
def evidences(draw) -> Evidence:
    """Any number of states, classes and features; whole numbers now and then, so that there are zeros and ties."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    first_state = [state for state, size in enumerate(sizes) for _ in range(size)]
    num_classes, feature_size = len(first_state), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    rows = 3 * torch.randn(2, num_classes, feature_size + 1, generator=generator)
    current, initial = rows.round() if draw(st.booleans()) else rows
    new = torch.tensor(first_state) == len(sizes) - 1
    initial[new] = current[new]  # the initial row of a new class is its current one
    return make_evidence(
        current[:, 1:].tolist(), current[:, 0].tolist(), initial[:, 1:].tolist(), initial[:, 0].tolist(), first_state
    )
