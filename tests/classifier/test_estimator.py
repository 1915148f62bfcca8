"""IncrementalClassifier as an estimator of scikit-learn: on features by its own suite, on images where it differs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from scail import IncrementalClassifier
from scail.classifier.feature_model import feature_methods

X, Y = load_digits(return_X_y=True)
X, Y = X[:600], Y[:600]


def on_features(method: str = "auto") -> IncrementalClassifier:
    return IncrementalClassifier(method=method, backbone=None, verbose=False)


@parametrize_with_checks([on_features()])  # no failure is expected
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_in_pieces_it_is_the_same_as_at_once():
    for method in feature_methods():
        whole, parts = on_features(method).fit(X, Y), on_features(method)
        for label in (3, 1, 4):  # one class after the other, and the rest with more of these
            parts.partial_fit(X[label == Y][:20], Y[label == Y][:20])
        rest = np.concatenate([np.flatnonzero(c == Y)[20 if c in (3, 1, 4) else 0 :] for c in range(10)])
        parts.partial_fit(X[rest], Y[rest])
        assert parts.classes_.tolist() == [3, 1, 4, 0, 2, 5, 6, 7, 8, 9]
        order = np.argsort(parts.classes_)
        np.testing.assert_allclose(parts.decision_function(X)[:, order], whole.decision_function(X), atol=1e-3)
        assert (parts.predict(X) == whole.predict(X)).mean() > 0.995


def test_classes_that_were_named_and_not_seen_are_not_predicted():
    clf = on_features().partial_fit(X[Y < 5], Y[Y < 5], classes=range(10))
    assert clf.classes_.tolist() == list(range(10)) and clf.predict(X).max() == 4
    odds = clf.predict_proba(X)
    assert (odds[:, 5:] == 0).all() and np.allclose(odds.sum(1), 1)
    assert clf.partial_fit(X, Y).score(X, Y) > 0.9
    with pytest.raises(ValueError, match="label 9 is not among the classes"):
        clf.partial_fit(X, Y, classes=range(9))


def test_fit_begins_anew_and_names_stay_what_they_were():
    names = np.array(["even", "odd"])[Y % 2]
    clf = on_features().fit(X, Y).fit(X, names)
    assert clf.classes_.tolist() == ["even", "odd"] and set(clf.predict(X)) == {"even", "odd"}
    assert clf.decision_function(X).shape == (600,)


def test_pipeline_cross_validation_and_a_search_over_methods():
    pipeline = make_pipeline(StandardScaler(), on_features())
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.85
    assert cross_val_score(pipeline, X, Y, cv=3, scoring="neg_log_loss").mean() > -1
    name = "incrementalclassifier__method"
    search = GridSearchCV(pipeline, {name: feature_methods()}, cv=3, scoring="accuracy").fit(X, Y)
    assert search.best_score_ > 0.85 and len(search.cv_results_["params"]) == 3
    assert search.best_params_[name] in feature_methods() and search.predict(X[:5]).dtype == Y.dtype


@pytest.mark.parametrize("method", ["scail", "fetril", "nothing"])
def test_a_method_that_needs_images_is_told(method):
    with pytest.raises(ValueError, match=r"needs images; on features .* these can learn: ncm, slda, ridge"):
        on_features(method).fit(X, Y)


def test_before_it_has_learned_it_says_so():
    for clf in (on_features(), IncrementalClassifier(verbose=False)):
        with pytest.raises(NotFittedError):
            check_is_fitted(clf)
        with pytest.raises(NotFittedError, match="nothing was learned yet"):
            clf.predict(X[:2])
        assert not hasattr(clf, "classes_")


def test_what_needs_images_is_told_without_a_backbone(tmp_path):
    clf = on_features().fit(X, Y)
    for call in (
        lambda: clf.learn(X, Y), lambda: clf.save(tmp_path / "m"), lambda: clf.forget("1"), lambda: clf.top_k(X),
        lambda: clf.predict(X, unknown=True), lambda: clf.use("ncm"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="it learns features"):
            call()
    assert not (tmp_path / "m").exists()


def images(count: int) -> np.ndarray:
    return X[:count].reshape(-1, 8, 8) / 16


def test_of_images_it_is_an_estimator_too():
    made = IncrementalClassifier(20, "ft", recipe="quick", epochs=1, accelerator="cpu", verbose=False)
    some = np.flatnonzero(Y < 3)[:60]
    clf = clone(made).fit(images(600)[some], Y[some])
    assert sorted(clf.classes_) == [0, 1, 2] and clf.predict(images(5)).dtype.kind == "i"
    assert clf.partial_fit(images(600)[Y == 3], Y[Y == 3], classes=range(10)).score(images(600), Y % 4) >= 0
    assert clf.fit(images(600)[some], Y[some]).states_ == (tuple(dict.fromkeys(Y[some].tolist())),)
    assert get_tags(clf).input_tags.three_d_array and not get_tags(on_features()).input_tags.three_d_array
    assert get_tags(clf).estimator_type == "classifier"
    with pytest.raises(ValueError, match="label '4' is not among the classes"):
        clf.partial_fit(images(600)[Y == 4], Y[Y == 4], classes=range(4))
    assert isinstance(made.learn(images(40), Y[:40]).classes_, tuple)  # learn gives names, as ever


def test_the_example_of_the_docs_runs():
    page = Path(__file__).parents[2] / "docs" / "reference" / "classifier.md"
    (code,) = re.findall(r"^## With scikit-learn$.*?^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    found = {}
    exec(code.replace("GridSearchCV(clf", "best = GridSearchCV(clf"), found)
    assert found["best"]["method"] in feature_methods() and found["clf"].score(found["X"], found["y"]) > 0.9
