"""What a tutor does for each kind of job. Only the tutor imports this: torch comes with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scail.classifier.folder import look
from scail.classifier.in_folder import forget_in, learn_into
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
    """Take a class out; what remains of it is said."""
    del report
    before = _report(root, desk) or {}
    left = forget_in(root, job.classes[0], say=print)
    return {"left": left, **measure(root, desk), "before": before.get("classes", {})}


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


CHANGES: dict[str, Callable[[Path, Desk, Job, Report], dict[str, Any]]] = {"learn": learn, "forget": forget}
