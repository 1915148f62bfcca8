"""The folder of a classifier: read, written in one step, never pickled.

    MODEL/manifest.json               format, settings, classes by state, history, checksums: the only file replaced
    MODEL/network-HASH.safetensors    the network
    MODEL/evidence-HASH.safetensors   what the heads may see
    MODEL/exemplars/CLASS/HASH.png    exemplars, for people to look at
    MODEL/held-out/CLASS/HASH.png     images to measure with, if some are held out
    MODEL/unfinished/                 a training that was interrupted
    MODEL/learn.lock                  held by whoever changes the folder

Every file but the manifest is named by its content and is never written again. A change writes new files, flushes them,
replaces the manifest, and then removes what it no longer names.
"""

from scail.classifier.folder.files import DamagedModel, FolderError, locked, unfinished
from scail.classifier.folder.read import Look, look, read_model
from scail.classifier.folder.write import sweep, write_model

__all__ = [
    "DamagedModel", "FolderError", "Look", "locked", "look", "read_model", "sweep", "unfinished", "write_model",
]  # fmt: skip
