"""A model to look at: it knows a few drawn characters; others wait in its inbox, and there are pictures to try."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scail.server.desk import desk_of

_KNOWN, _STRANGE = 8, 3
_TAUGHT, _WAITING, _TRIED = 16, 8, 2  # pictures of each
_SIZE = 96  # pixels


@dataclass(frozen=True)
class Demo:
    """Where its parts are."""

    model: Path
    samples: Path


@contextlib.contextmanager
def demo() -> Iterator[Demo]:
    """Made anew each time, in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="scail-demo-") as place:
        made = Demo(Path(place) / "characters", Path(place) / "samples")
        _teach(made)
        _fill_inbox(made)
        yield made


def _teach(made: Demo) -> None:
    from PIL import Image

    from scail.classifier.incremental_classifier import IncrementalClassifier
    from scail.datasets.sources.glyphs import CHARACTERS, load_glyphs

    glyphs = load_glyphs(_KNOWN + _STRANGE, _TAUGHT, _TRIED, _SIZE)
    images, labels = glyphs.train.images, glyphs.train.labels
    known = labels < _KNOWN
    clf = IncrementalClassifier(
        memory=_KNOWN * _TAUGHT, backbone="pretrained", image_size=128, mirror=False, verbose=False
    )
    clf.learn(images[known], [CHARACTERS[c] for c in labels[known].tolist()]).save(made.model)
    made.samples.mkdir()
    inbox = made.samples.with_name("strangers")
    inbox.mkdir()
    for n, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):  # type: ignore[arg-type]
        if label >= _KNOWN and n % _TAUGHT < _WAITING:
            Image.fromarray(image[0].numpy()).save(inbox / f"{n}.png")
    for n, (image, _) in enumerate(zip(glyphs.test.images, glyphs.test.labels, strict=True)):  # type: ignore[arg-type]
        Image.fromarray(image[0].numpy()).save(made.samples / f"sample-{n:02}.png")


def _fill_inbox(made: Demo) -> None:
    from scail.classifier.answering import read_picture
    from scail.server.current import read_served
    from scail.server.desk import Desk
    from scail.server.inbox import Inbox
    from scail.server.pictures import content_id

    desk, model = Desk(desk_of(made.model)), read_served(made.model)
    desk.make()
    inbox = Inbox(desk.inbox, 200, 30.0)
    for path in sorted(made.samples.with_name("strangers").iterdir()):
        picture, data = read_picture(path), path.read_bytes()
        inbox.put(content_id(data), picture, model.answerer.answer(picture), model)
    inbox.close()
