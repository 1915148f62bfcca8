"""`scail push` and `pull`: models travel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from scail.cli.learn import ModelFolder, say

Place = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLACE")]


@dataclass(frozen=True)
class PushCommand:
    """Put a model where others can get it: on the Hugging Face hub, or behind a URL.

    The whole folder goes, with the pictures that the model keeps, and with a README.md that says what it is. One that
    you wrote yourself goes in its place. Nobody sees half of a model, and learning goes on meanwhile.

    The hub needs the extra `hub`, and a login: hf auth login.

      scail push pets hf:me/pets --private
      scail push pets s3://models/pets
      scail push pets file:///mnt/models/pets
    """

    model: ModelFolder
    """The folder of the model."""
    place: Place
    """hf:owner/name, or a URL that fsspec knows."""
    revision: Annotated[str | None, tyro.conf.arg(metavar="BRANCH")] = None
    """The hub: another branch than main. It is made where there is none."""
    private: bool = False
    """The hub: only you see it. A place that is public already is an error."""
    replace: bool = False
    """Also replace another model, or one that somebody else has changed."""

    def __call__(self) -> None:
        """Push, and say what went where."""
        from scail.classifier.sharing import push

        say(push(self.model, self.place, revision=self.revision, private=self.private, replace=self.replace))


@dataclass(frozen=True)
class PullCommand:
    """Get a model from the Hugging Face hub, or from behind a URL.

    Every file is checked before anything is put in place. The folder must be new, or hold what was pulled from there or
    pushed there before. A model that has changed here since then stays as it is, and that is an error.

      scail pull hf:me/pets
      scail pull s3://models/pets pets
    """

    place: Place
    """hf:owner/name, or a URL that fsspec knows."""
    model: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[MODEL]")] = None
    """The folder of the model. Default: the last part of PLACE, here."""
    revision: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The hub: another branch than main, a tag or a commit."""
    no_wait: bool = False
    """If another process is learning into this model: stop with an error instead of waiting for it."""

    def __call__(self) -> None:
        """Pull, and say what came."""
        from scail.classifier.sharing import pull

        say(pull(self.place, self.model, revision=self.revision, wait=not self.no_wait, say=say))
