"""Real processes that learn into one folder: killed at random moments, two at once, and readers meanwhile."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from scail import IncrementalClassifier
from scail.classifier.folder import FolderError, locked, look
from scail.classifier.in_folder import forget_in, learn_into, relabel_in, rename_in, resize_in, undo_in
from tests.classifier.little import little, little_images
from tests.forked import CONTEXT, Forked

PROBE = little_images("a", "b", "c", seed=9)[0]


def learn_classes(root: str, names: list[str], epochs: int = 2) -> None:
    """In a process of its own: one learn after the other."""
    import torch

    torch.set_num_threads(1)
    from scail.classifier.folder import files

    files._SECONDS_BETWEEN = 0.0
    for name in names:
        learn_into(
            root,
            *little_images(*name.split("+"), each=4),
            make=lambda: little(memory=10, validation=0.2, epochs=epochs),
        )


def forget_classes(root: str, names: list[str]) -> None:
    for name in names:
        forget_in(root, name)


def read_again_and_again(root: str, until: float, answers: str) -> None:
    """Read, classify, write down what was seen; any error ends the process with another exit code."""
    import torch

    torch.set_num_threads(1)
    seen = []
    while time.time() < until or len(seen) < 3:
        clf = IncrementalClassifier.load(root, verbose=False, pictures=len(seen) % 2 == 0)
        chances = clf.predict_proba(PROBE)
        assert np.isfinite(chances).all() and chances.shape[1] == len(clf.classes_)
        seen.append([list(clf.classes_), chances.round(4).tolist()])
    Path(answers).write_text(json.dumps(seen))


def start(function, *given):
    process = CONTEXT.Process(target=function, args=given, daemon=True)
    process.start()
    return process


def undisturbed(root: Path, *names: str, epochs: int = 2) -> np.ndarray:
    """The answers of a classifier that learned these without being disturbed."""
    for name in names:
        learn_into(
            root,
            *little_images(*name.split("+"), each=4),
            make=lambda: little(memory=10, validation=0.2, epochs=epochs),
        )
    return IncrementalClassifier.load(root, verbose=False).predict_proba(PROBE)


@pytest.mark.soak
def test_killed_at_any_moment_the_old_model_answers_and_the_next_learn_ends_the_same(tmp_path):
    lessons = ["a+b", "c", "d+a", "e", "f"]
    expected, root = dict[int, np.ndarray](), tmp_path / "m"
    for i in range(1, len(lessons) + 1):
        expected[i] = undisturbed(tmp_path / "undisturbed", lessons[i - 1])
    moments, kills, done = random.Random(os.environ.get("SCAIL_KILL_SEED", "1")), 0, 0
    start(learn_classes, str(tmp_path / "timed"), [lessons[0]]).join()  # the first one has to wait for the imports
    took = 60.0
    while done < len(lessons):
        began = time.monotonic()
        process = start(learn_classes, str(root), [lessons[done]])
        if done and kills < 5 * done:  # some for every state; the first one shows how long it takes
            process.join(moments.uniform(0.0, took))  # writing comes last
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            took = min(took, 1.1 * (time.monotonic() - began))
        # Whatever happened: there is the old model, or the new one, whole.
        clf = IncrementalClassifier.load(root, verbose=False)
        assert clf.model_.calls in (done, done + 1)
        done = clf.model_.calls
        assert np.array_equal(clf.predict_proba(PROBE), expected[done])  # to the bit
        manifest = look(root).manifest
        kept = [one for c in manifest.classes for one in (*c.exemplars, *c.held_out)]
        assert len(kept) <= 10
    assert kills >= 4, f"only {kills} kills came in time"
    # The last learn has taken away what the killed ones left.
    learn_classes(str(root), ["g"])
    left = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    assert left - {"learn.lock", "README.md"} == look(root).manifest.files() | {"manifest.json"}


def test_killed_in_its_first_learn_there_is_no_model_yet_and_then_there_is(tmp_path):
    root, moments, kills = tmp_path / "m", random.Random(3), 0
    expected = undisturbed(tmp_path / "undisturbed", "a+b")
    for _ in range(6):
        process = start(learn_classes, str(root), ["a+b"])
        process.join(moments.uniform(0.0, 0.2))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if (root / "manifest.json").exists():
            break
        with pytest.raises(FolderError, match="there is no model here"):
            IncrementalClassifier.load(root)
    if not (root / "manifest.json").exists():
        learn_classes(str(root), ["a+b"])
    assert kills and np.array_equal(IncrementalClassifier.load(root).predict_proba(PROBE), expected)


def test_a_training_goes_on_where_it_was_killed(tmp_path, capsys):
    whole = undisturbed(tmp_path / "whole", "a+b", epochs=60)
    root, unfinished = tmp_path / "m", tmp_path / "m" / "unfinished"
    process = start(learn_classes, str(root), ["a+b"], 60)
    while process.is_alive() and not list(unfinished.glob("[!.]*")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    (checkpoint,) = unfinished.glob("[!.]*.safetensors")
    from scail.storage.checkpoint import Checkpoint

    begun = len(Checkpoint(checkpoint).load().facts["losses"])
    assert 0 < begun < 60
    reported = []
    learn_into(
        root, *little_images("a", "b", each=4),
        make=lambda: little(memory=10, validation=0.2, epochs=60, verbose=True),
        report=lambda progress: reported.append(progress.images),
    )  # fmt: skip
    assert f"it goes on in epoch {begun + 1}" in capsys.readouterr().out
    trained = sum(reported)
    assert trained <= (60 - begun) * 6  # of four images a class one is held out
    assert np.array_equal(IncrementalClassifier.load(root).predict_proba(PROBE), whole)
    assert not unfinished.exists()


def test_with_other_images_it_starts_afresh(tmp_path):
    root = tmp_path / "m"
    (root / "unfinished").mkdir(parents=True)
    (root / "unfinished" / f"{'0' * 32}.training.safetensors").write_bytes(b"of another training")
    learn_classes(str(root), ["a+b"])
    assert not (root / "unfinished").exists()
    assert np.array_equal(IncrementalClassifier.load(root).predict_proba(PROBE), undisturbed(tmp_path / "other", "a+b"))


def test_of_two_at_once_one_waits_and_nothing_is_lost(tmp_path):
    root = tmp_path / "m"
    learn_classes(str(root), ["a+b"])
    both = [start(learn_classes, str(root), names) for names in (["c", "d", "e"], ["f", "g", "h"])]
    for process in both:
        process.join()
        assert process.exitcode == 0
    clf = IncrementalClassifier.load(root)
    assert sorted(clf.classes_) == list("abcdefgh") and clf.model_.calls == 7


def test_who_does_not_want_to_wait_is_refused(tmp_path):
    root, said = tmp_path / "m", []
    learn_classes(str(root), ["a+b"])
    with ThreadPoolExecutor() as threads:
        with locked(root):
            with pytest.raises(FolderError, match="another process is learning into this model; try again later"):
                learn_into(root, *little_images("c"), wait=False)
            waiting = threads.submit(learn_into, root, *little_images("c"), say=said.append)
            while not said:
                time.sleep(0.01)
                assert not waiting.done()
            assert "another process is learning into this model: waiting for it" in said[0]
            assert IncrementalClassifier.load(root).classes_ == ("a", "b")  # readers do not wait
        waiting.result()
    assert IncrementalClassifier.load(root).classes_ == ("a", "b", "c")


def test_readers_see_whole_models_only_while_others_learn_and_forget(tmp_path):
    root = tmp_path / "m"
    learn_classes(str(root), ["a+b"])
    until = time.time() + 5
    readers = [start(read_again_and_again, str(root), until, str(tmp_path / f"{i}.json")) for i in range(2)]
    changes, i = {("a", "b"): look(root).stamp}, 0
    while time.time() < until - 0.5:
        name = f"c{i}"
        learn_classes(str(root), [name], epochs=1)
        forget_in(root, name)
        i += 1
        changes[("a", "b", name)] = ""
    for process in readers:
        process.join(60)
        assert process.exitcode == 0, "a reader met half a model"
    seen = [one for r in range(2) for one in json.loads((tmp_path / f"{r}.json").read_text())]
    assert len(seen) >= 4 and {tuple(classes) for classes, _ in seen} <= changes.keys()
    answers = dict[str, set[str]]()
    for classes, chances in seen:
        answers.setdefault(repr(classes), set()).add(repr(chances))
    # While a class is there, everyone gets the same answers: those of that one model.
    assert all(len(found) == 1 for classes, found in answers.items() if classes != "['a', 'b']")


def test_a_forget_that_is_killed_leaves_the_class_or_takes_all_of_it(tmp_path):
    root, moments = tmp_path / "m", random.Random(7)
    learn_classes(str(root), ["a+b"])
    kills = 0
    for i in range(40):
        name = f"c{i}"
        learn_classes(str(root), [name], epochs=1)
        process = start(forget_classes, str(root), [name])
        process.join(moments.uniform(0.0, 0.1))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        classes = IncrementalClassifier.load(root).classes_
        assert classes in (("a", "b"), ("a", "b", name))
        if name in classes:
            forget_in(root, name)
        elif list((root / "exemplars").glob(f"{name}-*")):
            with pytest.raises(ValueError, match="is not known"):  # and yet it takes away what was left
                forget_in(root, name)
        assert not list((root / "exemplars").glob(f"{name}-*"))
        if kills >= 6:
            return
    assert kills, "no forget could be killed in time"


def correct(root: str, change: str) -> None:
    """In a process of its own: one correction of a model that has learned a, b and c."""
    import torch

    torch.set_num_threads(1)
    if change == "undo":
        undo_in(root)
    elif change == "rename":
        rename_in(root, "b", "x")
    elif change == "resize":
        resize_in(root, 6)
    else:
        relabel_in(root, sorted(str(path) for path in (Path(root) / "exemplars").glob("a-*/*.png"))[:1], "b")


@pytest.mark.soak
@pytest.mark.parametrize("change", ["undo", "rename", "relabel", "resize"])
def test_a_correction_that_is_killed_is_made_or_is_not(tmp_path, change):
    learn_classes(str(tmp_path / "before"), ["a+b", "c"])
    for name in ("first", "after"):  # the first one has to wait for the imports
        root, began = shutil.copytree(tmp_path / "before", tmp_path / name), time.monotonic()
        start(correct, str(root), change).join()
        took = time.monotonic() - began
    moments, seen = random.Random(change), set[str]()
    expected = {name: answers_of(tmp_path / name) for name in ("before", "after")}
    assert expected["before"] != expected["after"]
    for i in range(20):
        root = shutil.copytree(tmp_path / "before", tmp_path / str(i))
        process = start(correct, str(root), change)
        process.join(moments.uniform(0.2, 1.0) * took)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        (found,) = (name for name, answers in expected.items() if answers_of(root) == answers)  # to the bit
        seen.add(found if process.exitcode == -signal.SIGKILL else "")
        if found == "before":
            correct(str(root), change)  # the same again goes through
            assert answers_of(root) == expected["after"]
        learn_classes(str(root), ["d"])  # and takes away what the killed one left
        left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        assert left - {"learn.lock", "README.md"} == look(root).manifest.files() | {"manifest.json"}
    assert "before" in seen, "none could be killed in time"


def answers_of(root: Path) -> tuple[tuple[str, ...], bytes, int]:
    """What a whole model is: every file of it is read and checked."""
    clf = IncrementalClassifier.load(root, verbose=False)
    return clf.classes_, clf.predict_proba(PROBE).tobytes(), len(clf.model_.exemplars.memory)


def test_ctrl_c_says_that_nothing_is_lost(tmp_path):
    with Forked("learn", str(tmp_path / "m"), "digits", "--epochs", "200") as process:
        for line in process.stdout:
            if "epochs of" in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Nothing is lost" in said and "Traceback" not in said
