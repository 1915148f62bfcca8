"""`scail learn`: teach the classifier in a folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from scail.cli.shown import shown
from scail.config import DataSettings

if TYPE_CHECKING:
    from scail.classifier.incremental_classifier import IncrementalClassifier
    from scail.training import Progress

ModelFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]


@dataclass(frozen=True)
class LearnCommand:
    """Learn classes into a model: a new one, or one that has learned before.

    By default nothing is trained: a network that has seen the world looks at every image once. Nothing is forgotten.
    Twenty images of a class are plenty. More images of a known class count, too.

    The model is a folder. It keeps at most B images of what it has learned. It answers as before until the new state
    takes its place in one step. Interrupted or killed, nothing is lost: the same command goes on.

    Options marked * are fixed by the first learn.

      scail learn pets photos/monday
      scail learn pets photos/tuesday
      scail predict pets some.jpg
    """

    model: ModelFolder
    """The folder of the model."""
    data: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = None
    """What to learn: a folder with a sub-folder of images per class, a list file, hf:owner/name, or a name of
    `scail datasets`."""
    classes: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Only these classes of the data, separated by commas."""
    memory: Annotated[int | None, tyro.conf.arg(metavar="B")] = None
    """B, how many images the model may keep, over all classes. Default: 2000. It can change later, without DATA too.
    A smaller one keeps the best images of each class. A larger one fills with what is learned from then on."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """How it learns and classifies: a name of `scail methods`.
    A model that has learned can change to methods that are trained in the same way (their column trainer).
    Default: slda on a pretrained network, which trains nothing. Where a network is trained: icarl_duet, or without a
    memory lwf."""
    validation: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """* Share of each class, and of B, that is held out to measure with, as 0.1. Default: none."""
    epochs: Annotated[str | None, tyro.conf.arg(metavar="E|E0,E")] = None
    """For methods that train: how many epochs each state has at most, as 10. A training ends sooner when its loss no
    longer falls. Without a --method this asks for a network that is trained.
    30,10 is 30 in the first state, 10 in later ones. Methods that distil, as icarl_duet, have 10 in all.
    Default: as in the learn before; at first, by the number of images."""
    backbone: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """* The network. Default: efficientnet-lite0 with pretrained weights, which is not trained.
    A frozen model can change to another pretrained one later. It looks at its exemplars again; the rest is lost.
    Names: as for --network of `scail run`, or auto."""
    backbone_weights: Annotated[str | None, tyro.conf.arg(metavar="FILE|pretrained")] = None
    """* Weights to begin with: `pretrained` (those of efficientnet-lite or timm), or a safetensors file.
    A file may name the weights of resnet18 as torchvision does."""
    recipe: Literal["auto", "quick", "paper", "pretrained"] | None = None
    """* How long and how fast to train. Default: auto, by the number of images.
    quick, paper and pretrained: as in `scail run`."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """* Side of the images in pixels. Default for image files: 224 with pretrained weights, else 64."""
    keep: Literal["features", "moments"] | None = None
    """* Frozen methods: what is kept of learned images, beside the B images. Default: features.
    features: those of each image, as numbers. They are needed to forget completely and to take images back.
    moments: sums over all images. The model stays smaller."""
    int8: bool = False
    """* Run a frozen network in whole numbers of 8 bits: on a CPU with VNNI twice as fast, about as good.
    The first images calibrate it, which takes seconds: begin with a hundred, of several classes. It pays from some 700
    images on."""
    no_mirror: bool = False
    """* Do not mirror images in training: for characters, signs and whatever else has a left and a right."""
    broken: Literal["error", "skip"] = "error"
    """What to do with an image that cannot be read. error: stop and name it.
    skip: leave it out, and say how many these are."""
    sub_folders: Literal["merge", "classes"] = "merge"
    """Images in sub-folders of a class folder, as shoes/red. merge: they are of the class shoes.
    classes: shoes/red is a class of its own."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """* Same seed, same model. Default: 1."""
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    """Where to train. auto: on a GPU if there is one."""
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] | None = None
    """* Number format of a training. Default: auto, bf16-mixed where the device is quick at it, else 32-true."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Learn, and say what came of it."""
        if self.data is None:
            self._resize()
            return
        place, epochs = self.data, _epochs(self.epochs)
        from scail.classifier.folder import look
        from scail.classifier.in_folder import learn_into
        from scail.classifier.settings import check_method
        from scail.cli.store import human_size
        from scail.runtime.allocation import keep_freed_memory

        def read(clf: IncrementalClassifier, report: Callable[[Progress], None]) -> LabelledData:
            return read_data(place, clf, self.classes, self.broken, report=report, nested=self.sub_folders == "classes")

        def prepared(clf: IncrementalClassifier) -> tuple[Any, list[str]]:
            clf.epochs, clf.accelerator = epochs, self.accelerator
            if clf.has_learned:
                _check_fixed(self, clf)
                if self.memory is not None and self.memory != clf.memory:
                    clf.resize(self.memory)
                if (other := _other_network(self, clf)) is not None:
                    clf.embed_again(other)
                if self.method is not None:
                    clf.use(self.method)
            data = first if first and not clf.has_learned else read(clf, report)
            if not clf.has_learned:
                clf.mirror = data.mirror and not self.no_mirror
            return data.images, data.names

        keep_freed_memory()
        with progress_bar() as report:
            first = None
            if not (self.model / "manifest.json").exists():  # what cannot be learned leaves no folder behind
                new = _new(self)
                check_method(new.method, new.memory)
                first = read(new, report)
            clf = learn_into(
                self.model, prepared, make=lambda: _new(self), wait=not self.no_wait, say=say, report=report
            )
        model = clf.model_
        kept = len(model.exemplars.memory) + len(model.held_out.memory)
        say(
            f"{self.model}: {len(model.classes)} classes in {len(model.states())} state(s), {kept} of at most "
            f"{model.settings.memory} images kept, {human_size(look(self.model).size)}"
        )

    def _resize(self) -> None:
        """Only another memory, for a model that is there."""
        if self.memory is None:
            raise ValueError("give DATA, what to learn: a folder with a sub-folder of images per class, for example")
        asked = [
            one.name for one in fields(self) if one.name not in _RESIZES and getattr(self, one.name) != one.default
        ]
        if asked:
            raise ValueError(
                f"--{asked[0].replace('_', '-')}: without DATA only --memory can be changed; give DATA, too"
            )
        from scail.classifier.in_folder import resize_in

        say(f"{self.model}: {resize_in(self.model, self.memory, wait=not self.no_wait, say=say)}")


_RESIZES = ("model", "data", "memory", "no_wait")


@dataclass(frozen=True)
class LabelledData:
    """Images of DATA as a classifier takes them."""

    images: Any
    names: list[str]
    mirror: bool = True
    """Whether mirrored images keep their class."""
    broken: int = 0
    """Images that could not be read, and were left out."""


def read_data(
    data: str,
    clf: IncrementalClassifier,
    classes: str | None,
    broken: Literal["error", "skip"],
    test: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    nested: bool = False,
) -> LabelledData:
    """Images of DATA as this classifier takes them. What is left out of a folder is said."""
    import torch

    from scail.classifier.inputs import as_pixels
    from scail.datasets import load_part
    from scail.datasets.images.decode import BrokenImage
    from scail.training import Progress

    shape = clf.model_.settings.shape if clf.has_learned else None
    split, names, mirror = load_part(data, DataSettings(), test, nested, tell)
    if classes is not None:
        numbers = torch.tensor([names.index(name) for name in _named(classes, names, data)])
        rows = torch.isin(split.labels, numbers).nonzero().flatten()
        split = replace(split, images=split.images[rows], labels=split.labels[rows])
        if not len(rows):
            raise ValueError(f"--classes {classes}: {data} has no {'test' if test else 'training'} images of them")
    if len(split.labels) and int(split.labels.min()) < 0:
        raise ValueError(f"{data}: has images without labels, which cannot be learned")
    images, skipped = split.images, 0
    if broken == "skip" and not isinstance(images, torch.Tensor):
        if found := images.find_broken():  # type: ignore[attr-defined]
            tell(f"{len(found)} of {len(images)} images cannot be read and are left out, the first: "
                 f"{next(iter(found.values())).partition(' (')[0]}")  # fmt: skip
        rows = torch.tensor([row for row in range(len(images)) if row not in found], dtype=torch.int64)
        images, split, skipped = images[rows], replace(split, labels=split.labels[rows]), len(found)
        if not len(images):
            raise ValueError(f"{data}: none of its images can be read")
    if not isinstance(images, torch.Tensor):  # as Python's learn and predict read them: the very same pixels
        files = [images.file(i) for i in range(len(images))]  # type: ignore[attr-defined]
        done = partial(Progress, images=1, unit="picture")
        try:
            images = as_pixels(files, shape, clf.first_size, lambda i, of: report(done(i, of)))
        except BrokenImage as error:
            remedy = "repair or remove it" if test else "repair or remove it, or use --broken skip"
            raise BrokenImage(f"{error}; {remedy}") from error
    return LabelledData(images, [names[c] for c in split.labels.tolist()], mirror, skipped)


def tell(text: str) -> None:
    """What a user must know of the data: on standard error, so that output stays what it is."""
    print(shown(text), file=sys.stderr, flush=True)


def _named(text: str, names: Sequence[str], data: str) -> list[str]:
    """The classes that are named, separated by commas; names may have commas themselves."""
    parts, found = text.split(","), list[str]()
    while parts:
        joined = [",".join(parts[:n]).strip() for n in range(len(parts), 0, -1)]
        name = next((name for name in joined if name in names), None)
        if name is None:
            raise ValueError(f"--classes: {data} has no class {joined[-1]!r}; it has {', '.join(names[:10])}")
        found.append(name)
        parts = parts[len(name.split(",")) :]
    return found


def _new(command: LearnCommand) -> IncrementalClassifier:
    from scail.classifier.incremental_classifier import IncrementalClassifier

    given = {name: getattr(command, name) for name in _FIXED if getattr(command, name) is not None}
    return IncrementalClassifier(**{"method": command.method or "auto", **given})


_FIXED = (
    "memory", "validation", "backbone", "backbone_weights", "recipe", "image_size", "keep", "int8", "seed", "precision",
)  # fmt: skip


def _check_fixed(command: LearnCommand, clf: IncrementalClassifier) -> None:
    """Options that were fixed by the first learn may be given again, but not with other values."""
    settings = clf.model_.settings
    now: dict[str, Any] = {
        "validation": settings.validation,
        "image_size": settings.shape.height, "seed": settings.experiment.seed, "keep": settings.keep,
        "precision": settings.experiment.machine.precision,
    }  # fmt: skip
    if not settings.pretrained:
        now["backbone"] = settings.experiment.recipe.network
    for name in ("backbone_weights", "recipe"):
        if getattr(command, name) not in (None, "auto"):
            raise ValueError(f"--{name.replace('_', '-')}: the model has learned already; only a first learn takes it")
    if command.int8 and not settings.int8:
        raise ValueError("--int8: the model was made in 32 bits, and its features stay so; begin a new model")
    if command.no_mirror and settings.mirror:
        raise ValueError("--no-mirror: the model was made without it, and this cannot be changed; begin a new model")
    for name, value in now.items():
        given = getattr(command, name)
        if given is not None and given != value and given != "auto":
            raise ValueError(
                f"--{name.replace('_', '-')} {given}: the model was made with {value}, and this cannot be changed; "
                "leave the option out, or begin a new model"
            )


def _other_network(command: LearnCommand, clf: IncrementalClassifier) -> str | None:
    """The network that is asked for in place of the one that a frozen model has."""
    now, asked = clf.model_.settings.experiment.recipe.network, command.backbone
    return None if asked in (None, "auto", "pretrained", now, now.partition("@")[0]) else asked


def _epochs(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise ValueError(f"--epochs {text}: expected E, or E0,E, numbers from 1 on")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar in a terminal, nothing elsewhere: what to tell it of a training."""
    if not sys.stdout.isatty():
        yield lambda progress: None
        return
    from rich.progress import Progress as Bars

    with Bars(transient=True) as bars:
        task = bars.add_task("learning")
        yield lambda progress: bars.update(
            task,
            total=progress.epochs,
            completed=progress.epoch,
            description=f"{progress.unit} {progress.epoch}/{progress.epochs}",
        )


def say(text: str) -> None:
    """A line for the user, at once."""
    print(shown(text), flush=True)
