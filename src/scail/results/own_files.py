"""Which files of a run's folder a run has written: nothing else in it is ever removed."""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scail.results.marks import RUN, is_run
from scail.storage.atomic import ASIDE
from scail.storage.lock import LOCK

FINISHED = ("table.md", "summary.json", "report.html")
"""What says that a run is finished: it goes first."""
LINES = ("results.jsonl", "classes.jsonl", "weights.jsonl", "memory.jsonl", "timing.jsonl")
FIGURES = (
    "accuracy", "past_new", "errors", "origins", "confusion", "scores", "weights", "memory", "timing", "cost",
)  # fmt: skip
"""The names of a run's figures."""
_BELOW: dict[str, tuple[str, ...]] = {
    "confusion": (r"[\w.+-]+\.npz",),
    "exemplars": (r"[\w.+-]+/state_\d+\.(png|jpg)",),
    "generated": (r"[\w.+-]+/state_\d+\.(png|jpg)",),
    "figures": (
        rf"([\w.-]+/)?({'|'.join(FIGURES)})\.(pdf|svg|png)",
        r"([\w.-]+-)?against-(memory|states)-[zb]\d+\.(pdf|svg|png)",
    ),
    "tables": (
        r"([\w.-]+-)?(table|measures|cost|learning|all-\w+)(-\d+)?\.(md|tex|csv)",
        r"[\w.-]*Z\d[\w.-]*\.(md|tex|csv)",
        r"(states|matrix)\.csv",
    ),
    "logs": (r"[^/]+/(events\.out\.tfevents\.[^/]+|hparams\.yaml)",),
}
"""The folders of a run, and the names of what it writes there. What other loggers than TensorBoard's write stays."""
_SEED = re.compile(r"seed-\d+")
_STATE = re.compile(r"state_\d+\.npy")


def clear(folder: Path, logs: bool) -> None:
    """Remove what a run has written here, perhaps with its logs, and the folders that are empty then."""
    for path in [*own_files(folder, logs)]:
        path.unlink(missing_ok=True)
    for name in _BELOW:
        if (place := folder / name).is_dir() and not place.is_symlink():
            for inner in [*(path for path in place.iterdir() if path.is_dir() and not path.is_symlink()), place]:
                with contextlib.suppress(OSError):  # somebody else's files are in it
                    inner.rmdir()
    for seed in _seeds(folder):
        clear(seed, logs)
        for name in (RUN, *LINES, LOCK):
            (seed / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            seed.rmdir()


def check_links(folder: Path, named: str) -> None:
    """An error where a folder of a run, or a file in one, is a link: what is written there would land elsewhere."""
    for name in _BELOW:
        place = folder / name
        inside = place.rglob("*") if place.is_dir() and not place.is_symlink() else ()
        for path in (path for path in (place, *inside) if path.is_symlink()):
            if path.is_dir() or path == place or _is_own_name(name, path.relative_to(place).as_posix()):
                raise ValueError(f"{named}: {path.relative_to(folder)} is a link; remove it, or give another directory")


def _is_own_name(place: str, inner: str) -> bool:
    return any(re.fullmatch(pattern, inner) for pattern in _BELOW[place])


def own_files(folder: Path, logs: bool = True) -> Iterator[Path]:
    """What a run has written into its folder, beside its configuration and its lines, and halves that a kill has left.

    Links are not followed.
    """
    yield from (path for name in FINISHED if (path := folder / name).is_file())
    for name in _BELOW:
        if name == "logs" and not logs:
            continue
        for path in _files_in(folder / name):
            inner = path.relative_to(folder / name).as_posix()
            own = _is_own_name(name, inner) or bool(ASIDE.fullmatch(path.name))
            if own and (path.suffix != ".npz" or _has_states(path)):
                yield path


def _files_in(place: Path) -> Iterator[Path]:
    if place.is_symlink() or not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.is_symlink():
            continue
        yield from (
            [path] if path.is_file() else (one for one in path.iterdir() if one.is_file() and not one.is_symlink())
        )


def _has_states(path: Path) -> bool:
    """Whether it holds a matrix for each state, and nothing else; one that was cut short is a run's, too."""
    try:
        with zipfile.ZipFile(path) as archive:
            return all(_STATE.fullmatch(name) for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        with path.open("rb") as file:
            head = file.read(64)
        return not head or bool(_STATE.match(head[30:].decode("latin-1")))


def _seeds(folder: Path) -> list[Path]:
    """The runs of single seeds in the folder of several."""
    found = [path for path in folder.iterdir() if _SEED.fullmatch(path.name) and path.is_dir()]
    return [path for path in found if not path.is_symlink() and is_run(path)]
