"""The manifest of a classifier's folder: what it says, checked value by value when it is read."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from scail.classifier.folder.files import class_folder
from scail.classifier.folder.record import (
    CLASS_FOLDER,
    FORMAT,
    FORMAT_KEY,
    MANIFEST,
    TENSOR_FILE,
    DamagedModel,
    FolderError,
    digest_of_record,
    read_record,
)  # fmt: skip
from scail.classifier.inputs import NumberLabel
from scail.classifier.odds import Odds
from scail.classifier.settings import Change, Settings, check_int8, check_method
from scail.config import Experiment, HeadOptions, Recipe, Schedule, experiment_from, schedules_in, settings_of
from scail.config.former import FORMER_METHODS
from scail.heads.strangeness import Familiar
from scail.methods import METHODS
from scail.networks.network import known_network
from scail.storage.records import UnknownKey, decode

_HEX = set("0123456789abcdef")
_KEPT = {*settings_of(Recipe, HeadOptions), "seed", "precision"}
"""What of an experiment a model needs: it goes from one machine to another, and knows no benchmark."""


@dataclass(frozen=True)
class ClassRecord:
    """What the manifest says of a class."""

    name: str
    first_state: int
    exemplars: tuple[str, ...]
    """Hashes of its exemplars, best first."""
    held_out: tuple[str, ...]
    number: bool = False
    """Whether its label was given as a whole number."""

    @property
    def folder(self) -> str:
        """Where its pictures are."""
        return class_folder(self.name)


@dataclass(frozen=True)
class TensorFile:
    """A file of tensors and its checksum."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder says of its model."""

    settings: Settings
    classes: tuple[ClassRecord, ...]
    network: TensorFile
    evidence: TensorFile
    calls: int
    history: tuple[dict[str, Any], ...]
    accuracy: dict[str, Any] | None
    difference: dict[str, Any] | None
    changed: str
    scail: str
    """The version that wrote it."""
    features: tuple[TensorFile, ...] = ()
    """Frozen networks: features of every learned image, a file for each call."""
    answer: TensorFile | None = None
    """The ONNX file that answers; models of version 0.1 have none."""
    odds: Odds = field(default_factory=Odds)
    """What scores are as odds."""
    familiar: Familiar | None = None
    """The scale of strangeness; None: nothing is unknown."""
    left_out: dict[str, Any] | None = None
    """What it has right of learned images, each left out once; models of version 0.1 have none."""
    int8: TensorFile | None = None
    """The network in 8 bits, where that is what features are taken with."""
    change: Change | None = None
    """What the last change was."""
    before: Manifest | None = None
    """The model before it, without pictures of its own: those that it names are pictures of the present one."""
    gone: int = 0
    """Pictures that it had and that are kept no more."""
    lesson: str = ""
    """Where the last change was a learn: the key of what was learned, so that the same again is known to be done."""

    def files(self) -> set[str]:
        """Every file that it names, relative to the folder."""
        found = self.numbers() | (self.before.numbers() if self.before else set())
        found |= {self.answer.name} if self.answer else set()
        for one in self.classes:
            found |= {f"exemplars/{one.folder}/{digest}.png" for digest in one.exemplars}
            found |= {f"held-out/{one.folder}/{digest}.png" for digest in one.held_out}
        return found

    def numbers(self) -> set[str]:
        """Its files of numbers."""
        found = {self.network.name, self.evidence.name, *(file.name for file in self.features)}
        return found | ({self.int8.name} if self.int8 else set())

    def pictures(self) -> dict[str, str]:
        """Where each picture is, by its hash."""
        return {Path(name).stem: name for name in sorted(self.files()) if name.endswith(".png")}


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as it is written."""
    record = _record_of(manifest)
    record["sha256"] = digest_of_record(record)
    return (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()


def _record_of(manifest: Manifest) -> dict[str, Any]:
    """As JSON. Of the model before, the history is but a number where the present one goes on from it."""
    record = {FORMAT_KEY: FORMAT, **asdict(replace(manifest, before=None))}
    experiment = manifest.settings.experiment.record()
    kept = _KEPT | schedules_in(experiment).keys()
    record["settings"]["experiment"] = {name: value for name, value in experiment.items() if name in kept}
    if not manifest.settings.int8:  # nothing is said of it: an older scail can read the model
        del record["settings"]["int8"], record["int8"]
    for one, said in zip(manifest.classes, record["classes"], strict=True):
        said["folder"] = one.folder
    if manifest.before is not None:
        count = len(manifest.before.history)
        record["before"] = _record_of(manifest.before)
        if manifest.before.history == manifest.history[:count]:
            record["before"]["history"] = count
    return record


def read_manifest(root: Path) -> tuple[Manifest, bytes]:
    """The manifest, every value of it checked, and its bytes."""
    record, data = read_record(root)
    try:
        return _parse(record), data
    except FolderError as error:
        raise type(error)(f"{root / MANIFEST}: {error}") from error
    except UnknownKey as error:
        raise FolderError(f"{root / MANIFEST}: {error}: a newer scail wrote it; use that one") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedModel(f"{root / MANIFEST}: {error or type(error).__name__}; restore it from a copy") from error


def _parse(record: Any, present: Manifest | None = None) -> Manifest:
    """`present`: the manifest that names this one as the one before it."""
    classes = tuple(_class(one) for one in decode(list, record["classes"], "classes"))
    names = [one.name for one in classes]
    if not names or len(set(names)) != len(names):
        raise DamagedModel("no classes, or two of the same name")
    firsts = [one.first_state for one in classes]
    if firsts != sorted(firsts) or firsts[0] < 0:
        raise DamagedModel("states of the classes are not in order")
    manifest = Manifest(
        settings=_settings(record["settings"], former=record[FORMAT_KEY] == 1),
        classes=classes,
        network=_tensor_file(record["network"], "network"),
        evidence=_tensor_file(record["evidence"], "evidence"),
        calls=_count(record["calls"], "calls"),
        history=_histories(record["history"], present),
        accuracy=_accuracy(record["accuracy"]),
        difference=_difference(record["difference"]),
        changed=_text(record["changed"], "changed"),
        scail=_text(record["scail"], "scail"),
        features=tuple(_tensor_file(one, "features") for one in decode(list, record.get("features", []), "features")),
        answer=_tensor_file(record["answer"], "answer") if record.get("answer") else None,
        odds=decode(Odds, record.get("odds", {}), "odds"),
        familiar=_familiar(record.get("familiar")),
        left_out=_accuracy(record.get("left_out")),
        int8=_tensor_file(record["int8"], "int8") if record.get("int8") else None,
        change=decode(Change | None, record.get("change"), "change"),
        gone=_count(record.get("gone", 0), "gone"),
        lesson=_text(record.get("lesson", ""), "lesson"),
    )
    if manifest.settings.int8 != (manifest.int8 is not None):
        raise DamagedModel("the settings say int8 and there is no such network, or the other way about")
    if present is None and record.get("before") is not None:
        manifest = replace(manifest, before=_parse(record["before"], manifest))
    kept = sum(len(one.exemplars) + len(one.held_out) for one in classes)
    if kept > manifest.settings.memory:
        raise DamagedModel(f"{kept} images are kept, more than the memory of {manifest.settings.memory}")
    return manifest


def _histories(records: Any, present: Manifest | None) -> tuple[dict[str, Any], ...]:
    if present is not None and isinstance(records, int):
        return present.history[: _count(records, "history")]
    return tuple(_history(one) for one in decode(list, records, "history"))


def _history(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = decode(dict, record, "history")
    for key in ("new", "more"):
        for name in decode(list, found[key], key):
            _text(name, key)
    for key in ("when", "method"):
        _text(found[key], key)
    for key in ("images", "epochs", "seconds"):
        decode(float, found[key], key)
    _accuracy(found["accuracy"])
    return found


def _text(value: Any, name: str) -> str:
    """A short text that can be printed: nothing in it moves a terminal's cursor."""
    text: str = decode(str, value, name)
    if len(text) > 200 or not text.isprintable():
        raise DamagedModel(f"{name} is {text[:50]!r}, expected at most 200 printable characters")
    return text


def _count(value: Any, name: str) -> int:
    if (found := int(decode(int, value, name))) < 0:
        raise DamagedModel(f"{name} is {found}, expected 0 or more")
    return found


def _accuracy(record: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = decode(dict | None, record, "accuracy")
    for key in ("top1", "top5", "images") if found is not None else ():
        if not math.isfinite(decode(float, record[key], key)):
            raise DamagedModel(f"{key} is {record[key]}, expected a number")
    return found


def _difference(record: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = decode(dict | None, record, "difference")
    for name, counts in (found or {}).items():
        _text(name, "class")
        images, *right = decode(list[int], counts, "difference")
        if images < 1 or len(right) != 2 or not all(0 <= n <= images for n in right):
            raise DamagedModel(f"difference of {name!r} is {counts}, expected images, right before, right after")
    return found


def _class(record: Any) -> ClassRecord:
    name, number = _text(record["name"], "name"), decode(bool, record.get("number", False), "number")
    if number and not re.fullmatch("-?[0-9]{1,30}", name):
        raise DamagedModel(f"class {name[:50]!r}: expected a whole number")
    hashes = [decode(tuple[str, ...], record[key], key) for key in ("exemplars", "held_out")]
    for digest in (*hashes[0], *hashes[1]):
        if len(digest) != 32 or set(digest) - _HEX:
            raise DamagedModel(f"{digest[:50]!r}: expected a hash of 32 digits")
    if not CLASS_FOLDER.fullmatch(class_folder(name)) or record.get("folder") != class_folder(name):
        raise DamagedModel(f"class {name[:50]!r}: its folder is not the one of its name")
    first_state = decode(int, record["first_state"], "first_state")
    return ClassRecord(NumberLabel(name) if number else name, first_state, hashes[0], hashes[1], number)


def _tensor_file(record: Any, kind: str) -> TensorFile:
    file: TensorFile = decode(TensorFile, record, kind)
    if not TENSOR_FILE.fullmatch(file.name) or not file.name.startswith(kind):
        raise DamagedModel(f"{file.name[:80]!r}: not the name of a file of this folder")
    return file


def _familiar(record: Any) -> Familiar | None:
    found: Familiar | None = decode(Familiar | None, record, "familiar")
    if found is not None and not all(math.isfinite(value) for value in asdict(found).values()):
        raise DamagedModel(f"familiar is {record}, expected numbers")
    return found


def _settings(record: Any, former: bool) -> Settings:
    """The settings; values that this scail adds have their defaults, values that it does not know are an error."""
    own: dict[str, Any] = dict(decode(dict, record, "settings"))
    if "experiment" in own:
        own = {**own, "experiment": _experiment(own["experiment"])}
    if former:
        own["method"] = FORMER_METHODS.get(own["method"], own["method"])
    settings: Settings = decode(Settings, own, "settings")
    check_method(settings.method, settings.memory)
    check_int8(settings)
    network = settings.experiment.recipe.network
    if not known_network(network):
        raise DamagedModel(f"network {network[:50]!r}: not a name that scail knows")
    experiment = settings.experiment
    sound = 0 <= settings.validation < 1 and 0 <= experiment.recipe.padding <= 1024 and 0 <= experiment.seed < 2**32
    if not sound or settings.method not in METHODS or (settings.memory and settings.select is None):
        raise DamagedModel("settings out of bounds")
    return settings


def _experiment(record: Any) -> Experiment:
    given: dict[str, Any] = decode(dict, record, "experiment")
    known, schedules = settings_of(Experiment), schedules_in(given)
    if unknown := sorted(given.keys() - known.keys() - schedules.keys()):
        raise UnknownKey(f"experiment: unknown key {unknown[0]!r}")
    values = {name: decode(known[name].hint, value, name) for name, value in given.items() if name in known}
    return experiment_from(values | {name: decode(Schedule, value, name) for name, value in schedules.items()})
