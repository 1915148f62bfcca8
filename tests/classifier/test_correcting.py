"""Models that are put right: undo, relabel, rename, single pictures out. In memory and in their folder."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from scail import IncrementalClassifier
from scail.classifier.folder import DamagedModel, look
from scail.classifier.in_folder import (
    forget_in,
    forget_missing_in,
    learn_into,
    relabel_in,
    rename_in,
    undo_in,
)  # fmt: skip
from scail.networks.pretrained import has_pretrained
from tests.classifier.little import little, little_images

FROZEN = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the weights of efficientnet-lite0 are not installed"
)
IMAGES, NAMES = little_images("a", "b", "c", each=4, size=32)
OTHERS = little_images("a", "b", "c", size=32, seed=1)[0]
A, B, C = (list(range(i, i + 4)) for i in (0, 4, 8))


def frozen(**given) -> IncrementalClassifier:
    network = {"backbone": "efficientnet-lite0@32", "backbone_weights": "pretrained", "epochs": None}
    return little(**{"method": "slda", "memory": 6, **network, **given})


def trained(**given) -> IncrementalClassifier:
    return little(**{"method": "icarl_duet", "backbone": "resnet8", "memory": 6, **given})


KINDS = [pytest.param(frozen, marks=FROZEN, id="frozen"), pytest.param(trained, id="trained")]


def learned(make, root, *calls, names=NAMES):
    """A folder that learned these rows, call by call."""
    for rows in calls:
        learn_into(root, IMAGES[rows], [names[row] for row in rows], make=make)
    return root


def load(root):
    return IncrementalClassifier.load(root, verbose=False)


def answers(root):
    return torch.from_numpy(load(root).predict_proba(OTHERS))


def files_in(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {"learn.lock"}


def pictures_in(root):
    return [name for name in files_in(root) if name.endswith(".png")]


def same_tensors(one, other):
    names = vars(one.learned.evidence).keys() - {"moments", "exemplar_features_ED", "exemplar_labels_E"}
    assert all(torch.equal(getattr(one.learned.evidence, n), getattr(other.learned.evidence, n)) for n in names)
    assert one.learned.carried.keys() == other.learned.carried.keys()
    assert all(torch.equal(tensor, other.learned.carried[name]) for name, tensor in one.learned.carried.items())
    ours, theirs = one.learned.network.state_dict(), other.learned.network.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


# --- Undo


@pytest.mark.parametrize("make", KINDS)
def test_undo_brings_the_model_before_the_last_lesson_back(make, tmp_path):
    root = learned(lambda: make(memory=40), tmp_path / "m", A + B)
    before, files, said = load(root).model_, files_in(root), answers(root)
    learned(make, root, C + B)
    assert load(root).classes_ == ("a", "b", "c")
    text = undo_in(root)
    assert "last learn is taken back" in text and "the classes c" in text and "gone" not in text
    after = load(root).model_
    same_tensors(before, after)
    assert torch.equal(answers(root), said) and (after.history, after.calls) == (before.history, 1)
    assert files_in(root) - {"manifest.json"} == files - {"manifest.json"}
    with pytest.raises(ValueError, match="nothing to take back: the last change was an undo"):
        undo_in(root)


@pytest.mark.parametrize("make", KINDS)
def test_undo_never_keeps_more_than_b_pictures_and_says_which_are_gone(make, tmp_path):
    root = learned(make, tmp_path / "m", A + B)
    before, said = load(root).model_, answers(root)
    learned(make, root, C)
    assert len(pictures_in(root)) <= 6 and look(root).manifest.gone == 2
    text = undo_in(root)
    assert "2 picture(s) of the memory had made room for newer ones and are gone" in text
    model = load(root).model_
    assert [len(rows) for rows in model.exemplars.memory.exemplars] == [2, 2]
    same_tensors(before, model)
    if make is frozen:
        assert torch.equal(answers(root), said) and "answers do not hang on them" in text
    assert load(root).learn(IMAGES[C], ["c"] * 4).classes_ == ("a", "b", "c")


@FROZEN
@pytest.mark.soak
def test_after_undo_the_next_lesson_gives_what_it_would_have_given(tmp_path):
    all_kept = partial(frozen, memory=len(IMAGES))
    once = learned(all_kept, tmp_path / "once", A + B, C)
    twice = learned(all_kept, tmp_path / "twice", A + B, C)
    undo_in(twice)
    learned(all_kept, twice, C)
    assert torch.equal(answers(twice), answers(once)) and pictures_in(once) == pictures_in(twice)


@FROZEN
def test_undo_takes_moved_pictures_back_too(tmp_path):
    root = learned(frozen, tmp_path / "m", A + B)
    said = answers(root)
    learn_into(root, IMAGES[[0, *C]], ["b", *"cccc"])
    assert load(root).model_.learned.evidence.known_moments.count_C.tolist() == [3, 5, 4]
    undo_in(root)
    assert torch.equal(answers(root), said)


@FROZEN
def test_what_is_forgotten_is_not_kept_for_undo(tmp_path):
    root = learned(frozen, tmp_path / "m", A + B, C)
    assert look(root).manifest.before is not None
    forget_in(root, "c")
    assert look(root).manifest.before is None
    assert files_in(root) == look(root).manifest.files() | {"manifest.json", "README.md"}
    with pytest.raises(ValueError, match="the last change was a forget, and nothing of what is forgotten is kept"):
        undo_in(root)


def test_undo_of_a_first_lesson_says_what_to_do(tmp_path):
    root = learned(trained, tmp_path / "m", A + B)
    data = (root / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match="learned only once, and before there was no model; remove its folder"):
        undo_in(root)
    assert (root / "manifest.json").read_bytes() == data
    with pytest.raises(ValueError, match="there is no model here"):
        undo_in(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", KINDS)
def test_undo_in_memory(make):
    clf = make(memory=40).learn(IMAGES[A + B], NAMES[:8])
    said = clf.predict_proba(OTHERS)
    assert np.array_equal(clf.learn(IMAGES[C], NAMES[8:]).undo().predict_proba(OTHERS), said)
    with pytest.raises(ValueError, match="only one change is kept"):
        clf.undo()


def test_a_loaded_classifier_asks_its_folder_what_was_before(tmp_path):
    root = learned(trained, tmp_path / "m", A + B, C)
    clf, other = load(root), load(root)
    assert clf.undo().classes_ == ("a", "b")
    clf.save(root)
    with pytest.raises(ValueError, match="was changed since it was read; load it again"):
        other.undo()


# --- Relabel


@FROZEN
@pytest.mark.parametrize("held_out", [0.0, 0.5])
def test_relabelled_pictures_were_always_of_that_class(tmp_path, held_out):
    wrong = ["a"] * 5 + ["b"] * 3 + ["c"] * 4  # picture 4 is a b
    made = lambda: frozen(memory=24, validation=held_out)  # noqa: E731
    root = learned(made, tmp_path / "m", A + B + C, names=wrong)
    text = relabel_in(root, IMAGES[[4]], "b")
    assert "1 picture(s) moved from a to b" in text
    model = load(root).model_
    if not held_out:
        right = frozen(memory=24).learn(IMAGES, NAMES)
        torch.testing.assert_close(answers(root), torch.from_numpy(right.predict_proba(OTHERS)), atol=1e-4, rtol=0)
        assert [len(rows) for rows in model.exemplars.memory.exemplars] == [4, 4, 4]
    undo_in(root)
    assert load(root).model_.history == model.history[:-1] and model.history[-1]["change"] == "relabel"
    assert len(pictures_in(root)) <= 24


@FROZEN
def test_relabel_to_a_new_class_makes_it(tmp_path):
    root = learned(frozen, tmp_path / "m", A + B, C, names=["a"] * 4 + ["b"] * 6 + ["c"] * 2)
    relabel_in(root, IMAGES[[8, 9]], "d")
    counts = load(root).model_.learned.evidence.known_moments.count_C.tolist()
    assert load(root).classes_ == ("a", "b", "c", "d") and counts == [4, 4, 2, 2]


@FROZEN
def test_a_class_whose_last_picture_moves_stays_empty_and_that_is_said(tmp_path):
    root = learned(frozen, tmp_path / "m", [0, 1, 4], C)
    assert "b has no picture left and cannot be predicted" in relabel_in(root, IMAGES[[4]], "a")
    assert "b" not in load(root).predict(OTHERS)


@FROZEN
def test_a_picture_with_two_names_has_one_afterwards(tmp_path):
    root = learned(frozen, tmp_path / "m", A + B)
    learn_into(root, IMAGES[[0, 0]], ["a", "b"])
    assert load(root).model_.learned.evidence.known_moments.count_C.tolist() == [4, 5]
    relabel_in(root, IMAGES[[0]], "b")
    model = load(root).model_
    assert model.learned.evidence.known_moments.count_C.tolist() == [3, 5]
    expected = frozen().learn(IMAGES[[1, 2, 3, 0, 4, 5, 6, 7]], [*"aaabbbbb"]).model_.learned.evidence.known_moments
    torch.testing.assert_close(model.learned.evidence.known_moments.gram_DD, expected.gram_DD)


@pytest.mark.parametrize("made", [trained, pytest.param(lambda **g: frozen(keep="moments", **g), marks=FROZEN)])
def test_without_features_kept_pictures_can_be_moved_and_others_are_an_error(made, tmp_path):
    root = learned(made, tmp_path / "m", A + B)
    model = load(root).model_
    picture = model.exemplars.images[model.exemplars.memory.exemplars[0][:1]]
    text = relabel_in(root, picture, "b")
    assert "1 picture(s) moved from a to b" in text
    assert ("takes the new name up in the next learn" in text) == (made is trained)
    after = load(root).model_
    assert [len(rows) for rows in after.exemplars.memory.exemplars] == [2, 4]
    if moments := after.learned.evidence.moments:
        assert moments.count_C.tolist() == [3, 5]
    there = {image.numpy().tobytes() for image in model.exemplars.images}
    gone = next(i for i in A if IMAGES[i].tobytes() not in there)
    with pytest.raises(ValueError, match="1 of 1 pictures are not among those that are kept"):
        relabel_in(root, IMAGES[[gone]], "b")
    with pytest.raises(ValueError, match="class 'z' is not known"):
        relabel_in(root, picture, "z")
    assert load(root).learn(IMAGES[C], ["c"] * 4).classes_ == ("a", "b", "c")


def test_what_was_never_learned_cannot_be_moved_and_is_named(tmp_path):
    root = learned(lambda: trained(memory=40), tmp_path / "m", A + B)
    Image.fromarray(OTHERS[0]).save(tmp_path / "other.png")
    data = (root / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match=r"1 of 1 pictures .* the first: .*other.png"):
        relabel_in(root, [tmp_path / "other.png"], "b")
    with pytest.raises(ValueError, match="these pictures are 'a' already"):
        relabel_in(root, IMAGES[[0]], "a")
    assert (root / "manifest.json").read_bytes() == data


# --- Rename


@pytest.mark.parametrize("make", KINDS)
def test_a_renamed_class_is_the_same_class(make, tmp_path):
    root = learned(make, tmp_path / "m", A + B, C)
    said = answers(root)
    assert rename_in(root, "b", "bee, not a wasp") == "'b' is now 'bee, not a wasp'"
    assert load(root).classes_ == ("a", "bee, not a wasp", "c") and torch.equal(answers(root), said)
    assert "bee, not a wasp" in load(root).model_.history[0]["new"]
    assert len(pictures_in(root)) <= 6 and not any("/b-" in name for name in pictures_in(root))
    told = json.loads(__import__("onnx").load(next(root.glob("answer-*"))).metadata_props[3].value)
    assert told == ["a", "bee, not a wasp", "c"]
    assert "last rename is taken back" in undo_in(root)
    assert load(root).classes_ == ("a", "b", "c") and torch.equal(answers(root), said)


def test_a_name_that_is_taken_or_no_name_is_an_error(tmp_path):
    root = learned(trained, tmp_path / "m", A + B)
    for old, new, said in (
        ("a", "b", "there is a class 'b' already; to join the two, relabel"),
        ("z", "y", "class 'z' is not known"),
        ("a", "a", "has this name already"),
        ("a", " ", "expected the name of its class"),
    ):
        with pytest.raises(ValueError, match=said):
            rename_in(root, old, new)
    assert load(root).rename("a", "z").classes_ == ("z", "b")


# --- Single pictures


@FROZEN
@pytest.mark.parametrize("method", ["slda", pytest.param("fetril", marks=pytest.mark.soak)])
def test_a_forgotten_picture_was_never_there(method, tmp_path):
    rest = [1, 2, 3, *B, 9, 10, 11]
    expected = learned(lambda: frozen(method=method), tmp_path / "rest", [1, 2, 3, *B], rest[7:])
    root = learned(lambda: frozen(method=method), tmp_path / "m", A + B, C)
    assert "1 picture(s) of 'a' are forgotten" in forget_in(root, "a", IMAGES[[0]])
    assert "1 picture(s) of 'c' are forgotten" in forget_in(root, "c", IMAGES[[8]])
    torch.testing.assert_close(answers(root), answers(expected), atol=1e-4, rtol=0)
    model = load(root).model_
    gone = load(learned(frozen, tmp_path / "of", [0, 8])).model_.seen[0]
    digests = {digest.numpy().tobytes() for digest in gone.digests_N}
    assert not any(digest.numpy().tobytes() in digests for part in model.seen for digest in part.digests_N)
    rows = {row.tobytes() for row in gone.features_ND.numpy()}
    held = [model.learned.evidence.new_features_MD, model.learned.evidence.exemplar_features_ED]
    assert not any(row.tobytes() in rows for part in held for row in part.numpy())
    with pytest.raises(ValueError, match="nothing of what is forgotten is kept"):
        undo_in(root)


@FROZEN
def test_pictures_of_another_class_and_all_of_a_class_are_errors(tmp_path):
    root = learned(frozen, tmp_path / "m", A + B)
    with pytest.raises(ValueError, match="some of these pictures were learned as 'b', not as 'a'"):
        forget_in(root, "a", IMAGES[[0, 4]])
    with pytest.raises(ValueError, match="these are all pictures of 'a': forget the class itself"):
        forget_in(root, "a", IMAGES[A])
    with pytest.raises(ValueError, match="1 of 1 pictures were never learned"):
        forget_in(root, "a", OTHERS[:1])


def test_a_trained_network_says_that_it_carries_traces(tmp_path):
    root = learned(lambda: trained(memory=40), tmp_path / "m", A + B)
    text = forget_in(root, "a", IMAGES[[0]])
    assert "kept and rehearsed no more" in text and "carry traces" in text
    assert len(pictures_in(root)) == 7


@pytest.mark.parametrize("make", KINDS)
def test_a_picture_that_somebody_deleted_is_named_and_can_be_taken_out(make, tmp_path, monkeypatch):
    root = learned(make, tmp_path / "m", A + B)
    name = sorted(pictures_in(root))[0]
    (root / name).unlink()
    with pytest.raises(DamagedModel) as error:
        learn_into(root, IMAGES[C], ["c"] * 4)
    assert f"{root / name}: is missing; restore it from a copy, or take it out of the model" in str(error.value)
    command = shlex.split(str(error.value).partition(": scail ")[2].partition(" (or")[0])
    assert command == ["forget", str(root), "a", "--images", name]
    with pytest.raises(ValueError, match="no picture of 'b' that the model keeps"):
        forget_in(root, "b", [name])
    forget_in(root, "a", [name])
    learn_into(root, IMAGES[C], ["c"] * 4)
    assert load(root).classes_ == ("a", "b", "c")
    assert name not in look(root).manifest.files()


@pytest.mark.soak
@pytest.mark.parametrize("make", KINDS)
def test_pictures_that_somebody_deleted_from_several_classes_go_in_one_command(make, tmp_path):
    root = learned(make, tmp_path / "m", A + B)
    with pytest.raises(ValueError, match="no picture is missing"):
        forget_missing_in(root)
    names = sorted(pictures_in(root))
    gone = [next(name for name in names if f"/{letter}-" in name) for letter in "ab"]
    for name in gone:
        (root / name).unlink()
    with pytest.raises(DamagedModel, match=re.escape(f"scail forget {root} --missing")):
        learn_into(root, IMAGES[C], ["c"] * 4)
    said = forget_missing_in(root)
    assert "1 picture(s) of 'a' are forgotten" in said and "1 picture(s) of 'b' are forgotten" in said
    assert {*pictures_in(root)} == {*names} - {*gone}
    assert learn_into(root, IMAGES[C], ["c"] * 4) and load(root).classes_ == ("a", "b", "c")


@FROZEN
def test_a_class_whose_pictures_somebody_deleted_can_be_forgotten(tmp_path):
    for name, how in (("class", lambda root: forget_in(root, "a")), ("missing", forget_missing_in)):
        root = learned(lambda: frozen(memory=12), tmp_path / name, A + B)
        for name in pictures_in(root):
            if "/a-" in name:
                (root / name).unlink()
        how(root)
        assert load(root).classes_ == ("b",)
