"""`scail undo`, `relabel`, `rename` and `forget`: put the classifier in a folder right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from scail.cli.learn import ModelFolder, say
from scail.cli.predict import images_in

Pictures = Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH ...")]


@dataclass(frozen=True)
class UndoCommand:
    """Take back the last change of a model: a learn, a relabel or a rename.

    The model answers as it did before. Pictures that made room in its memory do not come back; the next learn fills it
    again. Only one change is kept. A forget cannot be taken back: nothing of what is forgotten is kept.

      scail undo pets
    """

    model: ModelFolder
    """The folder of the model."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Take it back, and say what that was."""
        from scail.classifier.in_folder import undo_in

        say(f"{self.model}: {undo_in(self.model, wait=not self.no_wait, say=say)}")


@dataclass(frozen=True)
class RelabelCommand:
    """Move pictures that were learned under a wrong name to the right class. Nothing is trained.

    Give the very files that were learned, or pictures out of the model's folder exemplars. By default the model is then
    as if it had learned them so from the beginning. A network that was trained takes the new name up in its next learn.

      scail relabel pets photos/cats/IMG_7.jpg photos/cats/IMG_9.jpg --to dog
    """

    model: ModelFolder
    """The folder of the model."""
    images: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH ...")]
    """Images, and folders of images."""
    to: Annotated[str, tyro.conf.arg(metavar="CLASS")]
    """The right class. One that is not known yet is made, where nothing is trained."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Move them, and say from where to where."""
        from scail.classifier.in_folder import relabel_in

        paths = list(images_in(self.images))
        say(f"{self.model}: {relabel_in(self.model, paths, self.to, wait=not self.no_wait, say=say)}")


@dataclass(frozen=True)
class RenameCommand:
    """Give a class another name. All else stays as it is.

    scail rename pets dog 'Canis familiaris'
    """

    model: ModelFolder
    """The folder of the model."""
    old: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OLD")]
    """What it is called."""
    new: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NEW")]
    """What it is to be called: a name that no class has."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Rename it."""
        from scail.classifier.in_folder import rename_in

        say(f"{self.model}: {rename_in(self.model, self.old, self.new, wait=not self.no_wait, say=say)}")


@dataclass(frozen=True)
class ForgetCommand:
    """Take a class out of a model: its pictures, its weights, its statistics, and unfinished work.

    Of a frozen pretrained network nothing is left of it: the model is as if it had never seen the class. A network that
    was trained carries traces of it in its weights. With --images, single pictures of the class go and the rest stays.

      scail forget pets rabbit
      scail forget pets rabbit --images photos/rabbit/IMG_7.jpg
      scail forget pets --missing
    """

    model: ModelFolder
    """The folder of the model."""
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")] = None
    """The class to forget, or to take pictures out of."""
    images: Pictures = ()
    """Only these pictures of the class: the files that were learned, or pictures out of the model's folder exemplars.
    One that was deleted there by hand is named by its path, as exemplars/CLASS/HASH.png."""
    missing: bool = False
    """Instead of CLASS: all pictures of all classes that somebody has deleted from the model's folder."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Forget, and say what cannot be forgotten."""
        from scail.classifier.in_folder import forget_in, forget_missing_in

        if self.missing:
            if self.name is not None or self.images:
                raise ValueError("--missing stands alone: it takes out what is missing of every class")
            say(f"{self.model}: {forget_missing_in(self.model, wait=not self.no_wait, say=say)}")
            return
        if self.name is None:
            raise ValueError("name the class to forget: scail forget MODEL CLASS; `scail info MODEL` lists them")
        paths = list(images_in(self.images)) if self.images else None
        said = forget_in(self.model, self.name, paths, wait=not self.no_wait, say=say)
        if self.images:
            say(f"{self.model}: {said}")
        else:
            say(f"{self.model}: {self.name!r} is forgotten: its pictures, weights and statistics are gone. {said}")
