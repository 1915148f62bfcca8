"""The model card in a model's folder, README.md, as the Hugging Face hub shows it. No torch is imported.

It is made from the manifest, with every change. It carries a checksum of itself: one that somebody has edited, or has
written himself, is his, and stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scail.classifier.folder.record import FolderError, read_inside
from scail.storage.reading import size_text

if TYPE_CHECKING:
    from scail.classifier.folder.manifest import Manifest

CARD = "README.md"
_MOST_BYTES, _MOST_NAMES = 2**20, 1000
_MARK = re.compile(r"^scail_card: ([0-9a-f]{64})\n", re.M)
_MODEL = re.compile(r"^scail_model: ([0-9a-f]{64})$", re.M)
_APACHE = ("apache-2.0", "Apache License 2.0")
_LICENCES = {"efficientnet-lite0": _APACHE, "efficientnet-lite1": _APACHE, "efficientnet-lite2": _APACHE}
"""Of pretrained weights, by their network."""


def described_by(card: bytes) -> str | None:
    """The stamp of the model that this card of ours describes; None: it is somebody's own, or edited."""
    text = card.decode("utf-8", "replace")
    mark, model = _MARK.search(text), _MODEL.search(text)
    ours = mark is not None and model is not None and mark[1] == _digest(_MARK.sub("", text, count=1))
    return model[1] if ours and model is not None else None


def read_card(root: Path) -> bytes | None:
    """What stands in the folder in the place of a card; None: nothing, or no plain file."""
    with contextlib.suppress(OSError, FolderError):
        return read_inside(root, CARD, _MOST_BYTES)
    return None


def may_write_card(root: Path) -> bool:
    """Whether nobody else's file is where the card belongs."""
    card = read_card(root)
    return described_by(card) is not None if card is not None else not _is_there(root / CARD)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def card_of(manifest: Manifest, stamp: str, size: int, place: str) -> bytes:
    """The card of this model, whose files have so many bytes. `place`: where others can get it."""
    head, body = "\n".join(_front(manifest, stamp)), "\n".join(_body(manifest, size, place))
    text = f"---\n{head}\n---\n\n{body}\n"
    return text.replace("---\n", f"---\nscail_card: {_digest(text)}\n", 1).encode()


def _front(manifest: Manifest, stamp: str) -> Iterator[str]:
    yield f"scail_model: {stamp}"
    yield "library_name: scail"
    yield "pipeline_tag: image-classification"
    yield f"license: {(_licence(manifest) or ('unknown',))[0]}"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("image-classification", "class-incremental-learning", "scail", "onnx"))


def _licence(manifest: Manifest) -> tuple[str, str] | None:
    recipe = manifest.settings.experiment.recipe
    return None if recipe.weights is None else _LICENCES.get(recipe.network.partition("@")[0])


def _body(manifest: Manifest, size: int, place: str) -> Iterator[str]:
    names = [one.name for one in manifest.classes]
    yield f"# An image classifier of {_count(len(names), 'class', 'classes')}"
    yield ""
    yield f"Made with scail {manifest.scail}. It can learn more classes; the old pictures are not needed for that."
    yield ""
    yield from ("```", "pip install 'scail[hub]'", f"scail pull {place} model")
    yield from ("scail predict model picture.jpg --unknown", "scail learn model photos/more", "```")
    yield ""
    if manifest.answer is not None:
        yield f"Without scail, any program with ONNX Runtime can run `{manifest.answer.name}`: a picture of any size in"
        yield "(`picture`: uint8, height x width x 3), `odds` out, a number for each class."
        yield ""
    yield from ("## Classes", "", *(f"    {name}" for name in names[:_MOST_NAMES]))
    yield from (
        ("", f"And {len(names) - _MOST_NAMES} more; `manifest.json` has all.") if len(names) > _MOST_NAMES else ()
    )
    yield from ("", "## How it tells them apart", "", *_method(manifest))
    yield from ("", "## How good it is", "", *_accuracy(manifest))
    yield from ("", "## What it costs", "", *_cost(manifest, size))
    yield from ("", "## Licence and pictures", "", *_rights(manifest))


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _method(manifest: Manifest) -> Iterator[str]:
    settings, shape = manifest.settings, manifest.settings.shape
    of = "pretrained and never trained again" if settings.pretrained else "trained with every lesson"
    bits = ", in 8 bits" if settings.int8 else ""
    yield f"- Method: `{settings.method}`"
    yield f"- Network: `{settings.experiment.recipe.network}`, {of}{bits}"
    yield f"- Images: {shape.height} x {shape.width}, {'colour' if shape.channels == 3 else 'grey'}"
    yield f"- Lessons: {manifest.calls}"


def _accuracy(manifest: Manifest) -> Iterator[str]:
    found = (
        ("learned images, each left out once", manifest.left_out, manifest.changed),
        ("images held out of the lessons", manifest.accuracy, manifest.history[-1]["when"] if manifest.history else ""),
    )
    rows = [(how, accuracy, when) for how, accuracy, when in found if accuracy and len(manifest.classes) > 1]
    if not rows:
        yield "It was not measured. `scail evaluate model photos/` measures it on pictures of yours."
        return
    yield from ("| measured on | images | top-1 | top-5 | day |", "|---|---:|---:|---:|---|")
    for how, accuracy, when in rows:
        top5 = f"{accuracy['top5']:.1f} %" if len(manifest.classes) > 5 else ""
        yield f"| {how} | {accuracy['images']:.0f} | {accuracy['top1']:.1f} % | {top5} | {when[:10]} |"
    yield ""
    yield "These pictures are of the same kind as those that it learned. Others may do worse."


def _cost(manifest: Manifest, size: int) -> Iterator[str]:
    lessons = [record for record in manifest.history if not record.get("change")]
    images, seconds = (sum(record[key] for record in lessons) for key in ("images", "seconds"))
    yield f"- On the disk: {size_text(size)}"
    if len(lessons) == manifest.calls:  # of very many only the last are written down
        yield f"- Learned: {_count(round(images), 'image', 'images')} in {seconds:.0f} seconds"


def _rights(manifest: Manifest) -> Iterator[str]:
    network = manifest.settings.experiment.recipe.network
    if (licence := _licence(manifest)) is not None:
        yield f"The weights of `{network}` are under the {licence[1]}. They were learned on ImageNet."
    elif manifest.settings.experiment.recipe.weights is not None:
        yield f"Its network, `{network}`, began with weights of others. Whoever gave them says what their licence is."
    else:
        yield "Its network was trained on these pictures alone."
    kept = sum(len(one.exemplars) + len(one.held_out) for one in manifest.classes)
    if kept:
        yield f"The folder holds {_count(kept, 'picture', 'pictures')} that it learned. Whoever gets it can see them."
