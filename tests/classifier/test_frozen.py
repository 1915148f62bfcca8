"""Classifiers on a frozen network with pretrained weights: exact, and they forget completely."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scail import IncrementalClassifier
from scail.classifier import choices
from scail.classifier.answering import Answerer
from scail.classifier.forgetting import what_is_left
from scail.classifier.left_out import left_out
from scail.methods import METHODS
from scail.networks.pretrained import has_pretrained
from scail.training import frozen_random
from tests.classifier.little import little, little_images

EXACT = ("ncm", "slda", "ridge", "ranpac")
FROZEN = (*EXACT, "fetril")
TOLERANCE = 1e-4  # of the range of the scores, as `Moments` promises


@pytest.fixture(autouse=True)
def _weights(request):
    if "without_the_weights" not in request.node.name and not has_pretrained("efficientnet-lite0"):
        pytest.skip("the package with the weights of efficientnet-lite0 is not installed")


@pytest.fixture(autouse=True, scope="module")
def _few_random_features():
    """To solve for 2000 takes seconds, and shows nothing more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frozen_random, "random_features", lambda features: 200)
        yield


def frozen(method="slda", **given) -> IncrementalClassifier:
    """A classifier on a frozen network that looks at 32 pixels."""
    network = {"backbone": "efficientnet-lite0@32", "backbone_weights": "pretrained"}
    return little(**{"method": method, "epochs": None, "memory": 6, **network, **given})


def pictures(*classes, each=4, seed=0):
    return little_images(*classes, each=each, size=32, seed=seed)


IMAGES, NAMES = pictures("a", "b", "c")
OTHERS = pictures("a", "b", "c", seed=1)[0]
OF = {name: [i for i, other in enumerate(NAMES) if other == name] for name in "abc"}


def learned(clf, *calls):
    """Learn these rows, call by call."""
    for rows in calls:
        clf.learn(IMAGES[rows], [NAMES[row] for row in rows])
    return clf


def scores(clf, classes="abc"):
    """Scores of other images, the classes in this order."""
    return torch.from_numpy(clf.decision_function(OTHERS))[:, [clf.classes_.index(name) for name in classes]]


def assert_same_scores(found, expected):
    span = float(expected.max() - expected.min())
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE * span)


def moments(clf):
    return clf.model_.learned.evidence.known_moments


def counts(clf):
    return dict(zip(clf.classes_, moments(clf).count_C.tolist(), strict=True))


# --- Exact


@pytest.fixture(scope="module")
def at_once():
    """Everything in one call; the heads of one network are read from one classifier."""
    return {"ranpac": learned(frozen("ranpac"), range(12)), "slda": learned(frozen(), range(12))}


@pytest.mark.parametrize(
    "calls",
    [
        (OF["a"], OF["b"], OF["c"]),
        (OF["c"], [*OF["b"], *OF["a"]]),
        ([0, 4, 8], [1, 2, 3, 9], [11, 10, 7, 6, 5]),
        ([3, 9], [0], [11, 6], [4], [1, 2, 8], [10, 5, 7]),
    ],
)
def test_one_call_or_many_in_any_order_give_the_same_scores(calls, at_once):
    split = learned(frozen(), *calls)
    for method in ("ncm", "slda", "ridge"):
        assert_same_scores(scores(split.use(method)), scores(at_once["slda"].use(method)))


def test_random_features_are_exact_too(at_once):
    assert_same_scores(
        scores(learned(frozen("ranpac"), OF["b"], [0, 8, 9], [1, 2, 3, 10, 11])), scores(at_once["ranpac"])
    )


@pytest.mark.parametrize("method", FROZEN)
def test_the_memory_changes_no_score(method):
    without, large = (learned(frozen(method, memory=m), OF["a"] + OF["b"], OF["c"]) for m in (0, 9))
    assert len(without.model_.exemplars.images) == 0 < len(large.model_.exemplars.images)
    assert torch.equal(scores(without), scores(large))


def test_what_is_kept_changes_no_score():
    features, sums = (learned(frozen(keep=keep), OF["a"] + OF["b"], OF["c"]) for keep in ("features", "moments"))
    assert torch.equal(scores(features), scores(sums))
    assert features.model_.seen and not sums.model_.seen


# --- Forgetting


@pytest.mark.parametrize("method", EXACT)
def test_a_class_that_is_forgotten_was_never_there(method, tmp_path):
    never = learned(frozen(method), OF["a"], OF["c"])
    clf = learned(frozen(method), OF["a"] + OF["b"], OF["c"]).save(tmp_path / "model")
    for forgetful in (clf, IncrementalClassifier.load(tmp_path / "model", verbose=False, accelerator="cpu")):
        forgetful.forget("b")
        assert forgetful.classes_ == ("a", "c") == never.classes_
        assert_same_scores(scores(forgetful, "ac"), scores(never, "ac"))
        assert "Nothing of it is left" in what_is_left(forgetful.model_)
        assert all(int(seen.labels_N.max()) <= 1 for seen in forgetful.model_.seen)
        difference = moments(forgetful).gram_DD - moments(never).gram_DD
        assert float(difference.abs().max()) <= 1e-9 * float(moments(never).gram_DD.abs().max())


def test_a_forgotten_class_can_be_learned_again():
    clf = learned(frozen(), OF["a"] + OF["b"], OF["c"]).forget("b")
    assert_same_scores(scores(learned(clf, OF["b"])), scores(learned(frozen(), range(12))))


def test_where_only_moments_are_kept_it_says_what_stays():
    clf = learned(frozen(keep="moments"), range(12)).forget("b")
    assert "still part of the Gram matrix" in what_is_left(clf.model_)
    never = learned(frozen("ncm", keep="moments"), OF["a"], OF["c"])
    assert_same_scores(scores(clf.use("ncm"), "ac"), scores(never, "ac"))  # ncm reads nothing of it


@pytest.mark.parametrize("memory", [0, 6])
def test_fetril_goes_on_when_its_newest_class_is_forgotten(memory):
    clf = learned(frozen("fetril", memory=memory), OF["a"] + OF["b"], OF["c"]).forget("c")
    assert np.isfinite(clf.predict_proba(OTHERS)).all() and np.isfinite(clf.decision_function(OTHERS)).all()


# --- Repeats and corrections


def test_a_folder_that_is_learned_twice_changes_nothing(capsys):
    clf = learned(frozen(verbose=True), range(12))
    before = clf.model_
    learned(clf, range(12))
    assert clf.model_ is before
    assert "12 of 12 images were learned before" in capsys.readouterr().out
    learned(clf, [0, 0, 5])
    assert clf.model_ is before


def test_more_images_of_a_known_class_count():
    clf = learned(frozen(), [0, 1, *OF["b"]])
    mean = moments(clf).mean_CD[0]
    learned(clf, [2, 3])
    assert counts(clf) == {"a": 4, "b": 4}
    assert not torch.allclose(moments(clf).mean_CD[0], mean)


@pytest.mark.parametrize("reload", [False, True])
def test_a_picture_under_another_name_is_moved_there(reload, tmp_path, capsys):
    clf = learned(frozen(memory=24, verbose=True), range(12))
    if reload:
        clf.save(tmp_path / "model")
        clf = IncrementalClassifier.load(tmp_path / "model", accelerator="cpu")
    clf.learn(IMAGES[[1]], ["c"])
    assert "1 images were learned as a: they are moved" in capsys.readouterr().out
    right = frozen(memory=24).learn(IMAGES, ["a", "c", *NAMES[2:]])
    assert counts(clf) == {"a": 3, "b": 4, "c": 5}
    assert_same_scores(scores(clf), scores(right))
    kept, labels = clf.model_.exemplars.images, clf.model_.exemplars.memory.labels
    at = [i for i, image in enumerate(kept) if np.array_equal(image[0].numpy(), IMAGES[1])]
    assert [clf.classes_[labels[i]] for i in at] == ["c"]
    for name in "abc":
        assert len(clf.model_.exemplars.memory.exemplars[clf.classes_.index(name)]) == counts(clf)[name]


def test_a_class_whose_only_picture_is_moved_cannot_be_predicted():
    clf = learned(frozen(), [*OF["a"], 4]).learn(IMAGES[[4]], ["a"])
    assert counts(clf) == {"a": 5, "b": 0}
    assert set(clf.predict(OTHERS)) == {"a"}
    assert np.allclose(clf.predict_proba(OTHERS), [1, 0])


def test_a_picture_with_two_names_keeps_both_however_often_they_are_learned():
    images, names = IMAGES[[*range(8), 0]], [*NAMES[:8], "b"]
    clf = frozen().learn(images, names)
    before = clf.model_
    for _ in range(2):
        assert clf.learn(images, names).model_ is before
    assert clf.learn(images[:4], names[:4]).model_ is before
    assert counts(clf) == {"a": 4, "b": 5}
    assert counts(clf.learn(images[:1], ["c"])) == {"a": 3, "b": 4, "c": 1}


def test_a_picture_that_is_held_out_stays_so():
    clf = learned(frozen(memory=24, validation=0.25), range(12))
    before = clf.model_
    assert counts(clf) == {"a": 3, "b": 3, "c": 3} and len(before.held_out.images) == 3
    assert learned(clf, range(12)).model_ is before
    held_out = before.held_out.images[:1, 0].numpy()  # of class a
    clf.learn(held_out, ["b"])
    assert counts(clf) == {"a": 3, "b": 4, "c": 3} and len(clf.model_.held_out.images) == 2


# --- What it is asked


@pytest.mark.parametrize("method", [*FROZEN, "auto"])
def test_epochs_are_an_error_where_nothing_is_trained(method):
    clf = frozen(method, epochs=2)
    if method == "auto":
        assert choices.split_name(learned(clf, range(12)).model_.settings.method)[0] == "icarl_duet"
        return
    with pytest.raises(ValueError, match=f"epochs 2: method {method} trains nothing"):
        learned(clf, range(12))
    assert not clf.has_learned
    learned(clf.set_params(epochs=None), OF["a"]).set_params(epochs=1)
    with pytest.raises(ValueError, match=f"epochs 1: method {method} trains nothing"):
        learned(clf, OF["b"])
    assert clf.classes_ == ("a",)


@pytest.mark.parametrize("method", FROZEN)
def test_without_the_weights_a_network_is_trained_and_it_says_so(method, monkeypatch, capsys):
    monkeypatch.setattr(choices, "has_pretrained", lambda network: False)
    clf = little(method=method, epochs=None, memory=0, verbose=True)
    images = np.repeat(little_images("a", "b", each=3, size=33)[0][..., None], 3, axis=3)
    clf.learn(images, list("aaabbb"))
    assert "weights of efficientnet-lite0 are not installed" in capsys.readouterr().out
    clf.learn(images[:2] // 2, ["c", "c"])
    assert clf.predict_proba(images).shape == (6, 3)


@pytest.mark.parametrize("method", FROZEN)
def test_little_is_enough(method):
    clf = frozen(method).learn(IMAGES[:1], ["a"])
    assert clf.predict(OTHERS).tolist() == ["a"] * 12  # one image of one class
    clf.learn(IMAGES[4:5], ["b"])  # one image of each
    assert clf.predict(IMAGES[[0, 4]]).tolist() == ["a", "b"]
    chances = clf.predict_proba(OTHERS)
    assert np.isfinite(chances).all() and np.allclose(chances.sum(1), 1)
    if METHODS[method].left_out is not None:  # one success tells little: two of three, by Laplace's rule
        assert clf.predict_proba(IMAGES[[0, 4]]).max(1) == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize("method", FROZEN)
def test_pictures_that_are_not_photographs(method):
    shades = np.stack([np.full((32, 32), shade, np.uint8) for shade in (0, 10, 20, 230, 240, 255)])
    clf = frozen(method).learn(shades, ["dark"] * 3 + ["bright"] * 3)
    if method != "ncm":  # to its cosines they are all alike
        assert clf.predict(shades).tolist() == ["dark"] * 3 + ["bright"] * 3
    assert np.isfinite(clf.predict_proba(shades)).all()
    assert np.isfinite(clf.strangeness(shades)).all()


@pytest.mark.soak
def test_a_thousand_classes(tmp_path):
    classes = [f"class {i}" for i in range(1000)]
    patterns = np.random.RandomState(0).randint(0, 256, (1000, 4, 4, 3), dtype=np.uint8)
    noise = patterns.repeat(2, 0).repeat(8, 1).repeat(8, 2)
    noise[1::2] //= 2  # the second of a class is darker
    clf = frozen(memory=0).learn(noise, np.repeat(classes, 2).tolist())
    clf.learn(255 - noise[:2], ["another"] * 2).save(tmp_path / "model")
    assert (clf.predict(noise) == np.repeat(classes, 2)).mean() > 0.1  # by chance it would be 0.001
    found = left_out(clf.model_)
    assert found is not None
    assert 500 <= len(found.labels_N) <= 2**21 // 1001  # enough for odds, and scores that are made in seconds
    assert found.labels_N.max() == 1000 and found.labels_N.min() < 10  # from all over the classes
    loaded = IncrementalClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(noise[:50]), clf.predict_proba(noise[:50]))


# --- Unknown


def crops(photo, count, seed, side=96):
    draw = np.random.RandomState(seed)
    at = [(draw.randint(photo.shape[0] - side), draw.randint(photo.shape[1] - side)) for _ in range(count)]
    return np.stack([photo[y : y + side, x : x + side] for y, x in at])


def test_noise_is_unknown_to_whoever_has_learned_photographs_and_photographs_are_not():
    data = pytest.importorskip("skimage.data", reason="scikit-image, which has photographs, is not installed")
    photos = {"astronaut": data.astronaut(), "coffee": data.coffee(), "cat": data.chelsea()}
    clf = frozen(backbone="efficientnet-lite0@96")
    clf.learn(np.concatenate([crops(p, 30, 0) for p in photos.values()]), np.repeat(list(photos), 30).tolist())
    known = np.concatenate([crops(p, 40, 1) for p in photos.values()])
    said = clf.predict(known, unknown=True)
    assert (said == "unknown").mean() < 0.1  # 5 % of learned images that are left out
    noise = np.random.RandomState(0).randint(0, 256, (20, 96, 96, 3), dtype=np.uint8)
    assert (clf.predict(noise, unknown=True) == "unknown").mean() > 0.9
    assert "unknown" not in clf.predict(noise)


def test_one_class_is_enough_to_tell_what_is_of_another_world(tmp_path, capsys):
    data = pytest.importorskip("skimage.data", reason="scikit-image, which has photographs, is not installed")
    clf = frozen(backbone="efficientnet-lite0@96", verbose=True).learn(crops(data.coffee(), 30, 0), ["coffee"] * 30)
    said = capsys.readouterr().out
    assert "only one class is known" in said and "top-1" not in said  # it could not be wrong
    assert (clf.predict(crops(data.coffee(), 40, 1), unknown=True) == "unknown").mean() < 0.2
    others = np.random.RandomState(0).randint(0, 256, (20, 96, 96, 3), dtype=np.uint8)
    assert (clf.predict(others, unknown=True) == "unknown").mean() > 0.9
    assert (clf.predict(crops(data.astronaut(), 20, 1), unknown=True) == "unknown").mean() > 0.4
    clf.save(tmp_path / "model")  # the file that answers is checked against the classifier
    answerer = Answerer((next((tmp_path / "model").glob("answer-*.onnx"))).read_bytes(), threads=1)
    assert answerer.answer(others[0]).strangeness == pytest.approx(float(clf.strangeness(others[:1])[0]), rel=1e-2)
