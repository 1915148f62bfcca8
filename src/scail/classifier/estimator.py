"""What people of scikit-learn ask of a classifier: parameters, `fit` and `partial_fit`, predictions, tags.

With a backbone X are images. Without one (`backbone=None`) they are features, N x D numbers, on which a head of a
frozen network learns: see `feature_model`.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from scail.classifier.feature_model import FeatureModel, check_feature_method
from scail.classifier.inputs import class_names_of, labels_of
from scail.classifier.model import Model
from scail.classifier.settings import Change
from scail.heads.strangeness import UNKNOWN, Strangeness

if TYPE_CHECKING:
    from scail.classifier.undoing import Before

_OPEN = ("accelerator", "epochs", "verbose")  # what does not have to stay as it was in the first state


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier in the sense of scikit-learn. Nothing but its parameters is set when it is made."""

    memory: int
    method: str
    backbone: str | None
    _model: Model | None = None
    """What it has learned of images."""
    _of_features: FeatureModel | None = None
    """What it has learned of features, without a backbone."""
    _labels: dict[str, Any] | None = None
    """After `fit` or `partial_fit`: labels as they were given, by the names of their classes."""
    _unchanged: Model | None = None
    """Where a change has begun: what it was before."""
    _before: Before | None = None
    """What it was before its last change."""
    _change: Change | None = None
    """None: nothing was changed since it was read."""
    _saved: Model | None = None
    """What it was when it was read or written last."""
    _origin: tuple[Path, str] | None = None
    """The folder that it was read from or written to, and its stamp."""

    def set_params(self, **given: Any) -> Self:
        """Other arguments, before the first learn."""
        known = self.get_params(deep=False)
        if unknown := given.keys() - known.keys():
            raise ValueError(f"no parameter {min(unknown)!r}; known: {', '.join(known)}")
        if self._model is not None and given.keys() - set(_OPEN):
            raise ValueError(f"it has learned already: only {', '.join(_OPEN)} can be set now; see also use()")
        for name, value in given.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        learned = f", {len(self._model.classes)} classes in {len(self._model.states())} states" if self._model else ""
        return (
            f"IncrementalClassifier(memory={self.memory}, method={self.method!r}, backbone={self.backbone!r}{learned})"
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        images = self.backbone is not None
        tags.input_tags.two_d_array = not images
        tags.input_tags.three_d_array = images
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None or self._of_features is not None

    @property
    def network_name(self) -> str:
        """The backbone of a classifier of images."""
        if self.backbone is None:
            raise ValueError(
                "backbone=None: it learns features, with fit(X, y) and partial_fit(X, y), and has no images. Give a "
                "backbone for learn, save, forget, unknown and the rest"
            )
        return self.backbone

    @property
    def classes_(self) -> Any:
        """The classes: column c of `predict_proba` is classes_[c].

        Names in order of arrival; after `fit` or `partial_fit` an array of labels as they were given.
        """
        if self.backbone is None:
            return self._featured().labels
        names = self._learned().classes
        labels = tuple(labels_of(names))
        return labels if self._labels is None else np.array([*map(self._labels.get, names, labels)])

    # Learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn these and nothing else: what was learned before is gone."""
        parameters = self.get_params(deep=False)
        for name in (vars(self).keys() & set(dir(type(self)))) - parameters.keys():
            delattr(self, name)  # what it has learned: the class says what there is without
        type(self).__init__(self, **parameters)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn these too: new classes, and perhaps more of known ones. `classes`: all that will come, if known.

        Other than with most estimators, classes that were not named may still come, unless `classes` is given here.
        """
        if self.backbone is None:
            return self._learn_features(X, y, classes)
        values = list(y)
        names = class_names_of(values)
        if classes is not None and (strange := sorted(set(names) - set(class_names_of(classes)))):
            raise ValueError(f"label {strange[0]!r} is not among the classes")
        self.learn(X, names)
        self._labels = {**(self._labels or {}), **dict(zip(names, values, strict=True))}
        return self

    @abstractmethod
    def learn(self, images: Any, labels: Any = None) -> Self:
        """Learn images; see `IncrementalClassifier`."""

    def _learn_features(self, X: Any, y: Any, classes: Any) -> Self:
        method = check_feature_method(self.method)
        before = self._of_features
        X, y = validate_data(self, X, y, reset=before is None, dtype=np.float64, ensure_min_samples=1)
        check_classification_targets(y)
        y = column_or_1d(y)
        self._of_features = FeatureModel.learned(before, method, X, y, classes)
        return self

    # Using it

    def predict(self, X: Any, unknown: bool = False) -> NDArray[Any]:
        """The class of each image; with `unknown`, the word "unknown" for what is like nothing that was learned."""
        if not unknown:
            return _labels([self.classes_[c] for c in self._scores(X).argmax(1).tolist()])
        classes, features = self.classes_, self._features(X)
        found = [classes[c] for c in self._learned().head().scores(features).argmax(1).tolist()]
        strange = self._measure().measure(features) > UNKNOWN
        return _labels(["unknown" if far else label for label, far in zip(found, strange, strict=True)])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """N x C odds. For frozen methods they can be trusted: images that were left out say how sure to be.

        For methods that train they come from images that were trained on, and are somewhat too sure.
        """
        odds = self._featured().odds if self.backbone is None else self._learned().odds
        found: NDArray[Any] = odds.of(self._scores(X)).numpy()
        return found

    def decision_function(self, X: Any) -> NDArray[Any]:
        """N x C scores; -inf where a class cannot be predicted for an image.

        On features, two classes have one score: how far the second is before the first.
        """
        scores = self._scores(X)
        if self.backbone is None and scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        found: NDArray[Any] = scores.numpy()
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of images whose class is predicted, 0 to 1."""
        if self.backbone is None or sample_weight is not None:
            return float(super().score(X, y, sample_weight))
        return self.accuracy(X, y)["top1"] / 100

    @abstractmethod
    def accuracy(self, images: Any, labels: Any = None) -> dict[str, float]:
        """Top-1 and top-5; see `IncrementalClassifier`."""

    def _scores(self, X: Any) -> Tensor:
        """N x C scores."""
        if self.backbone is None:
            model = self._featured()
            return model.scores(validate_data(self, X, reset=False, dtype=np.float64))
        return self._learned().head().scores(self._features(X))

    def _featured(self) -> FeatureModel:
        if self._of_features is None:
            raise NotFittedError("nothing was learned yet: call fit(X, y) or partial_fit(X, y) first")
        return self._of_features

    def _learned(self) -> Model:
        assert self.network_name
        if self._model is None:
            raise NotFittedError("nothing was learned yet: call learn(images, labels) first")
        return self._model

    @abstractmethod
    def _features(self, images: Any) -> Tensor: ...

    @abstractmethod
    def _measure(self) -> Strangeness: ...


def _labels(found: list[Any]) -> NDArray[Any]:
    """As an array; among numbers and words each stays what it is."""
    return np.array(found, object) if len({type(label) for label in found}) > 1 else np.array(found)
