"""FrozenSvm: DeeSIL. The network of state 0 stays as it is; each class gets a linear SVM when it is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from scail.config import Recipe, Schedules
from scail.networks.network import Network
from scail.runtime.seeds import generator_for
from scail.training.from_memory import kept_rows
from scail.training.joint import Joint
from scail.training.task import Task, Trained
from scail.training.trainer import Trainer, check_shapes

GRID = (1e-4, 1e-3, 1e-2, 1.0, 10.0, 100.0, 1000.0)  # the paper's choice of C


@dataclass(frozen=True)
class FrozenSvm(Trainer):
    """Unit-length features of the frozen network; one SVM per class against all images of others available then."""

    title = "DeeSIL"
    schedules = ("first",)
    own_layer = False
    least_classes = 2
    first: Joint
    few_negatives: bool = False
    """Against at most B: what random selection keeps of every class, new ones too. So it is in the authors' script."""

    @classmethod
    def of(cls, recipe: Recipe, schedules: Schedules, total_classes: int | None) -> Self:
        """State 0 as in `Joint`."""
        return cls(Joint.of(recipe, schedules, total_classes), recipe.few_negatives)

    def train(self, task: Task) -> Network:
        """State 0's network, for ever; the layer that it was trained with has no part in the method."""
        if task.previous is None:
            return self.first.train(task)
        network = task.previous.clone()
        network.recreate_linear(task.num_classes, generator_for(task.seed, "linear", task.state), keep_past=True)
        return network

    def complete(self, trained: Trained, task: Task) -> dict[str, Tensor]:
        """The rows of the classes seen: those of past classes as they were, and new ones."""
        if task.past_classes == task.num_classes:
            return dict(task.carried)  # no new class: every SVM stays as it is
        features = F.normalize(trained.features_ND.double(), dim=1).numpy()
        labels, negative = task.labels.numpy(), self.negatives(task)
        if task.state == 0:
            c = torch.tensor(choose_c(features, labels, task.seed, negative), dtype=torch.float64)
            past: dict[str, Tensor] = {}
        else:
            past, c = dict(task.carried), task.carried["c"]
        rows, offsets = fit_svms(features, labels, range(task.past_classes, task.num_classes), float(c), negative)
        weight, bias = torch.from_numpy(rows).float(), torch.from_numpy(offsets).float()
        if past:
            weight, bias = torch.cat([past["svm_weight"], weight]), torch.cat([past["svm_bias"], bias])
        return {"svm_weight": weight, "svm_bias": bias, "c": c}

    def negatives(self, task: Task) -> NDArray[np.bool_] | None:
        """Which images of the task SVMs of other classes learn from; None: all, also where there is no memory."""
        kept = kept_rows(task) if self.few_negatives else ()
        if not len(kept):
            return None
        found = np.zeros(len(task.labels), dtype=np.bool_)
        found[kept] = True
        return found

    @property
    def completes_by_memory(self) -> bool:
        """Which images are negatives goes by B, in state 0 too."""
        return self.few_negatives

    def epochs(self, state: int, images: int) -> int:
        """Nothing is trained after state 0."""
        return 0 if state else self.first.epochs(state, images)

    def settings(self, state: int) -> dict[str, object]:
        """State 0 is the first training's."""
        if state == 0:
            return self.first.settings(state)
        solver = f"scikit-learn {version('scikit-learn')}"
        found: dict[str, object] = {"trainer": "frozen_svm", "version": 1, "grid": list(GRID), "solver": solver}
        return found | ({"few_negatives": True} if self.few_negatives else {})

    @classmethod
    def check_carried(cls, carried: Mapping[str, Tensor], classes: int, features: int) -> None:
        """A row for each class, and C."""
        check_shapes(carried, {"svm_weight": (classes, features), "svm_bias": (classes,), "c": ()})

    @classmethod
    def without_class(cls, carried: Mapping[str, Tensor], label: int) -> dict[str, Tensor]:
        """Its row goes."""
        left = torch.arange(len(carried["svm_bias"])) != label
        return {**carried, "svm_weight": carried["svm_weight"][left], "svm_bias": carried["svm_bias"][left]}


def choose_c(
    features: NDArray[np.float64], labels: NDArray[np.int64], seed: int, negative: NDArray[np.bool_] | None = None
) -> float:
    """The C that does best on a tenth of state 0's training images, held out for this; of equals, the largest.

    Where state 0 is easy many are equal, and a small C leaves the margins unreached: then the scores of SVMs that were
    learned in different states cannot be compared.
    """
    order = torch.randperm(len(labels), generator=generator_for(seed, "choose C")).numpy()
    held_out, rest = np.split(order, [max(1, len(order) // 10)])
    classes = sorted({int(label) for label in labels[rest]})
    against = None if negative is None else negative[rest]
    if len(np.unique(labels[rest] if against is None else labels[rest][against])) < 2:
        return GRID[-1]  # too few images to compare anything

    def accuracy(c: float) -> float:
        rows, offsets = fit_svms(features[rest], labels[rest], classes, c, against)
        predicted = np.array(classes)[(features[held_out] @ rows.T + offsets).argmax(1)]
        return float((predicted == labels[held_out]).mean())

    return max(reversed(GRID), key=accuracy)


def fit_svms(
    features: NDArray[np.float64], labels: NDArray[np.int64], classes: range | list[int], c: float,
    negative: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """One linear SVM (squared hinge) per class against the `negative` images of others, or all; in threads."""
    from joblib import Parallel, delayed
    from sklearn.svm import LinearSVC

    if len(np.unique(labels)) < 2:
        raise ValueError("DeeSIL: only one class is at hand, and an SVM needs two: use larger states")

    def one(label: int) -> tuple[NDArray[np.float64], float]:
        own = labels == label
        some = slice(None) if negative is None else negative | own
        if own[some].all():
            raise ValueError("DeeSIL, few negatives: the memory has no image of another class; give it more places")
        # The primal solver: there are more images than features. It draws no random numbers.
        svm = LinearSVC(C=c, dual=False).fit(features[some], own[some])
        return svm.coef_[0], float(svm.intercept_[0])

    # All cores: how many there are changes no bit of any SVM.
    found = Parallel(n_jobs=-1, prefer="threads")(delayed(one)(label) for label in classes)
    return np.stack([row for row, _ in found]), np.array([offset for _, offset in found])
