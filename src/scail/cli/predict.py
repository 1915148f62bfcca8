"""`scail predict` and `export`: use the classifier in a folder."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from scail.cli.learn import ModelFolder, tell
from scail.cli.shown import shown, shown_json

if TYPE_CHECKING:
    from scail.classifier.answering import Answer, Answerer
    from scail.classifier.incremental_classifier import IncrementalClassifier

_THREADS = 2  # that decode pictures ahead


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
    """Classify with another method of `scail methods`: one that is trained in the same way (its column trainer).
    Nothing is trained for it. Default: the model's."""
    json: bool = False
    """One JSON object per line: the path, the classes with their probabilities, and whether it is unknown."""
    csv: bool = False
    """CSV with a header: path, rank, class, probability."""
    unknown: bool = False
    """Say `unknown` of a picture that is like nothing the model has learned."""

    def __call__(self) -> None:
        """Classify, line by line."""
        if self.json and self.csv:
            raise ValueError("--json and --csv: give one of them")
        if self.top < 1:
            raise ValueError(f"--top {self.top}: expected 1 or more")
        paths = list(images_in(self.paths))
        answerer = answerer_of(self.model, self.method)
        if self.unknown and answerer.strange is None:
            raise ValueError(
                f"--unknown: {self.model} cannot tell the unknown from the known: it has learned one image of each "
                "class only"
            )
        table = csv.writer(sys.stdout, lineterminator="\n")
        if self.csv:
            table.writerow(("path", "rank", "class", "probability"))
        broken = list[str]()
        for path, answer in answers_to(paths, answerer, broken):
            best = [(answerer.classes[c], float(answer.odds[c])) for c in answer.top(self.top)]
            hidden = self.unknown and answer.unknown
            if self.json:
                found = [{"class": name, "probability": chance} for name, chance in best]
                print(shown_json({"path": path, "top": found, "unknown": answer.unknown}))
            elif self.csv:
                rows = [("unknown", "")] if hidden else [(name, f"{p:.6f}") for name, p in best]
                table.writerows((path, rank, *row) for rank, row in enumerate(rows, 1))
            else:
                said = ["unknown"] if hidden else [f"{shown(name)} {100 * p:.1f} %" for name, p in best]
                print(f"{shown(path)}\t" + "\t".join(said))
            sys.stdout.flush()
        if broken:
            others = "; the others are classified" if len(broken) < len(paths) else ""
            raise ValueError(f"{len(broken)} of {len(paths)} images could not be read{others}")


@dataclass(frozen=True)
class ExportCommand:
    """Write a model as one file that other programs can run.

    The file is ONNX, the very one that `scail predict` runs. A picture of any size goes in (`picture`: uint8, height x
    width x 3, red, green, blue). Out come `odds` and `scores`, a number per class, and `strangeness`. The names of the
    classes are in its metadata. A picture with a `strangeness` above 1 is unknown.

      scail export pets --onnx pets.onnx
    """

    model: ModelFolder
    """The folder of the model."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The file to write."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Classify with another method of `scail methods`: one that is trained in the same way (its column trainer).
    Nothing is trained for it. Default: the model's."""

    def __call__(self) -> None:
        """Write the file."""
        from scail.classifier.answering import Answerer
        from scail.storage.atomic import LEFT, sweep, write_bytes
        from scail.storage.flushing import make_folder

        graph = _graph(self.model, self.method)
        told = Answerer(graph, str(self.model))
        make_folder(self.onnx.parent)
        sweep(self.onnx.parent, after=LEFT)
        write_bytes(self.onnx, graph)
        print(f"{self.onnx}: {len(told.classes)} classes, method {told.method}; input: a picture, uint8, any size")


def images_in(paths: tuple[str, ...]) -> Iterator[str]:
    """Files as they are, the images below folders; paths on standard input where none are given."""
    from scail.datasets.omitted import unread_in
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
            if left := unread_in(Path(path)):
                print(shown(f"{path}: {left}"), file=sys.stderr)
            if not inside:
                raise ValueError(f"{path}: no images in this folder")
            yield from inside
        else:
            yield path


def answers_to(paths: list[str], answerer: Answerer, broken: list[str]) -> Iterator[tuple[str, Answer]]:
    """Every path with its answer. What cannot be read is named on standard error, and added to `broken`."""
    for path, picture in _pictures(paths):
        if isinstance(picture, ValueError):
            broken.append(path)
            print(f"scail: {shown(picture)}", file=sys.stderr)
        else:
            yield path, answerer.answer(picture)


def _pictures(paths: list[str]) -> Iterator[tuple[str, Any]]:
    """Every path with its pixels, or with the error; some are decoded ahead."""
    from scail.classifier.answering import read_picture
    from scail.datasets.images.decode import BrokenImage

    def read(path: str) -> Any:
        try:
            return read_picture(path)
        except BrokenImage as error:
            return error

    if len(paths) == 1:
        yield paths[0], read(paths[0])
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:
        ahead = deque[tuple[str, Future[Any]]]()
        for path in paths:
            ahead.append((path, pool.submit(read, path)))
            if len(ahead) > 2 * _THREADS:  # so many pictures are in memory, whatever their number
                first, found = ahead.popleft()
                yield first, found.result()
        for path, found in ahead:
            yield path, found.result()


def answerer_of(folder: Path, method: str | None) -> Answerer:
    """What answers; with the method that the model has, no torch is imported."""
    from scail.classifier.answering import Answerer

    return Answerer(_graph(folder, method), str(folder))


def _graph(folder: Path, method: str | None) -> bytes:
    """The file that answers; for another method, and for a model of version 0.1, it is made now."""
    from scail.classifier.answering import NoAnswerFile, answer_file

    tidied(folder)
    if method is None:
        with contextlib.suppress(NoAnswerFile):
            return answer_file(folder)[1]
    from scail.classifier.answer_graph import answer_graph

    return answer_graph(load_for_use(folder, method).model_)


def tidied(folder: Path) -> None:
    """What a change that was killed left there is taken away, or told."""
    from scail.classifier.folder.sweeping import tidy

    if (text := tidy(folder)) is not None:
        tell(text)


def load_for_use(folder: Path, method: str | None) -> IncrementalClassifier:
    """The classifier of this folder, quickly: it can classify but not learn."""
    from scail.classifier.incremental_classifier import IncrementalClassifier

    clf = IncrementalClassifier.load(folder, verbose=False, pictures=False)
    return clf if method is None else clf.use(method)
