"""The model card: written with every change, never over somebody's own, never of another model than the one there."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from scail.classifier.folder import check_folder, look, tidy
from scail.classifier.folder.card import CARD, described_by
from scail.classifier.folder.write import write_card
from scail.classifier.in_folder import forget_in, learn_into, rename_in
from tests.classifier.little import little, little_images


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("card") / "model"
    learn_into(root, *little_images("a `b`", "<script>"), make=lambda: little(memory=8, validation=0.5))
    return root


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "model"))


def card(folder: Path) -> str:
    return (folder / CARD).read_text(encoding="utf-8")


def test_what_stands_in_it(folder):
    _, front, body = card(folder).split("---\n", 2)
    said = yaml.safe_load(front)
    assert (said["library_name"], said["pipeline_tag"], said["license"]) == ("scail", "image-classification", "unknown")
    assert said["scail_model"] == look(folder).stamp == described_by(card(folder).encode())
    assert (
        "\n    <script>\n    a `b`\n" in body or "\n    a `b`\n    <script>\n" in body
    )  # as code: nothing of it is HTML
    accuracy = look(folder).manifest.accuracy
    held_out = f"| images held out of the lessons | {accuracy['images']} | {accuracy['top1']:.1f} % |"
    assert held_out in body and "8 pictures" in body and look(folder).manifest.answer.name in body


def test_of_a_pretrained_network_the_licence_and_who_was_left_out(tmp_path):
    draw = np.random.default_rng(0)
    pictures = [draw.normal(c, 20, (64, 64, 3)).clip(0, 255).astype(np.uint8) for c in (60, 190) for _ in range(3)]
    clf = little(epochs=None, mirror=None, image_size=64, backbone="pretrained")
    clf.learn(pictures, ["dark"] * 3 + ["light"] * 3).save(tmp_path / "m")
    assert yaml.safe_load(card(tmp_path / "m").split("---\n")[1])["license"] == "apache-2.0"
    assert "| learned images, each left out once | 6 | 100.0 % |" in card(tmp_path / "m")


def test_it_changes_with_the_model(folder):
    rename_in(folder, "<script>", "sun")
    assert "\n    sun\n" in card(folder) and "<script>" not in card(folder)
    forget_in(folder, "sun")
    assert "sun" not in card(folder) and described_by(card(folder).encode()) == look(folder).stamp


@pytest.mark.parametrize("edit", [lambda text: text + "\nMore.", lambda text: "# Mine", lambda text: text[:200]])
def test_one_that_somebody_wrote_stays(folder, edit):
    (folder / CARD).write_text(mine := edit(card(folder)))
    rename_in(folder, "<script>", "sun")
    assert card(folder) == mine and tidy(folder) is None and card(folder) == mine
    assert check_folder(folder).others == (CARD,)


def test_one_that_was_removed_comes_again_with_the_next_change(folder):
    (folder / CARD).unlink()
    assert not check_folder(folder).damaged
    rename_in(folder, "<script>", "sun")
    assert "\n    sun\n" in card(folder)


def test_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "elsewhere").write_text("somebody's")
    (folder / CARD).unlink()
    (folder / CARD).symlink_to(tmp_path / "elsewhere")
    rename_in(folder, "<script>", "sun")
    assert (tmp_path / "elsewhere").read_text() == "somebody's" and (folder / CARD).is_symlink()


def test_of_a_change_that_was_killed_no_old_card_stays(folder, monkeypatch):
    monkeypatch.setattr("scail.classifier.folder.write.write_card", lambda *_: None)
    monkeypatch.setattr("scail.classifier.folder.write.sweep", lambda _: None)
    forget_in(folder, "<script>")
    assert "<script>" in card(folder)
    tidy(folder)
    assert not (folder / CARD).exists()


def test_thousands_of_classes_are_not_all_named(folder, monkeypatch):
    monkeypatch.setattr("scail.classifier.folder.card._MOST_NAMES", 1)
    write_card(folder, look(folder).manifest, look(folder).stamp)
    assert "And 1 more" in card(folder)
