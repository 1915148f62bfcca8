"""The app: its parts put together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scail.server.class_routes import class_routes
from scail.server.guard import Guard
from scail.server.inbox_routes import inbox_routes
from scail.server.job_routes import job_routes
from scail.server.metrics import Metrics
from scail.server.page_routes import page_routes
from scail.server.predict_routes import predict_routes
from scail.server.refusals import answer_errors
from scail.server.service import Service
from scail.server.settings import ServerSettings
from scail.server.shapes import ErrorAnswer

_ABOUT = (
    "A classifier that keeps learning: ask it, teach it, put it right. Pictures are never kept but where it is said."
)
_ANYWHERE = {
    400: "The request cannot be read.", 401: "The token is missing or wrong.", 403: "From another site's page.",
    408: "Sent too slowly.", 413: "Too large.",
}  # fmt: skip


def make_app(settings: ServerSettings) -> FastAPI:
    """An app around the model's folder."""
    service = Service(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        await service.open()
        yield
        await service.close()

    everywhere: dict[int | str, dict[str, object]] = {
        status: {"model": ErrorAnswer, "description": text} for status, text in _ANYWHERE.items()
    }
    app = FastAPI(
        title="scail", version=version("scail"), description=_ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None,
        responses=everywhere,
    )  # fmt: skip
    answer_errors(app)
    for routes in (predict_routes, job_routes, class_routes, inbox_routes, page_routes):
        app.include_router(routes(service))
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Counted, metrics=service.metrics)
    app.state.service = service
    return app


class Counted:
    """Counts every request and its time, under the route's name and never under what a client wrote."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 499  # what a client that has gone away was told

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
            self._metrics.request(method, route, status, time.perf_counter() - begun)
