from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scail import IncrementalClassifier
from scail.classifier.answering import Answerer, NoAnswerFile, answer_file, read_picture
from scail.classifier.folder import DamagedModel, FolderError, look
from scail.classifier.in_folder import forget_in
from tests.classifier.little import little, little_images

BEFORE = Path(__file__).parents[1] / "data" / "version_0_1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("answering") / "model"
    little().learn(*little_images("a", "b", "c")).save(place)
    return place


@pytest.mark.parametrize("size", [(40, 60), (61, 35), (7, 9), (300, 200)])
def test_path_image_and_array_get_one_answer_and_it_is_that_of_the_file(model, tmp_path, size):
    noise = np.random.RandomState(1).randint(0, 256, (*size, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise).save(tmp_path / "one.jpg", exif=exif)
    picture = read_picture(tmp_path / "one.jpg")
    assert picture.shape == (size[1], size[0], 3)
    clf = IncrementalClassifier.load(model, accelerator="cpu")
    with Image.open(tmp_path / "one.jpg") as image:
        ways = [clf.predict_proba(given)[0] for given in (tmp_path / "one.jpg", image, [picture])]
    assert np.array_equal(ways[0], ways[1]) and np.array_equal(ways[0], ways[2])
    assert np.abs(Answerer.open(model).answer(picture).odds - ways[0]).max() < 1e-4


def test_a_copy_of_the_file_answers_the_same(model, tmp_path):
    name, graph = answer_file(model)
    assert look(model).manifest.answer.name == name
    (tmp_path / "copy.onnx").write_bytes(graph)
    picture = np.random.RandomState(1).randint(0, 256, (30, 40, 3), dtype=np.uint8)
    one, two = (Answerer.open(place).answer(picture) for place in (model, tmp_path / "copy.onnx"))
    assert np.array_equal(one.odds, two.odds) and one.strangeness == two.strangeness


def test_every_change_has_its_own_file_and_the_old_one_goes(model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    forget_in(tmp_path / "model", "b")
    assert [p.name for p in (tmp_path / "model").glob("answer-*")] == [answer_file(tmp_path / "model")[0]]
    assert Answerer.open(tmp_path / "model").classes == ("a", "c")


def test_a_model_of_version_0_1_gets_its_file_with_the_next_change(tmp_path):
    shutil.copytree(BEFORE / "model-bic", tmp_path / "model")
    with pytest.raises(NoAnswerFile, match="without a file that answers"):
        Answerer.open(tmp_path / "model")
    name = look(tmp_path / "model").manifest.classes[-1].name
    forget_in(tmp_path / "model", name)
    assert name not in Answerer.open(tmp_path / "model").classes


def test_what_is_damaged_or_missing_is_a_clear_error(model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    file = tmp_path / "model" / answer_file(model)[0]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(DamagedModel, match="checksum does not match; restore it from a copy"):
        Answerer.open(tmp_path / "model")
    file.unlink()
    with pytest.raises(DamagedModel, match="is missing; restore it from a copy"):
        Answerer.open(tmp_path / "model")
    file.symlink_to(model / file.name)
    with pytest.raises(FolderError, match="symbolic link"):
        Answerer.open(tmp_path / "model")
    (tmp_path / "no.onnx").write_bytes(b"no graph")
    with pytest.raises(DamagedModel, match=r"no.onnx: onnxruntime cannot read it"):
        Answerer.open(tmp_path / "no.onnx")
    with pytest.raises(FolderError, match="there is no model here"):
        Answerer.open(tmp_path / "nothing")


def graph_with(count: int = 2, **said: str) -> bytes:
    """A graph that answers for so many classes, whatever the picture; and what it says of itself."""
    from onnx import TensorProto, helper, numpy_helper

    values = {
        "scores": np.zeros(count),
        "odds": np.full(count, 0.5),
        "strangeness": np.zeros(()),
        "features": np.zeros(4),
    }
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value.astype(np.float32)))
        for name, value in values.items()
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()]
    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, ("height", "width", 3))
    graph = helper.make_graph(nodes, "answer", [picture], outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    sound = {"scail format": "1", "classes": '["a", "b"]', "method": "slda", "unknown": "", "apart": "0.5"}
    helper.set_model_props(made, {name: text for name, text in (sound | said).items() if text != "missing"})
    return bytes(made.SerializeToString())


def test_a_crafted_graph_is_a_clear_error():
    picture = np.zeros((8, 8, 3), np.uint8)
    assert Answerer(graph_with()).answer(picture).odds.tolist() == [0.5, 0.5]
    for said in (
        {"classes": "missing"}, {"classes": "7"}, {"classes": "[[]]"}, {"classes": "[" * 100_000}, {"apart": "missing"},
        {"unknown": "far"},
    ):  # fmt: skip
        with pytest.raises(DamagedModel, match="what it says of itself is not as scail writes it"):
            Answerer(graph_with(**said))
    with pytest.raises(DamagedModel, match=r"answers \(3,\) for 2 classes"):
        Answerer(graph_with(3)).answer(picture)
    with pytest.raises(DamagedModel, match="onnxruntime cannot run it"):
        Answerer(graph_with().replace(b"features", b"featurez")).answer(picture)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (0, 8, 3), (1, 8, 8, 3)])
def test_what_is_no_picture_is_a_clear_error(model, shape):
    with pytest.raises(ValueError, match="expected uint8, height x width x 3"):
        Answerer.open(model).answer(np.zeros(shape, np.uint8))


def test_predict_imports_no_torch_and_every_line_says_whether_it_is_unknown(model, tmp_path):
    Image.fromarray(little_images("a")[0][0]).save(tmp_path / "a.png")
    code = (
        "import sys\nfrom scail.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print(sorted({'torch', 'onnx'} & set(sys.modules)))"
    )
    words = ["predict", model, tmp_path / "a.png", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=True)
    line, modules = done.stdout.splitlines()
    assert modules == "[]" and json.loads(line)["unknown"] is False and len(json.loads(line)["top"]) == 1
