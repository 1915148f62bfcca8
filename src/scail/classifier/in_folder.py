"""Change the classifier in a folder: one process at a time, never lost, never half-written.

The folder answers with the old model until the new one takes its place in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scail.classifier.folder import locked, read_model, sweep, write_model
from scail.classifier.folder.files import clear_errors
from scail.classifier.folder.record import MANIFEST
from scail.classifier.forgetting import what_is_left, without_class
from scail.classifier.incremental_classifier import IncrementalClassifier
from scail.training import Progress

Say = Callable[[str], None]


def learn_into(
    folder: str | Path,
    images: Any,
    labels: Any = None,
    make: Callable[[], IncrementalClassifier] = IncrementalClassifier,
    *,
    wait: bool = True,
    verbose: bool = True,
    say: Say = lambda text: None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> IncrementalClassifier:
    """Learn these images into the classifier of this folder; `make` gives a new one where there is none yet.

    Killed at any moment, the folder answers as before, and the same call goes on where it stopped. `images` may also be
    a function of the classifier: then they are read when it is known what shape they should have.
    """
    root = Path(folder)
    with locked(root, wait, say):
        with clear_errors(root):
            sweep(root, unfinished=False)  # what a process that was killed left behind
        clf = IncrementalClassifier.load(root, verbose=verbose) if (root / MANIFEST).exists() else make()
        if callable(images):
            images, labels = images(clf)
        return clf.learn_and_save(root, images, labels, report)


def forget_in(folder: str | Path, name: str, *, wait: bool = True, say: Say = lambda text: None) -> str:
    """Take a class out of the classifier of this folder, with its pictures, rows, statistics and unfinished work.

    Gives what is left of it, in words.
    """
    root = Path(folder)
    read_model(root, pictures=False)  # an error where there is no model, before a folder is made
    with locked(root, wait, say):
        with clear_errors(root):
            sweep(root)  # also what an earlier forget, killed at the end, has left
        model = without_class(read_model(root)[0], name)
        write_model(root, model)
    return what_is_left(model)
