from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from scail.classifier import answer_graph as module
from scail.classifier.answer_graph import answer_graph
from scail.classifier.answering import Answerer
from scail.classifier.folder.record import DamagedModel
from scail.classifier.inputs import Shape
from scail.classifier.odds import Odds
from scail.classifier.picture_scaling import scaled_picture
from scail.classifier.settings import heads_on
from scail.heads import LinearHead, Moments
from scail.heads.strangeness import Familiar, strangeness_of
from scail.methods import METHODS
from tests.classifier.little import little, little_images

NAMES = [f"class {i}" for i in range(16)]


def coloured(images):
    return [np.repeat(image[..., None], 3, axis=2) for image in images]


def odds_of(graph, images):
    answerer = Answerer(graph, threads=1)
    return np.stack([answerer.answer(picture).odds for picture in coloured(images)])


def close(found, clf, images):
    scores = clf.decision_function(images)
    # SLDA's are sums of numbers in the thousands: single precision has no 1e-4 there.
    scale = max(1, np.abs(scores[np.isfinite(scores)]).max() / 1000)
    assert np.abs(found - clf.predict_proba(images)).max() < 1e-4 * scale


TRAINED = ["scail", "icarl", "icarl_duet", "bic", "deesil", "e2e", "lucir", "podnet", "der", "packnet", "progressive"]
TRAINED += ["m2kd", "fearnet", "generative_replay"]
LONG = [pytest.param(name, marks=pytest.mark.soak) for name in ("der_pruned", "growing_brain")]


@pytest.fixture(scope="module", params=TRAINED + LONG)
def learned(request):
    """Fourteen past classes, so that ScaIL's ten candidates leave some out; memory for most of them only."""
    clf = little(method=request.param, memory=0 if METHODS[request.param].without_memory else 40, epochs=2)
    clf.learn(*little_images(*NAMES[:9], each=4))
    return clf.learn(*little_images(*NAMES[9:14], each=4)).learn(*little_images(*NAMES[14:], each=4))


def test_every_head_answers_as_the_model_does(learned):
    images, _ = little_images(*NAMES, each=1, seed=5)
    former = None
    for name in heads_on(learned.model_.settings):
        learned.use(name)
        former = answer_graph(learned.model_, former)
        close(odds_of(former, images), learned, images)
        told = Answerer(former, threads=1)
        assert told.classes == learned.classes_ and told.method == name and told.strange == 1
        if name == "scail":
            found = told.answer(coloured(images)[0])
            assert np.isneginf(found.scores).sum() == 4 and len(found.top(16)) == 12
            assert [told.classes[c] for c in found.top(3)] == [n for n, _ in learned.top_k(images[:1], 3)[0]]


def test_a_network_that_is_the_same_is_taken_from_the_file_before(monkeypatch):
    clf = little().learn(*little_images("a", "b"))
    before = answer_graph(clf.model_)
    with monkeypatch.context() as patched:
        patched.setattr(module, "features_graph", lambda *given: pytest.fail("exported"))
        assert answer_graph(clf.model_, before) == before
    clf.learn(*little_images("c"))
    assert odds_of(answer_graph(clf.model_, before), little_images("a")[0]).shape == (6, 3)


def test_a_class_without_exemplars_stays_out_of_reach():
    clf = little(method="ft_nem", memory=2).learn(*little_images("a", "b", "c"))
    images, _ = little_images("c")
    odds = odds_of(answer_graph(clf.model_), images)
    assert (odds[:, 2] == 0).all()
    close(odds, clf, images)


def test_factors_on_past_scores_and_temperature(monkeypatch):
    """IL2M's factors act where a new class would win; here they do for some images and not for others."""
    clf = little().learn(*little_images("a", "b")).learn(*little_images("c"))
    network = clf.model_.learned.network
    images = little_images("a", "b", "c", each=8)[0]
    draw = torch.Generator().manual_seed(3)
    head = LinearHead(
        torch.randn(3, network.feature_size, generator=draw), torch.zeros(3), past=2,
        past_factor_P=torch.tensor([3.0, 0.5]),
    )  # fmt: skip
    with torch.no_grad():
        features = network.features(torch.from_numpy(images)[:, None])
        raw = head.linear_scores(features)
        head.bias_C[2] = (
            (raw[:, :2].amax(1) - raw[:, 2]).sort().values[11:13].mean()
        )  # a new class wins for half of them
        assert len(set((head.linear_scores(features).argmax(1) >= 2).tolist())) == 2
        expected = Odds(2.5, 0.7).of(head.scores(features)).numpy()
    monkeypatch.setattr(type(clf.model_), "head", lambda self: head)
    found = odds_of(answer_graph(replace(clf.model_, odds=Odds(2.5, 0.7))), images)
    assert np.abs(found - expected).max() < 1e-4


def test_strangeness_is_told_and_its_threshold_decides(monkeypatch):
    clf = little().learn(*little_images("a", "b"))
    network, draw = clf.model_.learned.network, torch.Generator().manual_seed(3)
    size = network.feature_size
    images = little_images("a", "b")[0]
    features = network.features(torch.from_numpy(images)[:, None]).detach()
    moments = Moments.of(features + torch.randn(12, size, generator=draw), torch.arange(12) % 2, 2)
    strangeness = strangeness_of(moments, Familiar(2.0, 3.0, 0.5))
    monkeypatch.setattr(type(clf.model_), "strangeness", lambda self: strangeness)
    expected = strangeness.measure(features)
    threshold = float(expected.median())
    monkeypatch.setattr(module, "UNKNOWN", threshold)
    answerer = Answerer(answer_graph(clf.model_))
    found = [answerer.answer(picture) for picture in coloured(images)]
    np.testing.assert_allclose([one.strangeness for one in found], expected.numpy(), rtol=1e-4, atol=1e-4)
    clear = [i for i in range(len(images)) if abs(float(expected[i]) - threshold) > 1e-3]
    assert {found[i].unknown for i in clear} == {True, False}
    assert all(found[i].unknown == (float(expected[i]) > threshold) for i in clear)


def test_a_file_with_numbers_that_are_none_gives_no_odds():
    import onnx

    clf = little().learn(*little_images("a", "b"))
    graph = onnx.load_from_string(answer_graph(clf.model_))
    matrix = next(one for one in graph.graph.initializer if list(one.dims) == [2, 64] or list(one.dims) == [64, 2])
    values = onnx.numpy_helper.to_array(matrix).copy()
    values[:] = np.nan
    matrix.CopyFrom(onnx.numpy_helper.from_array(values, matrix.name))
    answerer = Answerer(graph.SerializeToString(), "pets/answer.onnx", threads=1)
    with pytest.raises(DamagedModel, match=r"pets/answer\.onnx: its odds are NaN or infinite; restore it from a copy"):
        answerer.answer(coloured(little_images("a")[0])[0])


def test_a_file_that_answers_something_else_is_not_made(monkeypatch):
    clf = little().learn(*little_images("a", "b"))
    trainer = type(clf.model_.settings.training())
    monkeypatch.setattr(trainer, "extract", lambda self, network, images: torch.ones(1, network.feature_size) * 9)
    with pytest.raises(RuntimeError, match="onnxruntime gives other odds than torch, by up to"):
        answer_graph(clf.model_)


@pytest.mark.parametrize("shape", [Shape(3, 16, 16), Shape(1, 16, 16), Shape(3, 12, 20), Shape(1, 20, 12)])
@pytest.mark.parametrize("size", [(1, 1), (3, 90), (16, 16), (15, 31), (40, 27), (201, 300)])
def test_pictures_are_scaled_as_pillow_does_it(shape, size):
    picture = np.random.RandomState(0).randint(0, 256, (*size, 3), dtype=np.uint8)
    found = scaled_picture(picture, shape)
    height, width = size
    wide, high = (
        max(1, min(width, (2 * height * shape.width + shape.height) // (2 * shape.height))),
        max(1, min(height, (2 * width * shape.height + shape.width) // (2 * shape.width))),
    )
    left, top = (width - wide) // 2, (height - high) // 2
    image = Image.fromarray(picture[top : top + high, left : left + wide])
    scaled = image.resize((shape.width, shape.height), Image.Resampling.BILINEAR)
    expected = np.asarray(scaled if shape.channels == 3 else scaled.convert("L")).reshape(found.shape)
    assert np.abs(found.astype(int) - expected).max() <= 2 and (found != expected).mean() < 0.1  # ties
