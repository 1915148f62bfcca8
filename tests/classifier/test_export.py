from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

from scail.classifier.settings import heads_on
from scail.heads import LinearHead
from tests.classifier.little import little, little_images

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from scail.classifier.export import Scorer, export_onnx  # noqa: E402

NAMES = [f"class {i}" for i in range(16)]


def scores_of(path, images):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"images": images[:, None]})[0], session.get_modelmeta().custom_metadata_map


def close(one, two):
    finite = np.isfinite(two)
    assert np.array_equal(np.isfinite(one), finite)  # who cannot be predicted here cannot be predicted there
    # SLDA's are sums of numbers in the thousands: single precision has no 1e-4 there, so that it is of the largest.
    scale = np.maximum(1, np.abs(np.where(finite, two, 0)).max(1, keepdims=True))
    assert np.abs(np.where(finite, one - np.where(finite, two, 0), 0) / scale).max() < 1e-4


@pytest.fixture(scope="module", params=["scail", "icarl", "icarl_duet", "bic", "deesil", "e2e"])
def learned(request):
    """Fourteen past classes, so that ScaIL's ten candidates leave some out; memory for most of them only."""
    clf = little(method=request.param, memory=40, epochs=2).learn(*little_images(*NAMES[:9], each=4))
    return clf.learn(*little_images(*NAMES[9:14], each=4)).learn(*little_images(*NAMES[14:], each=4))


def test_every_head_scores_as_in_the_model(learned, tmp_path):
    images, _ = little_images(*NAMES, each=2, seed=5)
    for name in heads_on(learned.model_.settings):
        learned.use(name)
        export_onnx(learned.model_, tmp_path / "model.onnx")
        found, told = scores_of(tmp_path / "model.onnx", images)
        expected = learned.decision_function(images)
        close(found, expected)
        if name == "scail":
            assert not np.isfinite(expected).all()
        alone, _ = scores_of(tmp_path / "model.onnx", images[:1])  # any number of images
        close(alone, expected[:1])
        assert json.loads(told["classes"]) == list(learned.classes_) and told["method"] == name
        assert told["input"] == "uint8, n x 1 x 8 x 8, 0 to 255"


def test_a_class_without_exemplars_stays_out_of_reach(tmp_path):
    clf = little(method="ft_nem", memory=2).learn(*little_images("a", "b", "c"))
    export_onnx(clf.model_, tmp_path / "model.onnx")
    images, _ = little_images("c")
    found, _ = scores_of(tmp_path / "model.onnx", images)
    assert np.isneginf(found[:, 2]).all()
    close(found, clf.decision_function(images))


def test_factors_on_past_scores_are_exported():
    """IL2M's factors act where a new class would win; here they do for some images and not for others."""
    clf = little().learn(*little_images("a", "b")).learn(*little_images("c"))
    network = clf.model_.learned.network
    images = torch.from_numpy(little_images("a", "b", "c", each=8)[0])[:, None]
    draw = torch.Generator().manual_seed(3)
    head = LinearHead(
        torch.randn(3, network.feature_size, generator=draw), torch.zeros(3), past=2,
        past_factor_P=torch.tensor([3.0, 0.5]),
    )  # fmt: skip
    with torch.no_grad():
        features = network.features(images)
        raw = head.linear_scores(features)
        head.bias_C[2] = (raw[:, :2].amax(1) - raw[:, 2]).median()  # a new class wins for about half of them
        assert len(set((head.linear_scores(features).argmax(1) >= 2).tolist())) == 2
        torch.testing.assert_close(Scorer(network, head)(images), head.scores(features))


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    clf = little().learn(*little_images("a", "b"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'scail\[onnx\]'"):
        export_onnx(clf.model_, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
