from __future__ import annotations

import numpy as np
import pytest

from scail.classifier.groups import alike


def test_pictures_that_look_alike_are_one_group_and_the_largest_comes_first():
    draw = np.random.RandomState(0)
    middles = draw.randn(3, 20)
    of = [0] * 4 + [1] * 9 + [2] * 6
    features = [middles[kind] + 0.2 * draw.randn(20) for kind in of]
    groups = alike(features, 0.3)
    assert [len(rows) for rows in groups] == [9, 6, 4]
    assert all(len({of[row] for row in rows}) == 1 for rows in groups)
    middle = np.mean([f / np.linalg.norm(f) for f in (features[row] for row in groups[0])], axis=0)
    near = [features[row] @ middle / np.linalg.norm(features[row]) for row in groups[0]]
    assert near == sorted(near, reverse=True)  # those in the middle first


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [[0]])])
def test_few_pictures(count, expected):
    assert alike([np.ones(3)] * count, 0.3) == expected


def test_how_far_they_may_be_apart_decides():
    features = [np.array([1.0, 0.0]), np.array([1.0, 1.0])]  # 1 - cosine: 0.29
    assert len(alike(features, 0.2)) == 2 and len(alike(features, 0.4)) == 1
