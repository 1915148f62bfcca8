"""A larger or a smaller memory for a model that has learned."""

from __future__ import annotations

import json

import pytest

from scail.classifier.in_folder import learn_into, resize_in, undo_in
from tests.classifier.test_correcting import FROZEN, IMAGES, NAMES, A, B, C, answers, frozen, load, pictures_in, trained
from tests.cli.test_learn import model, run, write_images

__all__ = ["model", "run"]  # fixtures


@FROZEN
@pytest.mark.soak
def test_a_smaller_memory_keeps_the_best_and_changes_no_answer_and_a_larger_one_fills(tmp_path):
    root = tmp_path / "m"
    learn_into(root, IMAGES[A + B], NAMES[:8], make=lambda: frozen(memory=8))
    said, before = answers(root), load(root).model_
    assert resize_in(root, 4) == "memory of 4 images, before 8; 4 images were let go; 4 are kept"
    after = load(root).model_
    assert len(pictures_in(root)) == 4 and answers(root).equal(said)
    for c, rows in enumerate(after.exemplars.memory.exemplars):
        best = before.exemplars.images[before.exemplars.memory.exemplars[c][:2]]
        assert after.exemplars.images[rows].equal(best)
    assert resize_in(root, 12) == "memory of 12 images, before 4; it fills with what is learned from now on; 4 are kept"
    learn_into(root, IMAGES[C], ["c"] * 4)
    assert len(pictures_in(root)) == 8 and load(root).memory == 12
    with pytest.raises(ValueError, match="memory is 12 images already"):
        resize_in(root, 12)
    resize_in(root, 11)
    assert "last resize is taken back" in undo_in(root) and load(root).memory == 12


def test_methods_that_train_and_validation(tmp_path):
    root = tmp_path / "m"
    learn_into(root, IMAGES[A + B], NAMES[:8], make=lambda: trained(memory=8, validation=0.5))
    resize_in(root, 4)
    model = load(root).model_
    assert [len(rows) for rows in (*model.exemplars.memory.exemplars, *model.held_out.memory.exemplars)] == [1] * 4
    with pytest.raises(ValueError, match="needs exemplars, but memory is 0"):
        resize_in(root, 0)
    with pytest.raises(ValueError, match=r"memory 1: with validation 0\.5 there is no place for a held-out image"):
        resize_in(root, 1)
    assert load(root).learn(IMAGES[C], ["c"] * 4).resize(20).learn(IMAGES[A], ["d"] * 4).memory == 20


def test_on_the_command_line_with_data_and_without(model, run, tmp_path):
    code, said, _ = run("learn", model, "--memory", "6")
    assert code == 0 and "memory of 6 images, before 12; 4 images were let go; 6 are kept" in said
    code, said, _ = run("learn", model, write_images(tmp_path / "more", "cat"), "--memory", "20")
    assert code == 0 and json.loads(run("info", model, "--json")[1])["memory"] == 20
    code, _, error = run("learn", model)
    assert code == 2 and "give DATA" in error
    code, _, error = run("learn", model, "--memory", "6", "--method", "scail")
    assert code == 2 and "--method: without DATA only --memory can be changed" in error
    assert run("learn", tmp_path / "none", "--memory", "6")[0] == 2 and not (tmp_path / "none").exists()


def test_a_folder_that_is_learned_twice_has_its_exemplars_once(model, run, tmp_path):
    code, said, _ = run("learn", model, tmp_path / "first", "--memory", "40")
    assert code == 0 and "10 of 10 images were learned before" in said and "nothing is new" in said
    assert json.loads(run("info", model, "--json")[1])["exemplars"] == 10
