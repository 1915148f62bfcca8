"""`scail serve`: a page and an API around the classifier in a folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class ServeCommand:
    """Open a page to teach a model and to try it, and an API to put it to work.

    The address is printed when it is ready. Where there is no model yet, the page makes one. `scail learn` and other
    commands work beside it: the server picks their changes up.

    Only this machine can reach it, unless another address is given; that needs a token.

      scail serve pets
      scail serve pets --inbox 500
      scail serve pets --host 0.0.0.0 --port 80 --token "$(openssl rand -hex 24)"
      scail serve --demo
    """

    model: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[MODEL]")] = None
    """The folder of the model."""
    host: str = "127.0.0.1"
    """The address to listen at; 0.0.0.0 is every one of this machine."""
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8000
    """The port; 0 is any that is free."""
    token: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """Who sends it may use the server. The environment variable SCAIL_TOKEN keeps it out of the list of processes."""
    inbox: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Keep up to N pictures that came in through the API and were unknown or doubtful, to be named on the page. They
    are kept beside the model, in MODEL.serve. 0: none."""
    inbox_days: Annotated[float, tyro.conf.arg(metavar="DAYS")] = 30.0
    """How long a picture stays in the inbox at most."""
    demo: bool = False
    """Serve a model that knows a few drawn characters, with pictures to try. It lives in a folder that is removed."""

    def __call__(self) -> None:
        """Serve until Ctrl-C."""
        try:
            import python_multipart  # noqa: F401  (FastAPI asks for it late)

            from scail.server.serving import serve
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in (
                "fastapi",
                "uvicorn",
                "starlette",
                "pydantic",
                "python_multipart",
            ):
                raise
            raise ValueError("scail serve needs the extra `serve`: pip install 'scail[serve]'") from error
        from scail.cli.predict import tidied
        from scail.server.settings import ServerSettings

        if (self.model is None) == (not self.demo):
            raise ValueError("give the folder of a model, as in `scail serve pets`; or --demo, which brings its own")
        token = self.token or os.environ.get("SCAIL_TOKEN") or None
        if self.demo:
            from scail.server.demo import demo

            print("teaching a model eight letters: a few seconds", file=sys.stderr, flush=True)
            with demo() as made:
                settings = ServerSettings(
                    made.model, self.host, self.port, token, self.inbox or 200, samples=made.samples
                )
                serve(settings, _ready)
            return
        assert self.model is not None
        tidied(self.model)
        serve(ServerSettings(self.model, self.host, self.port, token, self.inbox, self.inbox_days), _ready)


def _ready(address: str) -> None:
    print(address, flush=True)
