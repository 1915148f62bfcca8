"""The web server that runs the app, and says where it is."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from scail.server.app import make_app
from scail.server.settings import ServerSettings

_KEEP_ALIVE = 30  # seconds that an idle connection stays open
_ENDING = 5  # seconds that requests have to end when the server is told to


class Announcing(uvicorn.Server):
    """A web server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()


def serve(settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve until told to end. `ready` is told the address."""
    check_model(settings.model)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # what is to be removed at the end is
    listening = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        make_app(settings), log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=settings.limits.clients, timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_ENDING, lifespan="on", h11_max_incomplete_event_size=64 * 1024,
    )  # fmt: skip
    Announcing(config, lambda: ready(address_of(listening))).run(sockets=[listening])


def check_model(model: Path) -> None:
    """An error for what is no model and cannot become one."""
    from scail.classifier.folder.record import MANIFEST, read_record

    if (model / MANIFEST).exists():
        read_record(model)
    elif model.is_file() or (model.is_dir() and any(one.name[0] != "." and one.name != "unfinished" and
                             one.name != "learn.lock" for one in model.iterdir())):  # fmt: skip
        raise ValueError(f"{model}: is not a scail model; give the folder of one, or a new folder")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: asyncio sends small answers at once only then (TCP_NODELAY), not 40 ms later.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"--host {host} --port {port}: {reason}; choose another, or --port 0 for any free one"
        ) from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
