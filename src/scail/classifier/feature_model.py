"""What a classifier without a backbone has learned: moments of features, and a head that is made of them.

Moments add up: learned in one call or in a hundred, it is the same classifier, and nothing is forgotten.

Shapes: N rows, C classes, D features.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.classifier.left_out import LeftOut, odds_left_out
from scail.classifier.odds import POWER, Odds
from scail.config.recipes import FROZEN_METHOD
from scail.heads import Evidence, LinearHead
from scail.methods import METHODS
from scail.moments import Moments

_MOST = 5000  # rows that odds are fitted to


def feature_methods() -> list[str]:
    """The methods whose heads are made of moments alone."""
    return [name for name, of in METHODS.items() if of.trainer == "frozen" and of.left_out is not None]


def check_feature_method(name: str) -> str:
    """The method that is meant; an error if it needs images."""
    method = FROZEN_METHOD if name == "auto" else name
    if method not in feature_methods():
        raise ValueError(
            f"method {name!r} needs images; on features (backbone=None) these can learn: {', '.join(feature_methods())}"
        )
    return method


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Labels, moments and odds after all that was learned."""

    method: str
    labels: NDArray[Any]
    """The classes as they were given; of some perhaps nothing was seen yet."""
    moments: Moments
    odds: Odds = field(default_factory=Odds)

    @classmethod
    def learned(
        cls, before: Self | None, method: str, X: NDArray[Any], y: NDArray[Any], classes: Any = None
    ) -> FeatureModel:
        """With these rows, beside those before. `classes`: all that can come with them."""
        named = np.unique(y if classes is None else np.asarray(classes))
        if strange := sorted(set(y.tolist()) - set(named.tolist())):
            raise ValueError(f"label {strange[0]!r} is not among the classes {named.tolist()}")
        labels = named if before is None else np.concatenate([before.labels, named[~np.isin(named, before.labels)]])
        at = {label: c for c, label in enumerate(labels.tolist())}
        features_ND, labels_N = torch.tensor(X), torch.tensor([at[label] for label in y.tolist()])
        moments = Moments.of(features_ND, labels_N, len(labels))
        found = cls(method, labels, moments if before is None else before.moments + moments)
        return replace(found, odds=found._odds(features_ND[:_MOST], labels_N[:_MOST]))

    def _odds(self, features_ND: Tensor, labels_N: Tensor) -> Odds:
        """Odds that can be trusted: rows that were just learned, each by the classifier that never saw it."""
        method, seen = METHODS[self.method], self._seen
        others = self.moments.count_C[labels_N] > 1
        if method.left_out is None or not bool(others.any()) or int((self.moments.count_C > 0).sum()) < 2:
            return Odds(power=POWER)
        place_C = torch.cumsum(self.moments.count_C > 0, 0) - 1
        labels_N = place_C[labels_N[others]]
        return odds_left_out(method, seen, LeftOut(method.left_out(seen, features_ND[others], labels_N), labels_N))

    @cached_property
    def _seen(self) -> Moments:
        """The moments of the classes of which something was seen."""
        some = self.moments.count_C > 0
        return Moments(self.moments.count_C[some], self.moments.sum_CD[some], self.moments.gram_DD)

    @cached_property
    def _head(self) -> LinearHead:
        classes, nothing = len(self._seen.count_C), torch.zeros(0)
        none_ED, whole = torch.zeros(0, self.moments.sum_CD.shape[1]), torch.zeros(0, dtype=torch.int64)
        head = METHODS[self.method].head(
            Evidence(
                torch.zeros(classes, 0), torch.zeros(classes), torch.zeros(classes, 0), torch.zeros(classes),
                torch.zeros(classes, dtype=torch.int64), self._seen.count_C, torch.zeros(classes), torch.zeros(classes),
                nothing, none_ED, whole, none_ED, whole, self._seen,
            )
        )  # fmt: skip
        # In double precision the score of a row does not depend on the rows beside it.
        return replace(head, weight_CD=head.weight_CD.double(), bias_C=head.bias_C.double())

    def scores(self, X: NDArray[Any]) -> Tensor:
        """N x C scores; -inf for classes of which nothing was seen."""
        scores_NC = torch.full((len(X), len(self.labels)), -torch.inf, dtype=torch.float64)
        scores_NC[:, self.moments.count_C > 0] = self._head.scores(torch.tensor(X))
        return scores_NC
