"""What a tutor does for each kind of job. Only the tutor imports this: torch comes with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scail.classifier.folder import FolderError, look
from scail.classifier.in_folder import forget_in, learn_into, relabel_in, rename_in, undo_in
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.classifier.inputs import as_pixels
from scail.classifier.model import Model
from scail.server.desk import Desk, Job
from scail.server.tutor import measure, report_on, stamp_of
from scail.training import Progress

Report = Callable[[Progress], None]


def learn(root: Path, desk: Desk, job: Job, report: Report) -> dict[str, Any]:
    """Learn the pictures of the job; the same job goes on where one before was killed."""
    before = dict[str, Any]()

    def read(clf: IncrementalClassifier) -> tuple[Any, list[str]]:
        if clf.has_learned:
            before.update(_report(root, desk) or report_on(clf.model_))
        shape = clf.model_.settings.shape if clf.has_learned else None

        def done(i: int, of: int) -> None:
            report(Progress(i, of, images=1, unit="picture"))

        return as_pixels(desk.pictures(job), shape, clf.first_size, done), list(job.classes)

    clf = learn_into(root, read, say=print, report=report)
    for name in job.inbox:
        for ending in ("jpg", "json", "npy"):
            (desk.inbox / f"{name}.{ending}").unlink(missing_ok=True)
    return {**_measured(root, desk, clf.model_), "before": before.get("classes", {})}


def forget(root: Path, desk: Desk, job: Job, report: Report) -> dict[str, Any]:
    """Take a class out, or single pictures of it; what remains of it is said."""
    del report
    pictures = _files(root, job.images) if job.images else None
    return _changed(root, desk, lambda: forget_in(root, job.classes[0], pictures, say=print))


def rename(root: Path, desk: Desk, job: Job, report: Report) -> dict[str, Any]:
    """Give a class another name."""
    del report
    return _changed(root, desk, lambda: rename_in(root, job.classes[0], str(job.to), say=print))


def correct(root: Path, desk: Desk, job: Job, report: Report) -> dict[str, Any]:
    """Move exemplars to the class that they belong to."""
    del report
    return _changed(root, desk, lambda: relabel_in(root, _files(root, job.images), str(job.to), say=print))


def undo(root: Path, desk: Desk, job: Job, report: Report) -> dict[str, Any]:
    """Take back the last change."""
    del report, job
    return _changed(root, desk, lambda: undo_in(root, say=print))


def is_done(root: Path, job: Job) -> bool:
    """Whether a change stands already in the folder: the process that made it was killed before it could say so."""
    try:
        classes = {one.name: one for one in look(root).manifest.classes}
    except FolderError:
        return False
    if job.kind == "rename":
        return job.to in classes and job.classes[0] not in classes
    if job.kind == "correct":
        return job.to in classes and set(job.images) <= set(classes[job.to].exemplars)
    if job.kind == "forget" and job.images:
        return not any(set(job.images) & set(one.exemplars) for one in classes.values())
    return job.kind == "forget" and job.classes[0] not in classes


def _changed(root: Path, desk: Desk, change: Callable[[], str]) -> dict[str, Any]:
    before = _report(root, desk) or {}
    left = change()
    return {"left": left, **measure(root, desk), "before": before.get("classes", {})}


def _files(root: Path, exemplars: Sequence[str]) -> list[Path]:
    """Where these exemplars are."""
    places = {digest: one.folder for one in look(root).manifest.classes for digest in one.exemplars}
    if missing := [digest for digest in exemplars if digest not in places]:
        raise ValueError(f"exemplar {missing[0][:40]!r} is not kept any more; nothing is changed")
    return [root / "exemplars" / places[digest] / f"{digest}.png" for digest in exemplars]


def _report(root: Path, desk: Desk) -> dict[str, Any] | None:
    """On the model as it is, if it was measured."""
    stamp = stamp_of(root)
    return desk.report(stamp) if stamp else None


def _measured(root: Path, desk: Desk, model: Model) -> dict[str, Any]:
    """How well a model does that was just written; the report is kept if it still is the one in the folder."""
    seen, report = look(root), report_on(model)
    if (seen.manifest.calls, tuple(one.name for one in seen.manifest.classes)) == (model.calls, model.classes):
        desk.keep_report(seen.stamp, report)
    return {"stamp": seen.stamp, **report, "difference": model.difference}


CHANGES: dict[str, Callable[[Path, Desk, Job, Report], dict[str, Any]]] = {
    "learn": learn, "forget": forget, "rename": rename, "correct": correct, "undo": undo,
}  # fmt: skip
