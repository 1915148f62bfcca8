"""The commands that are killed: what is there before, what they do, and what a folder means afterwards.

Each works in the current folder, with the store, the cache and everything else below it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scail import IncrementalClassifier
from scail.classifier.folder import check_folder, files, look, tidy
from scail.classifier.folder.card import CARD, described_by
from scail.classifier.folder.record import MANIFEST
from scail.classifier.in_folder import forget_in, learn_into, relabel_in, rename_in, undo_in
from scail.cli.main import carry_out, main
from scail.results.marks import is_grid
from scail.server import tutor
from scail.server.desk import Desk, desk_of, new_job
from scail.storage.entry import Entry
from scail.storage.inspection import inspected
from scail.storage.store import Store
from tests.classifier.little import little, little_images
from tests.crash.disk import Tree

MODEL = Path("model")
MEMORY = 6
PROBE = little_images("a", "b", "c", seed=9)[0]
Meaning = Any
"""What whoever reads makes of a folder; an error if there is half of something."""


@dataclass(frozen=True)
class Command:
    """A command, and how it is judged."""

    name: str
    prepare: Callable[[], object]
    work: Callable[[], object]
    meaning: Callable[[], Meaning]
    """Read only. After a kill it is what it was before or after the command, nothing else."""
    lasts: bool = True
    """Whether what the command has done is on the disk when it ends."""
    done: str = "-"
    """What it says when it is repeated and there is nothing left to do, where it then ends with an error."""


def _nothing() -> None: ...


# A model


def _make() -> IncrementalClassifier:
    return little(memory=MEMORY, validation=0.34, epochs=2, verbose=True)


def _learn(*names: str) -> None:
    files._SECONDS_BETWEEN = 0.0  # each epoch leaves a checkpoint
    carry_out(lambda: learn_into(MODEL, *little_images(*names, each=4), make=_make))


def _taught(*lessons: str) -> Callable[[], None]:
    def prepare() -> None:
        for names in lessons:
            learn_into(MODEL, *little_images(*names.split("+"), each=4), make=_make)

    return prepare


def _save() -> None:
    clf = _make().learn(*little_images("c", "d", each=4))
    carry_out(lambda: clf.save(MODEL, overwrite=True))


WRONG = Path("wrong.png")


def _taught_wrongly() -> None:
    """A copy of a picture that is another class in truth."""
    _taught("a+b", "c")()
    WRONG.write_bytes(min(MODEL.glob("exemplars/a*/*.png")).read_bytes())


def _model() -> Meaning:
    """Its classes and its answers; None where there is none."""
    if not (MODEL / "manifest.json").exists():
        return None
    clf = IncrementalClassifier.load(MODEL, verbose=False, accelerator="cpu")
    damaged = check_folder(MODEL).damaged
    assert not damaged, damaged
    manifest = look(MODEL).manifest
    kept = sum(len(one.exemplars) + len(one.held_out) for one in manifest.classes)
    assert kept <= MEMORY, f"{kept} pictures of at most {MEMORY}"
    return clf.classes_, clf.predict_proba(PROBE).tobytes(), manifest.calls


def _export() -> None:
    main(["export", str(MODEL), "--onnx", "elsewhere/model.onnx"])


def _exported() -> Meaning:
    path = Path("elsewhere/model.onnx")
    return path.read_bytes() if path.exists() else None


# The server


def _picture(image: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _ask() -> None:
    """A lesson is asked for. Where no answer came, the client asks again."""
    desk = Desk(desk_of(MODEL))

    def ask() -> None:
        desk.make()
        desk.sweep()
        if not desk.all_jobs():
            _add()

    carry_out(ask)


def _asked() -> Meaning:
    return [(job.kind, len(Desk(desk_of(MODEL)).pictures(job))) for job in Desk(desk_of(MODEL)).all_jobs()]


def _add() -> None:
    images, names = little_images("c", "d", each=4)
    Desk(desk_of(MODEL)).add(new_job("learn", classes=tuple(names)), [_picture(one) for one in images])


def _taught_and_asked() -> None:
    _taught("a+b")()
    Desk(desk_of(MODEL)).make()
    _add()


def _tutor() -> None:
    """What a tutor does; where the lesson failed before, the client asks again."""
    files._SECONDS_BETWEEN = 0.0

    def work() -> None:
        desk = Desk(desk_of(MODEL))
        tidy(MODEL)  # as `scail serve` begins
        desk.sweep()
        if desk.all_jobs()[0].status == "failed":
            shutil.rmtree(desk.jobs)
            desk.make()
            _add()
        tutor.work(MODEL, desk, idle=0.001)
        (job,) = desk.all_jobs()
        if job.status != "done":
            raise ValueError(job.error or f"the job is {job.status}")

    carry_out(work)


def _lesson() -> Meaning:
    """The model; and its job, which is never done without it."""
    model, (job,) = _model(), Desk(desk_of(MODEL)).all_jobs()
    assert job.status != "done" or "c" in model[0], "the job is done, and its classes are not there"
    return model


# Experiments

_TINY = """
dataset: digits
methods: ft
states: 2
memory: 8
select: herding
classes: 4
images_per_class: 8
epochs: "2,1"
"""


def _quick_figures() -> None:
    """Figures are as small as files can be: to draw them takes longer than all else."""
    from matplotlib.figure import Figure

    Figure.savefig = lambda figure, path, **_: Path(path).write_bytes(b"figure")  # type: ignore[method-assign]


def _run() -> None:
    _quick_figures()
    options = [word for line in _TINY.split("\n") if line for word in _option(line)]
    main(["run", *options, "--out", "run", "--store", "store", "--jobs", "1"])


def _option(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return f"--{name.replace('_', '-')}", value.strip('"')


def _grid() -> None:
    _quick_figures()
    main(["grid", "tiny.yaml", "--out", "grid", "--store", "store", "--results", "kept", "--jobs", "1"])


def _report() -> None:
    _quick_figures()
    main(["report", "run", "--out", "report"])


def _experiment() -> Meaning:
    """What says that it is finished is complete; and whatever the store gives is what was written."""
    assert all(one.verdict == "sound" for one in inspected(Store(Path("store")))) if Path("store").exists() else True
    place = next((path.parent for path in Path().glob("**/table.md") if not is_grid(path.parent)), None)
    if place is None:
        return None
    found = content({path.as_posix(): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()})
    assert all(found.values()), [path for path, data in found.items() if not data]
    return found


def _nobody_reads() -> Meaning:
    return None


# The store


def _kept(name: str) -> Entry:
    import torch

    return Entry({"a": torch.full((500,), float(ord(name)))}, {"made_from": {"name": name}})


def _store() -> None:
    store = Store(Path("store"))
    for name in "abcdef":
        store.save(_kept(name))
    left = Path("store/states") / f".scail-{_kept('x').key}.{'1' * 32}"
    left.mkdir()
    (left / "tensors.safetensors").write_bytes(b"of a run that was killed")
    store.checkpoint(_kept("a").key).stage("training").save(_kept("a"))


def _gc() -> None:
    for age, name in enumerate("abcdef"):  # who goes first
        with contextlib.suppress(FileNotFoundError):
            os.utime(Path("store/states") / _kept(name).key, (1000 + age, 1000 + age))
    main(["store", "gc", "--store", "store", "--limit", "7KB"])


def _states() -> Meaning:
    """None is damaged."""
    assert all(one.verdict == "sound" for one in inspected(Store(Path("store"))))


COMMANDS = (
    Command("learn, the first", _nothing, lambda: _learn("a", "b"), _model),
    Command("learn, one more", _taught("a+b"), lambda: _learn("c", "d"), _model),
    Command(
        "forget", _taught("a+b", "c"), lambda: carry_out(lambda: forget_in(MODEL, "a")), _model, done="is not known"
    ),
    Command(
        "undo",
        _taught("a+b", "c"),
        lambda: carry_out(lambda: undo_in(MODEL)),
        _model,
        done="the last change was an undo",
    ),
    Command(
        "relabel", _taught_wrongly, lambda: carry_out(lambda: relabel_in(MODEL, [WRONG], "b")), _model, done="already"
    ),
    Command(
        "rename",
        _taught("a+b", "c"),
        lambda: carry_out(lambda: rename_in(MODEL, "a", "z")),
        _model,
        done="is not known",
    ),
    Command("save", _taught("a+b"), _save, _model),
    Command("export", _taught("a+b"), _export, _exported),
    Command("server: a lesson is asked for", _taught("a+b"), _ask, _asked),
    Command("server: the lesson", _taught_and_asked, _tutor, _lesson),
    Command("run", _nothing, _run, _experiment),
    Command("grid", lambda: Path("tiny.yaml").write_text(_TINY), _grid, _experiment),
    Command("report", _run, _report, _nobody_reads, lasts=False),
    Command("store gc", _store, _gc, _states, lasts=False),
)


# What two folders have in common

_MOMENTS = {
    "changed", "seconds", "time", "created", "started", "sha256", "id", "command", "evaluation", "trained_epochs",
    "commit", "facts_sha256", "attempts", "stamp", "when",
}  # fmt: skip
_OF_MACHINES = re.compile(r"(.*/)?(timing\.jsonl|table\.md|cost[^/]*)")
# Others may be writing there without a lock: what a kill has left of these stays for an hour.
_NOT_COMPARED = re.compile(
    r"cache/.*|(.*/)?(\.lock|[^/]+\.lock|events\.jsonl)|(model\.serve|report|elsewhere)/(.*/)?\.scail-.*|store/\.scail-store.*"
)
_NAMES = re.compile(r"(?<=jobs/)[0-9a-f]{24}|(?<=reports/)[0-9a-f]{64}")


def content(tree: Tree) -> dict[str, Any]:
    """What counts of a folder: all but locks, times, and how long it took."""
    found = dict[str, Any]()
    for path, data in sorted(tree.items()):
        if data is not None and not _NOT_COMPARED.fullmatch(path) and not _is_own_card(tree, path, data):
            found[_NAMES.sub("ID", path)] = _meant(path, data)
    return found


def _is_own_card(tree: Tree, path: str, data: bytes) -> bool:
    """A model's card is written after the model, and may be missing until the next change. A wrong one may not stay."""
    folder, _, name = path.rpartition("/")
    manifest = tree.get(f"{folder}/{MANIFEST}")
    return name == CARD and manifest is not None and described_by(data) == hashlib.sha256(manifest).hexdigest()


def _meant(path: str, data: bytes) -> Any:
    if _OF_MACHINES.fullmatch(path):
        return "there" if data else ""
    if path.endswith(".html"):
        return "a whole page" if data.rstrip().endswith(b"</html>") else ""
    if path.endswith((".json", ".jsonl")):
        lines = [data] if path.endswith(".json") else data.splitlines()
        return [_timeless(json.loads(line)) for line in lines] or "no line"
    if path.endswith(".npz"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return data


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(one) for name, one in value.items() if name not in _MOMENTS}
    return [_timeless(one) for one in value] if isinstance(value, list) else value
