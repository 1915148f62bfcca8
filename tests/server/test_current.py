"""The model that answers now: replaced when its folder changes, and only then."""

from __future__ import annotations

import os

from scail import IncrementalClassifier
from scail.server.current import Current, read_served
from tests.classifier.little import little_images
from tests.server.load import resident


def test_a_changed_folder_is_read_once_and_a_damaged_one_leaves_the_old_model(model):
    current = Current(model)
    assert current.stale() and current.model is None
    current.refresh()
    first = current.model
    assert first is not None and not current.stale()
    current.refresh()
    assert current.model is first
    manifest = model / "manifest.json"
    before = manifest.read_bytes()
    manifest.write_bytes(before[:-100])
    assert current.stale()
    current.refresh()
    assert current.model is first and current.trouble and str(manifest) in current.trouble
    manifest.write_bytes(before)
    current.refresh()
    assert current.trouble is None and current.model is not first and current.model.stamp == first.stamp


def test_models_that_were_replaced_leave_no_memory_behind(model):
    current, found = Current(model), []
    for n in range(9):
        os.utime(model / "manifest.json", ns=(n * 10**9, n * 10**9))
        current.refresh()
        found.append(resident(os.getpid()))
    assert current.trouble is None
    assert found[-1] - found[2] < 40 * 2**20


def test_labels_that_are_whole_numbers_are_served_by_their_names(tmp_path):
    clf = IncrementalClassifier(memory=6, method="slda", backbone="resnet8-half", image_size=8, verbose=False)
    images, names = little_images("cat", "dog")
    clf.learn(images, [{"cat": 3, "dog": 12}[name] for name in names]).save(tmp_path / "m")
    served = read_served(tmp_path / "m")
    assert served.names == ("3", "12") and served.answerer.classes == (3, 12)
