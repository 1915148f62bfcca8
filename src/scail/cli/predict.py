"""`scail predict`, `evaluate` and `export`: use the classifier in a folder."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from scail.cli.learn import ModelFolder

if TYPE_CHECKING:
    from scail.classifier.incremental_classifier import IncrementalClassifier

_BATCH = 256


@dataclass(frozen=True)
class PredictCommand:
    """Classify images: files, folders with all images in them, or a list of paths on standard input.

    Each image gives one line as soon as it is done. An image that cannot be read is named on standard error. The others
    are classified all the same, and the exit code is 2.

      scail predict pets holiday/*.jpg --top 3
      find photos -name '*.png' | scail predict pets --json
    """

    model: ModelFolder
    """The folder of the model."""
    paths: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH ...]")] = ()
    """Images, and folders of images. Without any, or with -, paths are read from standard input, one per line."""
    top: Annotated[int, tyro.conf.arg(metavar="K")] = 1
    """How many classes to name for each image, the best first."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Classify with another method that reads the same training, a name of `scail methods`. Default: the model's."""
    json: bool = False
    """One JSON object per line: the path, and the classes with their probabilities."""
    csv: bool = False
    """CSV with a header: path, rank, class, probability."""

    def __call__(self) -> None:
        """Classify, line by line."""
        if self.json and self.csv:
            raise ValueError("--json and --csv: give one of them")
        if self.top < 1:
            raise ValueError(f"--top {self.top}: expected 1 or more")
        paths = list(_images(self.paths))
        clf = _load(self.model, self.method)
        table = csv.writer(sys.stdout, lineterminator="\n")
        if self.csv:
            table.writerow(("path", "rank", "class", "probability"))
        broken = 0
        for begin in range(0, len(paths), _BATCH):
            sound, pixels = _readable(paths[begin : begin + _BATCH], clf)
            broken += len(paths[begin : begin + _BATCH]) - len(sound)
            for path, best in zip(sound, clf.top_k(pixels, self.top), strict=True):
                if self.json:
                    found = [{"class": name, "probability": chance} for name, chance in best]
                    print(json.dumps({"path": path, "top": found}, ensure_ascii=False))
                elif self.csv:
                    table.writerows((path, rank, name, f"{p:.6f}") for rank, (name, p) in enumerate(best, 1))
                else:
                    print(f"{path}\t" + "\t".join(f"{name} {100 * p:.1f} %" for name, p in best))
            sys.stdout.flush()
        if broken:
            raise ValueError(f"{broken} of {len(paths)} images could not be read; the others are classified")


@dataclass(frozen=True)
class EvaluateCommand:
    """Measure a model on labelled images that it did not learn.

    Of data with test images of their own, those are taken.

      scail evaluate pets photos/test
    """

    model: ModelFolder
    """The folder of the model."""
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Labelled images, as for `scail learn`."""
    classes: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Only these classes of the data, separated by commas."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Classify with another method that reads the same training, a name of `scail methods`. Default: the model's."""
    json: bool = False
    """Print JSON: top1, top5, images, classes, memory, exemplars."""

    def __call__(self) -> None:
        """Measure, and print."""
        from scail.classifier.model import counts_of
        from scail.cli.learn import read_data

        clf = _load(self.model, self.method)
        images, names, _ = read_data(self.data, clf, self.classes, "error", test=True)
        found: dict[str, Any] = {**clf.accuracy(images, names), **counts_of(clf.model_)}
        if self.json:
            print(json.dumps(found | {"method": clf.model_.settings.method}, indent=1))
            return
        print(
            f"{found['images']} images: top-1 {found['top1']:.1f} %, top-5 {found['top5']:.1f} % "
            f"({found['classes']} classes, {found['exemplars']} exemplars, memory of {found['memory']} images)"
        )


@dataclass(frozen=True)
class ExportCommand:
    """Write a model as one file that other programs can run.

    The file is ONNX. Images go in as uint8, scores come out. The names of the classes are in its metadata.

      scail export pets --onnx pets.onnx
    """

    model: ModelFolder
    """The folder of the model."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The file to write."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Classify with another method that reads the same training, a name of `scail methods`. Default: the model's."""

    def __call__(self) -> None:
        """Write the file."""
        from scail.classifier.export import export_onnx

        clf = _load(self.model, self.method)
        export_onnx(clf.model_, self.onnx)
        print(f"{self.onnx}: {len(clf.classes_)} classes, method {clf.model_.settings.method}; input: uint8 images")


def _images(paths: tuple[str, ...]) -> Iterator[str]:
    """Files as they are, the images below folders; paths on standard input where none are given."""
    from scail.datasets.scan import is_image

    if not paths or paths == ("-",):
        if sys.stdin.isatty():
            raise ValueError("give images or folders, or a list of paths on standard input")
        paths = tuple(line.strip() for line in sys.stdin if line.strip())
        if not paths:
            raise ValueError("standard input has no paths; expected one per line")
    for path in paths:
        if Path(path).is_dir():
            inside = sorted(str(p) for p in Path(path).rglob("*") if is_image(p.name) and p.is_file())
            if not inside:
                raise ValueError(f"{path}: no images in this folder")
            yield from inside
        else:
            yield path


def _readable(paths: list[str], clf: IncrementalClassifier) -> tuple[list[str], Any]:
    """Those of the images that can be read, and their pixels."""
    import numpy as np

    from scail.classifier.inputs import one_image
    from scail.datasets.images.decode import BrokenImage

    sound, pixels, shape = [], [], clf.model_.settings.shape
    for i, path in enumerate(paths):
        try:
            pixels.append(one_image(path, shape, i))
            sound.append(path)
        except BrokenImage as error:
            print(f"scail: {error}", file=sys.stderr)
    return sound, np.stack(pixels) if pixels else []


def _load(folder: Path, method: str | None) -> IncrementalClassifier:
    from scail.classifier.incremental_classifier import IncrementalClassifier

    clf = IncrementalClassifier.load(folder, verbose=False, pictures=False)
    return clf if method is None else clf.use(method)
