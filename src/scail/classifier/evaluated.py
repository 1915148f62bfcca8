"""How good a classifier is on labelled images: in all, of each class, and what is taken for what.

Shapes: N images, C classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scail.classifier.inputs import labels_of
from scail.evaluation import top_k_accuracy

_NOT_KNOWN = "unknown"


@dataclass(frozen=True)
class Evaluated:
    """What was said of labelled images. A class that was never learned counts apart: no answer of it can be right."""

    top1: float | None
    """In percent, of images of known classes; None where there are none."""
    top5: float | None
    images: int
    """How many of known classes there were."""
    said: dict[str, Counter[str]]
    """Per known class what was said of its images, the worst class first."""
    never_learned: dict[str, Counter[str]]
    """The same of classes that were never learned."""

    def right(self, name: str) -> tuple[int, int]:
        """Images of a class, and how many of them are right."""
        return self.said[name].total(), self.said[name][name]

    def confusions(self) -> list[tuple[str, str, int]]:
        """True class, what was said, how often: the most frequent first."""
        found = [(name, other, n) for name, said in self.said.items() for other, n in said.items() if other != name]
        return sorted(found, key=lambda one: -one[2])

    def record(self) -> dict[str, Any]:
        """As JSON."""
        by_class = {name: dict(zip(("images", "right"), self.right(name), strict=True)) for name in self.said}
        return {
            "top1": self.top1, "top5": self.top5, "images": self.images,
            "by_class": {name: {**of, "top1": 100 * of["right"] / of["images"]} for name, of in by_class.items()},
            "confusions": [
                {**dict(zip(("class", "said"), labels_of((a, b)), strict=True)), "images": n}
                for a, b, n in self.confusions()
            ],
            "never_learned": {name: {"images": s.total(), "said": dict(s)} for name, s in self.never_learned.items()},
        }  # fmt: skip


def evaluated(
    classes: Sequence[str], scores_NC: Tensor, names: Sequence[str], unknown_N: Tensor | None = None
) -> Evaluated:
    """Of these scores and the true names. `unknown_N`: which images are said to be unknown.

    >>> found = evaluated(("a", "b"), torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 1.0]]), ["a", "b", "z"])
    >>> found.top1, found.confusions(), found.never_learned
    (50.0, [('b', 'a', 1)], {'z': Counter({'b': 1})})
    """
    number = {name: c for c, name in enumerate(classes)}
    own = {name: name for name in classes}  # a label that was given as a number is one, whatever the data call it
    names = [own.get(name, name) for name in names]
    answers = [classes[c] for c in scores_NC.argmax(1).tolist()]
    if unknown_N is not None:
        answers = [_NOT_KNOWN if strange else a for a, strange in zip(answers, unknown_N.tolist(), strict=True)]
        scores_NC = scores_NC.masked_fill(unknown_N[:, None], -torch.inf)
    said = dict[str, Counter[str]]()
    for name, answer in zip(names, answers, strict=True):
        said.setdefault(name, Counter())[answer] += 1
    known = {name: counts for name, counts in said.items() if name in number}
    worst = sorted(known.items(), key=lambda item: (item[1][item[0]] / item[1].total(), item[0]))
    rows = torch.tensor([i for i, name in enumerate(names) if name in number], dtype=torch.int64)
    truth = torch.tensor([number[names[row]] for row in rows.tolist()], dtype=torch.int64)
    top1, top5 = (top_k_accuracy(scores_NC[rows], truth, k) if len(rows) else None for k in (1, 5))
    strangers = {name: counts for name, counts in said.items() if name not in number}
    return Evaluated(top1, top5, len(rows), dict(worst), strangers)
