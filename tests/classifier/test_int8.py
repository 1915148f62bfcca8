"""A classifier whose frozen network runs in whole numbers of 8 bits, from the first lesson to the file that answers."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from scail import IncrementalClassifier, load_dataset
from scail.classifier import embedding
from scail.classifier.answering import Answerer
from scail.classifier.folder import DamagedModel, look
from scail.classifier.folder.record import digest_of_record
from scail.networks.network import create_network, extract_features
from scail.networks.onnx_features import onnx_features
from scail.networks.pretrained import has_pretrained
from scail.runtime.seeds import generator_for
from scail.training import frozen_random
from tests.classifier.little import little, little_images
from tests.classifier.test_frozen_photographs import of_classes
from tests.cli.test_learn import run, write_images  # noqa: F401

IMAGES, NAMES = little_images("a", "b", "c")
OTHERS = little_images("a", "b", "c", "d", seed=1)[0]
TOLERANCE = 1e-5  # of odds: what stands in the file computes the same features, but for the order of sums


def resnet(seed=0, channels=1):
    network = create_network("resnet8", channels, 1, generator_for(seed, "weights")).eval()
    network.mean, network.std = torch.full((channels,), 60.0), torch.full((channels,), 60.0)
    return network


def weights_of(network, path):
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, path)
    return path


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights of a small network: it stands for one that has seen the world."""
    return weights_of(resnet(), tmp_path_factory.mktemp("weights") / "resnet8.safetensors")


def frozen(weights, method="slda", int8=True, **given) -> IncrementalClassifier:
    network = {"backbone": "resnet8", "backbone_weights": weights, "epochs": None}
    return little(**{"method": method, "int8": int8, **network, **given})


@pytest.fixture(scope="module")
def folder(weights, tmp_path_factory):
    """A folder of a model that has learned three classes."""
    root = tmp_path_factory.mktemp("model") / "m"
    frozen(weights).learn(IMAGES, NAMES).save(root)
    return root


@pytest.fixture
def model(folder, tmp_path):
    """A copy of it, to be changed."""
    import shutil

    return shutil.copytree(folder, tmp_path / "m")


def of_kind(root, kind):
    return sorted(path.name for path in root.glob(f"{kind}-*"))


def answers(root, images):
    answerer = Answerer.open(root, threads=1)
    return np.stack([answerer.answer(np.repeat(image[..., None], 3, axis=2)).odds for image in images])


def test_the_file_that_answers_gives_what_python_gives_and_holds_the_graph(folder):
    clf = IncrementalClassifier.load(folder, verbose=False)
    assert clf.int8 and clf.model_.settings.int8 and look(folder).manifest.int8 is not None
    assert np.abs(answers(folder, OTHERS) - clf.predict_proba(OTHERS)).max() < TOLERANCE
    (answer,) = of_kind(folder, "answer")
    kinds = {node.op_type for node in onnx.load(folder / answer).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds


def test_every_lesson_takes_features_with_the_graph_of_the_first(model):
    clf = IncrementalClassifier.load(model, verbose=False)
    before = of_kind(model, "int8")
    clf.learn(OTHERS[18:], ["d"] * 6).save(model)
    clf = IncrementalClassifier.load(model, verbose=False)
    network = clf.model_.learned.network
    assert len(before) == 1 and of_kind(model, "int8") == before
    images = torch.from_numpy(OTHERS[18:])[:, None]
    assert torch.equal(clf.model_.seen[1].features_ND, onnx_features(network, images))
    network = network.clone()
    network.int8 = None
    assert not torch.allclose(clf.model_.seen[1].features_ND, onnx_features(network, images), atol=1e-4)
    assert np.abs(answers(model, OTHERS) - clf.predict_proba(OTHERS)).max() < TOLERANCE
    clf.forget("d").save(model)
    assert of_kind(model, "int8") == before
    assert np.abs(answers(model, OTHERS) - IncrementalClassifier.load(model).predict_proba(OTHERS)).max() < TOLERANCE


def test_same_images_same_bits(folder, weights, tmp_path):
    frozen(weights).learn(IMAGES, NAMES).save(tmp_path / "again")
    assert [of_kind(tmp_path / "again", kind) for kind in ("int8", "answer", "features")] == [
        of_kind(folder, kind) for kind in ("int8", "answer", "features")
    ]


def test_without_it_nothing_is_said_of_it(weights, tmp_path):
    clf = frozen(weights, int8=False).learn(IMAGES, NAMES).save(tmp_path / "m")
    assert not of_kind(tmp_path / "m", "int8") and "int8" not in (tmp_path / "m" / "manifest.json").read_text()
    assert not IncrementalClassifier.load(tmp_path / "m").int8 and clf.model_.learned.network.int8 is None


@pytest.mark.parametrize("method", ["ncm", "ranpac"])
def test_other_heads_and_random_features(method, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(frozen_random, "random_features", lambda features: 80)
    clf = frozen(weights, method).learn(IMAGES, NAMES).save(tmp_path / "m")
    assert np.abs(answers(tmp_path / "m", OTHERS) - clf.predict_proba(OTHERS)).max() < TOLERANCE
    clf = IncrementalClassifier.load(tmp_path / "m").learn(OTHERS[18:], ["d"] * 6).save(tmp_path / "m")
    assert np.abs(answers(tmp_path / "m", OTHERS) - clf.predict_proba(OTHERS)).max() < TOLERANCE
    assert clf.classes_ == ("a", "b", "c", "d")


def test_another_network_is_calibrated_anew_on_the_exemplars(model, monkeypatch):
    clf = IncrementalClassifier.load(model, verbose=False)
    before = clf.model_.learned.network.int8
    monkeypatch.setattr(embedding, "start_network", lambda name, weights, channels: resnet(seed=7))
    clf.embed_again("resnet8").learn(OTHERS[18:], ["d"] * 6).save(model)
    network = clf.model_.learned.network
    assert network.int8 not in (None, before)
    images = clf.model_.exemplars.images[clf.model_.exemplars.memory.indices]
    torch.testing.assert_close(clf.model_.learned.evidence.exemplar_features_ED, onnx_features(network, images))
    assert np.abs(answers(model, OTHERS) - IncrementalClassifier.load(model).predict_proba(OTHERS)).max() < TOLERANCE
    assert len(of_kind(model, "int8")) == 2  # the former one is kept to be taken back
    clf = IncrementalClassifier.load(model, verbose=False).undo().save(model)
    assert clf.model_.learned.network.int8 == before and len(of_kind(model, "int8")) == 1
    assert np.abs(answers(model, OTHERS) - IncrementalClassifier.load(model).predict_proba(OTHERS)).max() < TOLERANCE


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "icarl"}, "int8: method icarl trains its network.* such as slda"),
        ({"backbone_weights": None}, "int8: network resnet8 would be trained from scratch.* pretrained weights"),
        ({"accelerator": "gpu"}, "int8 is for the CPU, and the accelerator is gpu"),
    ],
)
def test_where_it_cannot_be_is_a_clear_error(given, said, weights, tmp_path):
    clf = frozen(weights, **given)
    with pytest.raises(ValueError, match=said):
        clf.learn_and_save(tmp_path / "m", IMAGES, NAMES)
    assert not clf.has_learned and not (tmp_path / "m" / "manifest.json").exists()


def test_where_a_gpu_would_be_taken_it_is_a_clear_error(weights, monkeypatch):
    monkeypatch.setattr(IncrementalClassifier, "_device", lambda self: torch.device("cuda"))
    with pytest.raises(ValueError, match="int8 is for the CPU, and the accelerator is a GPU; leave int8 out, or take"):
        frozen(weights, accelerator="auto").learn(IMAGES, NAMES)


def rewritten(root, change):
    """The manifest with a change, and with the checksum that belongs to it."""
    record = json.loads((root / "manifest.json").read_text())
    change(record)
    record["sha256"] = digest_of_record(record)
    (root / "manifest.json").write_text(json.dumps(record))


def put(root, data):
    """Other content in place of the graph, with checksums that fit."""
    import hashlib

    digest = hashlib.sha256(data).hexdigest()
    (root / f"int8-{digest[:32]}.onnx").write_bytes(data)
    rewritten(root, lambda record: record.update(int8={"name": f"int8-{digest[:32]}.onnx", "sha256": digest}))


def test_damage_is_a_clear_error(model):
    (name,) = of_kind(model, "int8")
    data = (model / name).read_bytes()
    for damaged in (data[:-1], data[:99] + bytes([data[99] ^ 1]) + data[100:]):
        (model / name).write_bytes(damaged)
        with pytest.raises(DamagedModel, match=f"{name}: checksum does not match"):
            IncrementalClassifier.load(model)
    (model / name).unlink()
    with pytest.raises(DamagedModel, match=f"{name}: is missing"):
        IncrementalClassifier.load(model)


def test_a_crafted_folder_is_a_clear_error(model):
    (name,) = of_kind(model, "int8")
    graph = onnx.load(model / name)
    value = graph.graph.initializer[0]
    value.ClearField("raw_data")
    value.data_location = onnx.TensorProto.EXTERNAL
    value.external_data.add(key="location", value="../../../etc/passwd")
    for data, said in (
        (graph.SerializeToString(), "values that are in another file; none is opened"),
        (b"no graph", "not an ONNX file"),
    ):
        put(model, data)
        with pytest.raises(DamagedModel, match=said):
            IncrementalClassifier.load(model)
    for change in (
        lambda record: record.update(int8=None), lambda record: record["settings"].update(int8=False),
        lambda record: record["settings"].update(int8="yes"), lambda record: record["settings"].update(method="icarl"),
        lambda record: record.update(int8=record["answer"]), lambda record: record.update(int8={"name": "../m"}),
    ):  # fmt: skip
        before = (model / "manifest.json").read_bytes()
        rewritten(model, change)
        with pytest.raises(DamagedModel):
            IncrementalClassifier.load(model)
        (model / "manifest.json").write_bytes(before)


def test_on_the_command_line(run, tmp_path):  # noqa: F811
    weights = weights_of(resnet(channels=3), tmp_path / "colour.safetensors")
    first = write_images(tmp_path / "first", "ant", "bee")
    network = ("--method", "slda", "--backbone", "resnet8", "--backbone-weights", weights, "--image-size", "8")
    code, said, error = run("learn", tmp_path / "m", first, "--int8", *network)
    assert code == 0, error
    assert "network: resnet8, pretrained and frozen, in 8 bits; SLDA tells" in said
    more = write_images(tmp_path / "more", "cat", seed=1)
    assert run("learn", tmp_path / "m", more)[0] == 0
    assert run("learn", tmp_path / "m", write_images(tmp_path / "dogs", "dog", seed=2), "--int8")[0] == 0
    assert "network resnet8, in 8 bits (int8), images 8 x 8" in run("info", tmp_path / "m")[1]
    assert json.loads(run("info", tmp_path / "m", "--json")[1])["int8"] is True
    assert run("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")[0] == 0
    picture = np.asarray(Image.open(next((more / "cat").iterdir())).convert("RGB"))
    exported, (name,) = Answerer.open(tmp_path / "m.onnx"), of_kind(tmp_path / "m", "answer")
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "m" / name).read_bytes()
    best = exported.classes[exported.answer(picture).top(1)[0]]
    code, said, _ = run("predict", tmp_path / "m", next((more / "cat").iterdir()))
    assert code == 0 and re.search(rf"\t{best} ", said)

    assert run("learn", tmp_path / "plain", first, *network)[0] == 0
    code, _, error = run("learn", tmp_path / "plain", more, "--int8")
    assert code == 2 and "--int8: the model was made in 32 bits, and its features stay so; begin a new model" in error
    assert look(tmp_path / "plain").manifest.calls == 1


def test_the_network_that_has_seen_the_world(tmp_path):
    if not has_pretrained("efficientnet-lite0"):
        pytest.skip("the package with the weights of efficientnet-lite0 is not installed")
    images, names = little_images("a", "b", "c", size=32)
    clf = little(
        method="slda", epochs=None, backbone="efficientnet-lite0@32", backbone_weights="pretrained", int8=True
    ).learn(images, names)
    clf.save(tmp_path / "m")
    others, _ = little_images("a", "b", "c", size=32, seed=1)
    assert np.abs(answers(tmp_path / "m", others) - clf.predict_proba(others)).max() < TOLERANCE
    network, seen = clf.model_.learned.network, clf.model_.seen[0].features_ND
    expected = extract_features(network, torch.from_numpy(images)[:, None])
    assert torch.nn.functional.cosine_similarity(seen, expected).min() > 0.9


@pytest.mark.soak
def test_it_costs_less_than_a_point():
    """CIFAR-100: 100 classes, 20 images each, at 96 pixels for the time that it takes; the same images in 32 bits."""
    if not has_pretrained("efficientnet-lite0"):
        pytest.skip("the package with the weights of efficientnet-lite0 is not installed")
    try:
        data = load_dataset("cifar100")
    except (ValueError, OSError) as missing:
        pytest.skip(f"CIFAR-100 is not there: {missing}")
    images, labels = of_classes(data.train, range(100), 20)
    tested, truth = of_classes(data.test, range(100), 30)
    top1 = {}
    for int8 in (False, True):
        clf = IncrementalClassifier(
            0, "slda", "efficientnet-lite0@96", backbone_weights="pretrained", verbose=False, accelerator="cpu",
            int8=int8, keep="moments",
        )  # fmt: skip
        for first in range(0, 100, 20):  # twenty classes at a time: the first of them calibrate
            at = slice(20 * first, 20 * (first + 20))
            clf.learn(images[at], [str(c) for c in labels[at]])
        top1[int8] = 100 * clf.score(tested, [str(c) for c in truth])
    assert top1[True] > top1[False] - 1, top1
