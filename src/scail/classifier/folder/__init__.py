"""The folder of a classifier: read, written in one step, never pickled.

    MODEL/manifest.json               format, settings, classes by state, history, checksums: what makes a change real
    MODEL/network-HASH.safetensors    the network
    MODEL/evidence-HASH.safetensors   what the heads may see
    MODEL/answer-HASH.onnx            what answers: picture in, odds out
    MODEL/exemplars/CLASS/HASH.png    exemplars, for people to look at
    MODEL/held-out/CLASS/HASH.png     images to measure with, if some are held out
    MODEL/unfinished/                 a training that was interrupted
    MODEL/README.md                   the model card, unless a file of somebody's own is there
    MODEL/learn.lock                  held by whoever changes the folder

Every file but the manifest and the card is named by its content and is never written again. A change writes new
files, flushes them, replaces the manifest, and then removes what it no longer names.

The names below are loaded when they are first used, so that answering needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scail.classifier.folder.checkup import Checkup, check_folder
    from scail.classifier.folder.files import locked, unfinished
    from scail.classifier.folder.read import Look, look, read_before, read_model
    from scail.classifier.folder.record import DamagedModel, FolderError
    from scail.classifier.folder.sweeping import sweep, tidy
    from scail.classifier.folder.write import write_model

__all__ = [
    "Checkup", "DamagedModel", "FolderError", "Look", "check_folder", "locked", "look", "read_before", "read_model",
    "sweep", "tidy", "unfinished", "write_model",
]  # fmt: skip

_HOMES = {
    "Checkup": "checkup", "check_folder": "checkup",
    "DamagedModel": "record", "FolderError": "record", "Look": "read", "locked": "files", "look": "read",
    "read_before": "read", "read_model": "read", "sweep": "sweeping", "tidy": "sweeping",
    "unfinished": "files", "write_model": "write",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"scail.classifier.folder.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scail.classifier.folder' has no attribute {name!r}")
