"""`scail unknown`: sort what a model does not know into groups that look alike."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from scail.cli.learn import ModelFolder
from scail.cli.predict import answerer_of, answers_to, images_in
from scail.cli.shown import shown, shown_json

_NAMED = 3  # pictures of a group that are named on a line


@dataclass(frozen=True)
class UnknownCommand:
    """Sort pictures that a model does not know into groups that look alike, the largest first.

    Give the groups names, and they are ready to be learned. The pictures stay where they are; --out copies them.

      scail unknown pets inbox/
      scail unknown pets inbox/ --out new/
      mv new/group-1 new/rabbit
      scail learn pets new/ --classes rabbit
    """

    model: ModelFolder
    """The folder of the model."""
    paths: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH ...]")] = ()
    """Images, and folders of images. Without any, or with -, paths are read from standard input, one per line."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Copy the pictures of each group into a folder of its own, DIR/group-1 and so on. DIR must be new or empty."""
    json: bool = False
    """One JSON object per line: the group's number, and its paths, those in its middle first."""

    def __call__(self) -> None:
        """Look at every picture, then print the groups."""
        from scail.classifier.groups import alike

        paths = list(images_in(self.paths))
        if self.out is not None and self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise ValueError(f"--out {self.out}: is there already and not empty; give a new folder")
        answerer = answerer_of(self.model, None)
        if answerer.strange is None:
            raise ValueError(
                f"{self.model} cannot tell the unknown from the known: it has learned one image of each class only"
            )
        unknown, features, broken = list[str](), [], list[str]()
        for path, answer in answers_to(paths, answerer, broken):
            if answer.unknown:
                unknown.append(path)
                features.append(answer.features)
        groups = [[unknown[row] for row in rows] for rows in alike(features, answerer.apart)]
        for number, group in enumerate(groups, 1):
            if self.json:
                print(shown_json({"group": number, "paths": group}))
            else:
                more = f", and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
                print(f"group {number}: {len(group)} pictures: {', '.join(map(shown, group[:_NAMED]))}{more}")
            if self.out is not None:
                _copy(group, self.out / f"group-{number}")
        if not self.json:
            known = len(paths) - len(broken) - len(unknown)
            where = f", copied to {self.out}" if self.out and groups else ""
            of = f"{len(unknown)} of {len(paths)} pictures are unknown"
            print(f"{of}, in {len(groups)} group(s){where}; {known} are known")
        if broken:
            others = "; the others are sorted" if len(broken) < len(paths) else ""
            raise ValueError(f"{len(broken)} of {len(paths)} images could not be read{others}")


def _copy(paths: list[str], folder: Path) -> None:
    """Copies under their own names; of two with one name, the second has a number."""
    folder.mkdir(parents=True)
    for path in map(Path, paths):
        to, count = folder / path.name, 1
        while to.exists():
            count += 1
            to = folder / f"{path.stem}-{count}{path.suffix}"
        shutil.copyfile(path, to)
