"""How good a classifier is, without a held-out image: each learned image, by the classifier that never saw it.

For heads that are made of moments there is a closed form: nothing is learned anew. The same scores make odds of the
scores, and say how strange a known image may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from scail.classifier.model import Model
from scail.classifier.odds import POWER, Odds, best_odds, odds_of_best
from scail.evaluation import top_k_accuracy
from scail.heads.strangeness import Familiar, distance_between_kinds, moments_at_hand, similar_left_out
from scail.methods import METHODS, Method
from scail.moments import Moments

KNOWN_SHARE = 0.95
"""So many of the learned images are not unknown."""
SUCCESSION = 2 / 3
"""What one image of each class tells: after one success the next one has these odds, by Laplace's rule."""
_MOST, _MOST_A_CLASS = 5000, 50  # images that are looked at: enough for every number here, whatever was learned
_LEAST, _MOST_SCORES = 500, 2**21  # of thousands of classes fewer, so that one more class is learned in seconds


@dataclass(frozen=True)
class LeftOut:
    """Scores of learned images, each by the classifier that never saw it."""

    scores_NC: Tensor
    labels_N: Tensor

    @property
    def accuracy(self) -> dict[str, float]:
        """Top-1 and top-5 in percent, and how many images there are."""
        top1, top5 = (top_k_accuracy(self.scores_NC, self.labels_N, k) for k in (1, 5))
        return {"top1": top1, "top5": top5, "images": len(self.labels_N)}

    def of_classes(self, classes: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        """Per class how many images there are, and how many of them are right; the worst first."""
        right = self.scores_NC.argmax(1) == self.labels_N
        images, good = (torch.bincount(at, minlength=len(classes)) for at in (self.labels_N, self.labels_N[right]))
        found = {name: (n, k) for name, n, k in zip(classes, images.tolist(), good.tolist(), strict=True) if n}
        return dict(sorted(found.items(), key=lambda item: item[1][1] / item[1][0]))


def left_out(model: Model) -> LeftOut | None:
    """Of all images that are kept as numbers, a few of each class; None where there is no closed form for them."""
    closed_form, moments = METHODS[model.settings.method].left_out, model.learned.evidence.moments
    if closed_form is None or moments is None:
        return None
    features_ND, labels_N = _at_hand(model)
    others = moments.count_C[labels_N] > 1  # the only image of its class cannot be left out
    features_ND, labels_N = features_ND[others], labels_N[others]
    if len(labels_N) == 0:
        return None
    return LeftOut(closed_form(moments, features_ND, labels_N), labels_N)


def odds_left_out(method: Method, moments: Moments, found: LeftOut) -> Odds:
    """Odds that can be trusted. The classifier has seen one image more of each class than the one that left it out."""
    scores_NC, labels_N = found.scores_NC, found.labels_N
    if method.behind is not None:
        scores_NC = scores_NC.scatter_add(1, labels_N[:, None], method.behind(moments)[labels_N][:, None])
    return odds_of_best(scores_NC, labels_N)


def _at_hand(model: Model) -> tuple[Tensor, Tensor]:
    """Features and labels of learned images: of all calls, or, where they were not kept, of exemplars and new ones."""
    evidence = model.learned.evidence
    if model.seen:
        features = torch.cat([seen.features_ND for seen in model.seen])
        labels = torch.cat([seen.labels_N for seen in model.seen])
    else:
        past = evidence.exemplar_labels_E < evidence.past
        features = torch.cat([evidence.exemplar_features_ED[past], evidence.new_features_MD])
        labels = torch.cat([evidence.exemplar_labels_E[past], evidence.new_labels_M])
    classes = max(1, len(evidence.bias_C))
    most = min(_MOST, max(_LEAST, _MOST_SCORES // classes))
    each = max(2, min(_MOST_A_CLASS, _MOST // classes))
    rows = [_spread((labels == c).nonzero().flatten(), each) for c in torch.unique(labels).tolist()]
    chosen = torch.cat(rows) if rows else torch.empty(0, dtype=torch.int64)
    chosen = _spread(chosen, most)
    return features[chosen], labels[chosen]


def _spread(rows: Tensor, most: int) -> Tensor:
    """At most so many of the rows, evenly over all of them."""
    return rows if len(rows) <= most else rows[torch.linspace(0, len(rows) - 1, most).round().long()]


def calibrated(model: Model) -> Model:
    """With odds that can be trusted, and the scale on which it tells the unknown."""
    found, moments, method = left_out(model), model.learned.evidence.moments, METHODS[model.settings.method]
    features_ND, labels_N = _at_hand(model)
    if found is not None and moments is not None:
        odds = odds_left_out(method, moments, found)
    elif len(model.held_out.images):
        odds = best_odds(model.scores(model.held_out.images), model.held_out.memory.labels)
    elif method.left_out is not None and len(labels_N):
        odds = best_odds(model.head().scores(features_ND), labels_N, POWER, SUCCESSION)
    else:  # on what it was trained with: they will be too sure
        odds = best_odds(model.head().scores(features_ND), labels_N) if len(labels_N) else Odds()
    accuracy = None if found is None else found.accuracy
    return replace(model, odds=odds, familiar=_familiar(model, features_ND, labels_N), left_out=accuracy)


def _familiar(model: Model, features_ND: Tensor, labels_N: Tensor) -> Familiar | None:
    moments = moments_at_hand(model.learned.evidence)
    if moments is None:
        return None
    others = moments.count_C[labels_N] > 1
    if not bool(others.any()):
        return None
    similar = similar_left_out(moments, features_ND[others], labels_N[others])
    return Familiar.of(similar, KNOWN_SHARE, distance_between_kinds(features_ND, labels_N))
