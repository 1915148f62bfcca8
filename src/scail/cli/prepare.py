"""`scail prepare`: a packed copy of a data set, or faces cropped from photographs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scail.cli.shown import shown

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True)
class PrepareCommand:
    """Make a packed copy of a data set that trains faster, or crop the faces of VGGFace2.

    Packing scales every image down once and puts all of them into a few large files. `scail run --dataset` takes the
    folder. Put it into SCAIL_DATA under the data set's name, and the name means the packed copy.

    Cropping finds faces with MTCNN (pip install 'scail[faces]') and writes those of SRC to DST, in the same folders.

    Both go on where they were interrupted.

      scail prepare ilsvrc --size 256
      scail prepare vggface2 photographs faces
    """

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """Which data set: a name, hf:owner/name, or a path, as for `scail run`."""
    source: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="SRC")] = None
    """vggface2: the folder of photographs."""
    target: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DST")] = None
    """vggface2: the folder of cropped faces."""
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Shorter side of the packed images, or side of a cropped face, in pixels. Default: 256."""
    quality: Annotated[int, tyro.conf.arg(metavar="N")] = 92
    """JPEG quality of the packed images, 1 to 95."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the packed copy goes. Default: NAME-SIZE in SCAIL_DATA."""
    split: Literal["icarl", "official"] = "icarl"
    """ILSVRC: which images to test on, as in `scail run`. A packed copy keeps it."""
    classes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only the first N classes."""
    images_per_class: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take only N training images of each class."""
    held_out: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.2
    """Share of each class to test on, if the data set has no test images of its own. A packed copy keeps it."""
    split_seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Draws the images to test on."""
    broken: Literal["error", "skip"] = "error"
    """What to do with an image that cannot be read. Faces: it is always counted.
    error: stop and name it. skip: leave it out and count it."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many images to work on at a time. Default: as many as there are cores."""
    margin: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """Faces: how much is kept around the face, as a share of its side. Default: 0.3."""
    no_face: Literal["centre", "skip"] = "centre"
    """Faces: what a photograph without a face gives, its middle square (centre) or nothing (skip).
    Both are listed in faces.csv."""
    several: Literal["largest", "central"] = "largest"
    """Faces: which one of several is taken."""

    def __call__(self) -> None:
        """Crop faces, or pack."""
        if self.source is None:
            _pack(self)
        elif self.dataset != "vggface2":
            raise ValueError(
                f"SRC {self.source}: only vggface2 has faces to crop; to pack: scail prepare DATASET --size N"
            )
        elif self.target is None:
            raise ValueError("scail prepare vggface2 SRC DST: give the folder for the cropped faces too")
        else:
            _crop(self, self.source, self.target)


def _cores(asked: int | None) -> int:
    from scail.runtime.cores import available_cores

    return available_cores() if asked is None else asked


def _progress() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )


def _pack(command: PrepareCommand) -> None:
    from scail.datasets import DataSettings, load_dataset
    from scail.datasets.images.on_disk import ImageTable
    from scail.datasets.images.packed import pack
    from scail.datasets.places import data_dir

    size = 256 if command.size is None else command.size
    if not (8 <= size <= 4096 and 1 <= command.quality <= 95):
        raise ValueError(f"size {size} and quality {command.quality}: expected 8 to 4096 pixels and 1 to 95")
    settings = DataSettings(
        classes=command.classes, images_per_class=command.images_per_class, split=command.split,
        held_out=command.held_out, split_seed=command.split_seed, on_disk=True, broken=command.broken,
        workers=_cores(command.workers),
    )  # fmt: skip
    dataset = load_dataset(command.dataset, settings)
    if not isinstance(dataset.train.images, ImageTable):
        raise ValueError(f"{command.dataset}: is embedded in scail; there is nothing to pack")
    out = command.out or data_dir() / f"{dataset.name.replace('/', '-')}-{size}"
    with _progress() as bar:
        task = bar.add_task(shown(f"{dataset.name} to {out}"), total=len(dataset.train) + len(dataset.test))
        pack(dataset, out, size, command.quality, lambda count: bar.advance(task, count))
    for note in dataset.notes:
        print(f"note: {shown(note)}")
    taken = sum(file.stat().st_size for file in out.iterdir())
    count = len(dataset.train) + len(dataset.test)
    print(f"{count} images of {len(dataset.class_names)} classes in {taken / 1e6:.0f} MB: scail run --dataset {out}")


def _crop(command: PrepareCommand, source: Path, target: Path) -> None:
    from scail.datasets.faces.crop import LOG, FaceSettings, crop_faces

    settings = FaceSettings(no_face=command.no_face, several=command.several)
    if command.margin is not None:
        settings = replace(settings, margin=command.margin)
    if command.size is not None:
        settings = replace(settings, size=command.size)
    with _progress() as bar:
        task = bar.add_task(shown(f"faces to {target}"), total=None)
        report = crop_faces(
            source, target, settings, _cores(command.workers),
            lambda done, of: bar.update(task, completed=done, total=of),
        )  # fmt: skip
    print(
        f"{report.found} faces ({report.several} chosen from several), {report.none} photographs without one, "
        f"{report.broken} broken, {report.there} done before; details in {target / LOG}"
    )
