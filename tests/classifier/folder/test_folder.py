from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from scail import IncrementalClassifier
from scail.classifier.folder import DamagedModel, FolderError, look
from scail.classifier.folder.files import class_folder
from scail.classifier.in_folder import forget_in, learn_into, undo_in
from tests.classifier.little import little, little_images

NAMES = ("a", "b/../../c", "ä cat")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder that learned twice, with held-out images."""
    root = tmp_path_factory.mktemp("folder") / "model"
    clf = little(memory=20, validation=0.2).learn(*little_images(*NAMES[:2], each=8))
    clf.learn(*little_images(NAMES[2], each=8)).save(root)
    return root


@pytest.fixture
def folder(original, tmp_path):
    """A copy of it, to do things to."""
    return Path(shutil.copytree(original, tmp_path / "model"))


def manifest_of(root):
    return json.loads((root / "manifest.json").read_text())


def rewrite(root, change):
    """Change the manifest as one who knows its checksum would."""
    record = manifest_of(root)
    change(record)
    rest = {key: value for key, value in record.items() if key != "sha256"}
    record["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    (root / "manifest.json").write_text(json.dumps(record))


def files_in(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_what_is_read_is_what_was_written(original):
    clf = IncrementalClassifier.load(original, verbose=False)
    images = little_images(*NAMES, seed=1)[0]
    quick = IncrementalClassifier.load(original, verbose=False, pictures=False)
    assert clf.classes_ == NAMES and clf.states_ == (NAMES[:2], NAMES[2:])
    assert np.array_equal(clf.predict_proba(images), quick.predict_proba(images))
    assert clf.model_.difference is not None and len(clf.model_.history) == 2
    with pytest.raises(ValueError, match="read without its pictures, and can classify but not learn"):
        quick.learn(*little_images("d"))


def test_exemplars_are_pictures_that_people_can_look_at(original):
    model = IncrementalClassifier.load(original).model_
    manifest = look(original).manifest
    for c, one in enumerate(manifest.classes):
        for digest, row in zip(one.exemplars, model.exemplars.memory.exemplars[c].tolist(), strict=True):
            picture = Image.open(original / "exemplars" / class_folder(one.name) / f"{digest}.png")
            assert np.array_equal(np.asarray(picture), model.exemplars.images[row, 0].numpy())
    kept = [name for name in files_in(original) if name.endswith(".png")]
    assert 0 < len(kept) <= model.settings.memory
    assert {name.split("/")[0] for name in kept} == {"exemplars", "held-out"}


def test_nothing_in_the_folder_is_there_without_need(original):
    assert files_in(original) - {"learn.lock"} == look(original).manifest.files() | {"manifest.json", "README.md"}


def test_a_folder_does_not_grow_with_the_calls(tmp_path):
    sizes = []
    for i in range(12):
        learn_into(tmp_path / "m", *little_images("a", "b", each=4, seed=i), make=lambda: little(memory=6))
        sizes.append((len(files_in(tmp_path / "m")), look(tmp_path / "m").size))
        assert len([name for name in files_in(tmp_path / "m") if name.endswith(".png")]) <= 6
    assert sizes[-1][0] == sizes[1][0]
    assert sizes[-1][1] < sizes[1][1] + 6000  # the lines of the history, and a few features of what undo keeps


def test_an_unchanged_exemplar_is_not_written_again(folder):
    def times():
        return {p: p.stat().st_mtime_ns for p in folder.rglob("*.png")}

    before = times()
    learn_into(folder, *little_images("d", each=4))
    kept = before.keys() & times().keys()
    assert kept and all(times()[path] == before[path] for path in kept)


@pytest.mark.parametrize("pictures", [True, False])
def test_no_half_of_a_model_is_ever_read(folder, pictures):
    """A reader that met the files of the old model taken away begins again with the new manifest."""
    from scail.classifier.folder import read

    newer = little().learn(*little_images("x", "y"))
    real, done = read.tensors_in, []

    def disturbed(root, file):
        if not done:
            done.append(newer.save(folder, overwrite=True))
        return real(root, file)

    read.tensors_in = disturbed
    try:
        assert IncrementalClassifier.load(folder, pictures=pictures).classes_ == ("x", "y")
    finally:
        read.tensors_in = real
    assert done


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def first(root, pattern):
    """The first file of the model as it is now: not of what is kept for undo."""
    before = look(root).manifest.before
    kept = before.numbers() - look(root).manifest.numbers() if before else set()
    return sorted(path for path in root.glob(pattern) if path.name not in kept)[0]


def test_damage_to_what_is_kept_for_undo_is_named_when_it_is_needed(folder):
    former = look(folder).manifest.before
    flip(folder / former.network.name)
    IncrementalClassifier.load(folder, verbose=False)
    with pytest.raises(DamagedModel, match="checksum does not match"):
        undo_in(folder)
    assert IncrementalClassifier.load(folder, verbose=False).classes_ == NAMES


DAMAGES = {
    "a changed network": lambda root: flip(first(root, "network-*")),
    "a cut network": lambda root: os.truncate(first(root, "network-*"), 100),
    "no network": lambda root: first(root, "network-*").unlink(),
    "changed evidence": lambda root: flip(first(root, "evidence-*")),
    "a changed exemplar": lambda root: flip(first(root, "exemplars/*/*.png")),
    "no exemplar": lambda root: first(root, "exemplars/*/*.png").unlink(),
    "another exemplar": lambda root: Image.new("L", (8, 8), 7).save(first(root, "exemplars/*/*.png")),
    "a large exemplar": lambda root: Image.new("L", (3000, 3000)).save(first(root, "exemplars/*/*.png")),
    "a GIF for an exemplar": lambda root: Image.new("L", (8, 8)).save(first(root, "exemplars/*/*.png"), "GIF"),
    "a sparse network": lambda root: os.truncate(first(root, "network-*"), 3 * 2**30),
    "a huge file": lambda root: os.truncate(first(root, "exemplars/*/*.png"), 10**9),
    "a cut manifest": lambda root: os.truncate(root / "manifest.json", 500),
    "a changed manifest": lambda root: (root / "manifest.json").write_text(
        (root / "manifest.json").read_text().replace('"first_state": 0', '"first_state": 1', 1)
    ),
    "an empty manifest": lambda root: (root / "manifest.json").write_text("{}"),
    "a list for a manifest": lambda root: (root / "manifest.json").write_text("[1, 2]"),
    "bytes for a manifest": lambda root: (root / "manifest.json").write_bytes(b"\xff\xfe\x00"),
    "nested without end": lambda root: (root / "manifest.json").write_text("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_named_and_nothing_is_made_of_it(folder, damage):
    damage(folder)
    before = files_in(folder)
    with pytest.raises(FolderError, match=r"model.*: "):
        IncrementalClassifier.load(folder)
    with pytest.raises(FolderError):
        forget_in(folder, NAMES[2])  # the damaged picture is of another class
    assert files_in(folder) | {"learn.lock"} == before | {"learn.lock"}


class Evil:
    """What a pickle could do."""

    def __reduce__(self):
        return (os.mkdir, (os.environ["SCAIL_EVIL"],))


def replaced(kind):
    """Put a file of this kind in place of the network, with a manifest that knows its checksum."""

    def change(root):
        old = first(root, "network-*")
        data = kind()
        digest = hashlib.sha256(data).hexdigest()
        name = f"network-{digest[:32]}.safetensors"
        old.unlink()
        (root / name).write_bytes(data)
        rewrite(root, lambda record: record.update(network={"name": name, "sha256": digest}))

    return change


def pickled():
    return pickle.dumps(Evil())


def torch_saved():
    from io import BytesIO

    file = BytesIO()
    torch.save({"linear.bias": Evil()}, file)
    return file.getvalue()


def no_tensors():
    from safetensors.torch import save

    return save({"linear.bias": torch.zeros(3)})


def set_in(*path, value):
    def change(record):
        *most, last = path
        for key in most:
            record = record[key]
        record[last] = value

    return lambda root: rewrite(root, change)


def spoiled(kind):
    """One number of a tensor that is none, with checksums that fit."""

    def change(root):
        from safetensors.torch import load_file, save

        old = first(root, f"{kind}-*")
        tensors = load_file(old)
        name = next(name for name, tensor in sorted(tensors.items()) if tensor.is_floating_point() and tensor.numel())
        tensors[name].view(-1)[-1] = torch.nan
        data = save(tensors)
        digest = hashlib.sha256(data).hexdigest()
        new = f"{kind}-{digest[:32]}.safetensors"
        (root / new).write_bytes(data)
        rewrite(root, lambda record: record.update({kind: {"name": new, "sha256": digest}}))

    return change


@pytest.mark.parametrize("kind", ["network", "evidence"])
def test_a_model_with_numbers_that_are_none_is_refused_with_file_and_tensor(folder, kind):
    spoiled(kind)(folder)
    with pytest.raises(
        DamagedModel, match=rf"{kind}-[0-9a-f]*\.safetensors: '.*' has numbers that are NaN or infinite"
    ):
        IncrementalClassifier.load(folder)


def test_a_model_with_numbers_that_are_none_is_not_written(folder):
    clf, before = IncrementalClassifier.load(folder, verbose=False), files_in(folder)
    with torch.no_grad():
        clf.model_.learned.network.linear.weight[0, 0] = torch.inf
    with pytest.raises(FolderError, match=r"the new model is not written: 'linear.weight' of its network has numbers"):
        clf.save(folder)
    assert files_in(folder) | {"learn.lock"} == before | {"learn.lock"}
    assert IncrementalClassifier.load(folder, verbose=False).classes_ == NAMES


CRAFTED = {
    "a pickle for the network": replaced(pickled),
    "torch's pickle for the network": replaced(torch_saved),
    "a network without weights": replaced(no_tensors),
    "a network elsewhere": set_in("network", "name", value="../../network-" + "0" * 32 + ".safetensors"),
    "an absolute path": set_in("evidence", "name", value="/etc/passwd"),
    "an exemplar elsewhere": set_in("classes", 0, "exemplars", value=["../../../../etc/passwd"]),
    "a folder elsewhere": set_in("classes", 0, "folder", value="../../.."),
    "a class of another type": set_in("classes", 0, "name", value=["a"]),
    "two classes of one name": set_in("classes", 1, "name", value="a"),
    "no classes": set_in("classes", value=[]),
    "classes of another type": set_in("classes", value="abc"),
    "another format": set_in("scail model, format", value=99),
    "an unknown network": set_in("settings", "experiment", "network", value="os.system"),
    "a network to be fetched": set_in("settings", "experiment", "network", value="timm:hf-hub:evil/model"),
    "huge images": set_in("settings", "shape", "height", value=10**9),
    "many channels": set_in("settings", "shape", "channels", value=10**9),
    "an unknown method": set_in("settings", "method", value="nosuch"),
    "full": set_in("settings", "method", value="full"),
    "text for a number": set_in("settings", "memory", value="20"),
    "a small memory": set_in("settings", "memory", value=3),
    "text for epochs": set_in("settings", "experiment", "later_schedule", "epochs", value="7"),
    "a strange setting": set_in("settings", "experiment", "command", value="rm"),
    "states out of order": set_in("classes", 0, "first_state", value=7),
    "a negative state": set_in("classes", 0, "first_state", value=-1),
    "history of another type": set_in("history", value=3),
    "a class that moves the cursor": set_in("classes", 0, "name", value="\x1b[2J"),
    "a history that moves it": set_in("history", 0, "when", value="\x1b[2J"),
    "history of numbers": set_in("history", 0, "new", value=5),
    "a difference of text": set_in("difference", "a", value=["1", "1", "1"]),
    "a difference of nothing": set_in("difference", "a", value=[0, 0, 0]),
    "a difference too short": set_in("difference", "a", value=[]),
    "accuracy of text": set_in("accuracy", "top1", value="high"),
    "accuracy that is no number": set_in("accuracy", "top1", value=float("nan")),
    "a negative padding": set_in("settings", "experiment", "padding", value=-9),
    "a negative seed": set_in("settings", "experiment", "seed", value=-1),
    "a rate that is no number": set_in("settings", "experiment", "later_schedule", "lr", value=float("nan")),
    "a memory without a selection": set_in("settings", "select", value=None),
    "negative calls": set_in("calls", value=-5),
    "null for settings": set_in("settings", value=None),
}


@pytest.mark.parametrize("craft", CRAFTED.values(), ids=CRAFTED.keys())
def test_a_crafted_folder_is_an_error_and_runs_nothing(folder, craft, tmp_path, monkeypatch):
    monkeypatch.setenv("SCAIL_EVIL", str(tmp_path / "evil"))
    craft(folder)
    with pytest.raises(FolderError, match="model"):
        IncrementalClassifier.load(folder)
    assert not (tmp_path / "evil").exists()


def places_in(value, path=()):
    """Where something stands in a manifest: keys and numbers."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places_in(inner, (*path, key))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_anywhere_in_the_manifest_is_accepted_or_a_clear_error(original, tmp_path, data):
    shutil.copytree(original, tmp_path / "model", dirs_exist_ok=True)
    record = manifest_of(original)
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    set_in(*data.draw(st.sampled_from([*places_in(record)])), value=data.draw(values))(tmp_path / "model")
    with contextlib.suppress(FolderError):
        IncrementalClassifier.load(tmp_path / "model", verbose=False)


def test_the_way_of_crafting_itself_is_no_error(folder):
    rewrite(folder, lambda record: None)
    IncrementalClassifier.load(folder)


def link(root, name):
    """Move a part of the folder outside, and put a link in its place."""
    outside = root.parent / "outside"
    outside.mkdir()
    (root / name).rename(outside / "it")
    (root / name).symlink_to(outside / "it")


@pytest.mark.parametrize("pattern", ["network-*", "exemplars", "exemplars/*", "exemplars/*/*.png", "manifest.json"])
def test_links_are_not_followed(folder, pattern):
    link(folder, str(first(folder, pattern).relative_to(folder)))
    outside = {path: path.stat().st_mtime_ns for path in (folder.parent / "outside").rglob("*")}
    with pytest.raises(FolderError, match=r"link|plain file"):
        IncrementalClassifier.load(folder)
    with pytest.raises(FolderError):
        learn_into(folder, *little_images("d"), make=little)
    assert {path: path.stat().st_mtime_ns for path in (folder.parent / "outside").rglob("*")} == outside


@pytest.mark.parametrize("name", ["unfinished", "learn.lock", "held-out"])
def test_nothing_is_written_through_a_link(folder, name):
    target = folder.parent / "precious"
    if name == "learn.lock":
        (folder / name).unlink(missing_ok=True)
        target.write_text("do not touch")
    else:
        shutil.rmtree(folder / name, ignore_errors=True)
        target.mkdir()
        (target / "file").write_text("do not touch")
    (folder / name).symlink_to(target)
    with pytest.raises(FolderError, match="a symbolic link, which a model's folder does not have"):
        learn_into(folder, *little_images("d"), make=little)
    assert (target if target.is_file() else target / "file").read_text() == "do not touch"


def test_a_newer_format_names_the_way_out(folder):
    set_in("scail model, format", value=99)(folder)
    with pytest.raises(FolderError, match="format 99, this scail reads format 2: use the scail that wrote it"):
        IncrementalClassifier.load(folder)


def test_no_model_is_a_clear_error(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FolderError, match="there is no model here; make one with scail learn"):
            IncrementalClassifier.load(place)
    with pytest.raises(FolderError, match="there is no model here"):
        forget_in(tmp_path / "nowhere", "a")
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FolderError, match=r"holds 'thesis.txt' and is not a scail model"):
        little().learn(*little_images("a", "b")).save(tmp_path)
    assert files_in(tmp_path) == {"thesis.txt"}


def test_a_file_of_ones_own_in_the_folder_stays(folder):
    (folder / "notes.txt").write_text("mine")
    (folder / "exemplars" / "notes.txt").write_text("mine")
    learn_into(folder, *little_images("d"))
    assert {"notes.txt", "exemplars/notes.txt"} <= files_in(folder)


@pytest.mark.parametrize("left", [f".scail-{'0' * 32}", f".scail-manifest.json.{'0' * 32}"])
def test_what_a_killed_process_was_writing_is_taken_away(folder, left):
    places = [folder, first(folder, "exemplars/*")]
    for place in places:
        (place / left).write_text("half")
    learn_into(folder, *little_images("d"))
    assert not [place for place in places if (place / left).exists()]


def test_nothing_in_the_folder_of_unfinished_work_goes_but_such_work(folder, tmp_path):
    theirs = {"thesis.txt", "bert.safetensors", "sub/notes.txt"}
    for place in (folder / "unfinished", tmp_path / "new" / "unfinished"):
        for name in theirs:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("mine")
        (place / f"{'1' * 32}.training.safetensors").write_bytes(b"of a training that was killed")
        learn_into(place.parent, *little_images("x", "y"), make=little)
        assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == theirs
        forget_in(place.parent, "x")
        assert all((place / name).read_text() == "mine" for name in theirs)


def test_a_file_in_the_place_of_a_folder_is_damage_not_a_traceback(folder):
    shutil.rmtree(folder / "exemplars")
    (folder / "exemplars").write_text("x")
    clf = little().learn(*little_images("a", "b"))
    with pytest.raises(FolderError, match="holds another model"):
        clf.save(folder)
    with pytest.raises(FolderError, match="exemplars"):
        IncrementalClassifier.load(folder)


def test_saving_over_another_model_must_be_asked_for(folder):
    other = little().learn(*little_images("x", "y"))
    with pytest.raises(FolderError, match="holds another model, or was changed since it was read"):
        other.save(folder)
    mine, yours = (IncrementalClassifier.load(folder, verbose=False) for _ in range(2))
    mine.learn(*little_images("d")).save(folder)
    mine.learn(*little_images("e")).save(folder)
    with pytest.raises(FolderError, match="was changed since it was read"):
        yours.learn(*little_images("f")).save(folder)
    assert IncrementalClassifier.load(folder).classes_ == (*NAMES, "d", "e")
    other.save(folder, overwrite=True)
    assert IncrementalClassifier.load(folder).classes_ == ("x", "y")


def test_forgetting_takes_everything_of_the_class_from_the_disk(folder):
    name = NAMES[1]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    pictures = {path for path in before if path.parent.name == class_folder(name)}
    rows = IncrementalClassifier.load(folder).model_.learned
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / f"{'0' * 32}.training.safetensors").write_bytes(b"weights that saw it")
    (folder / "network-00000000000000000000000000000000.safetensors").write_bytes(b"an older copy")
    forget_in(folder, name)
    left = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(pictures) >= 2 and not pictures & left.keys()
    assert not (folder / "exemplars" / class_folder(name)).exists()
    assert not (folder / "unfinished").exists()
    assert not {path.name for path in left} & {path.name for path in before if path.suffix == ".safetensors"}
    initial, current = rows.evidence.initial_weight_CD[1], rows.network.linear.weight[1].detach()
    for path, data in left.items():
        assert name.encode() not in data and json.dumps(name)[1:-1].encode() not in data, path
        assert initial.numpy().tobytes() not in data and current.numpy().tobytes() not in data
    assert files_in(folder) - {"learn.lock"} == look(folder).manifest.files() | {"manifest.json", "README.md"}
    assert IncrementalClassifier.load(folder).classes_ == (NAMES[0], NAMES[2])
    with pytest.raises(ValueError, match="is not known"):
        forget_in(folder, name)


def test_a_folder_that_cannot_be_written_is_a_clear_error(folder, monkeypatch):
    from scail.classifier.folder import write

    def full(path, data, flushed=None):
        raise OSError(28, "No space left on device")

    before = look(folder).stamp
    monkeypatch.setattr(write, "write_bytes", full)
    with pytest.raises(
        FolderError, match=r"No space left on device; free some space .* The model that was there is as it was"
    ):
        learn_into(folder, *little_images("d"))
    assert look(folder).stamp == before
    IncrementalClassifier.load(folder)


def test_names_of_classes_never_make_a_path():
    for name in ("..", "/etc/passwd", "a/b", "CON", "", "ü" * 300, "a\\b", ".hidden", "a\0b"):
        folder = class_folder(name)
        assert "/" not in folder and "\\" not in folder and not folder.startswith(".") and len(folder) < 60
    assert class_folder("a b") != class_folder("a-b")


def test_it_is_a_damaged_model_and_so_a_users_error():
    assert issubclass(DamagedModel, ValueError)


@pytest.mark.parametrize("what", ["network-*", "evidence-*", "answer-*", "exemplars/*/*.png"])
@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), flip])
def test_a_save_does_not_take_a_broken_file_for_its_own(tmp_path, what, spoil):
    root, clf = tmp_path / "m", little().learn(*little_images("a", "b"))
    clf.save(root)
    expected = {path: path.read_bytes() for path in root.glob(what)}
    for path in expected:
        spoil(path)
    clf.save(root, overwrite=True)
    assert {path: path.read_bytes() for path in root.glob(what)} == expected
    assert IncrementalClassifier.load(root, verbose=False).classes_ == ("a", "b")


def test_what_cannot_be_removed_after_the_swap_is_told(tmp_path, monkeypatch):
    """Pictures of a class that was just forgotten, for example."""
    root, real = tmp_path / "m", Path.unlink
    learn_into(root, *little_images("a", "b"), make=little)

    def broken(path: Path, *given, **named) -> None:
        if path.suffix == ".png":
            raise OSError(5, "Input/output error", str(path))
        real(path, *given, **named)

    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(
        FolderError, match=r"the new model is in place, but files .* could not be removed: .*\.png: Input"
    ):
        forget_in(root, "a")
    assert IncrementalClassifier.load(root).classes_ == ("b",) and [*root.glob("exemplars/a-*/*.png")]
    assert len([*root.glob("evidence-*")]) == 1  # what could be removed is
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is not known"):
        forget_in(root, "a")
    assert not [*root.glob("exemplars/a-*/*.png")]


def test_an_error_after_the_swap_does_not_say_that_the_old_model_is_there(tmp_path, monkeypatch):
    from scail.classifier.folder import write

    root, clf = tmp_path / "m", little(memory=4).learn(*little_images("a", "b"))
    clf.save(root)
    there = sorted(root.glob("exemplars/*/*.png"))

    def failing(root: Path) -> None:
        raise OSError(5, "Input/output error", str(root))

    with monkeypatch.context() as patched:
        patched.setattr(write, "sweep", failing)
        clf.learn(*little_images("c")).save(root)  # it is the new model; only what it no longer needs is still there
    assert IncrementalClassifier.load(root, verbose=False).classes_ == ("a", "b", "c")
    assert all(path.exists() for path in there)
    clf.save(root)
    assert files_in(root) - {"learn.lock"} == look(root).manifest.files() | {"manifest.json", "README.md"}

    def swapped(folder: Path) -> None:
        if folder == root and look(root).manifest.calls == 3:
            failing(folder)

    monkeypatch.setattr(write, "flush", swapped)
    with pytest.raises(FolderError, match=r"the new model is in place, but may not outlast a power failure: .*error"):
        clf.learn(*little_images("d")).save(root)
    assert IncrementalClassifier.load(root, verbose=False).classes_ == ("a", "b", "c", "d")


@pytest.mark.parametrize("method", ["scail", "slda"])
def test_the_last_learn_given_again_is_done_already(tmp_path, method):
    """As after a kill between the swap and the end of the process."""
    root, lessons = tmp_path / "m", [little_images("a", "b"), little_images("c", "a", seed=1)]

    def learn(lesson, **given):
        return learn_into(root, *lesson, make=lambda: little(memory=4, method=method, backbone="resnet8-half", **given))

    for lesson in lessons:
        learn(lesson)
    before = (root / "manifest.json").read_bytes()
    (root / "unfinished").mkdir()
    (root / "unfinished" / f"{'0' * 32}.training.safetensors").write_bytes(
        b"what the killed one had not yet taken away"
    )
    assert learn(lessons[1]).classes_ == ("a", "b", "c")
    assert (root / "manifest.json").read_bytes() == before and not (root / "unfinished").exists()
    learn(little_images("c", "a", seed=2))
    assert look(root).manifest.calls == 3
    forget_in(root, "c")
    assert look(root).manifest.lesson == ""  # nothing of what was forgotten
    learn(little_images("c", "a", seed=2))  # it is not done any more
    assert "c" in learn(little_images("c", "a", seed=2)).classes_ and look(root).manifest.calls == 4
    undo_in(root)
    learn(little_images("c", "a", seed=2))
    assert look(root).manifest.calls == 4


def test_other_settings_make_another_lesson(tmp_path):
    root, lesson = tmp_path / "m", little_images("a", "b")

    def learn(epochs, method="scail"):
        def prepared(clf):
            clf.epochs = epochs
            if clf.has_learned and method is not None:
                clf.use(method)
            return lesson

        learn_into(root, prepared, make=lambda: little(memory=4, method="scail", backbone="resnet8-half"))
        return look(root).manifest.calls

    assert [learn(epochs) for epochs in (1, 1, 2, None, 2)] == [1, 1, 2, 2, 2]
    assert [learn(2, method) for method in ("ft", "ft", None)] == [3, 3, 3]
