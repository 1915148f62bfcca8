"""The page, the API's description, and how the server is: what needs no model."""

from __future__ import annotations

import asyncio
import hashlib
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from scail.server.guard import COOKIE, cookie_for, same
from scail.server.refusals import Refused
from scail.server.service import Service
from scail.server.shapes import ErrorAnswer, Health, SignIn

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_SHARED = ("dom.js", "style.css")
"""What the report's page has too."""


def static_files() -> dict[str, bytes]:
    """Every file of the page by its name; nothing else is ever served from the disk."""
    own = files("scail.server") / "page"
    found = {one.name: one.read_bytes() for one in own.iterdir() if one.name.rpartition(".")[2] in _KINDS}
    return found | {name: (files("scail.report") / "page" / name).read_bytes() for name in _SHARED}


def page_routes(service: Service) -> APIRouter:
    """The routes of the page and of the server itself."""
    routes, page = APIRouter(), static_files()
    tags = {name: f'"{hashlib.sha256(data).hexdigest()[:20]}"' for name, data in page.items()}

    def answer(name: str, request: Request) -> Response:
        if name not in page:
            raise Refused(404, f"{name[:60]!r}: there is no such page")
        headers = {"ETag": tags[name], "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(page[name], media_type=_KINDS[name.rpartition(".")[2]], headers=headers)

    @routes.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return answer("index.html", request)

    @routes.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return answer("docs.html", request)

    @routes.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        return answer(name, request)

    samples = (
        {one.stem: one.read_bytes() for one in sorted(service.settings.samples.glob("*.png"))}
        if (service.settings.samples)
        else {}
    )

    @routes.get("/v1/samples", include_in_schema=False)
    async def all_samples() -> Response:
        return JSONResponse({"samples": [{"name": name, "url": f"/v1/samples/{name}.png"} for name in samples]})

    @routes.get("/v1/samples/{name}.png", include_in_schema=False)
    async def sample(name: str) -> Response:
        if name not in samples:
            raise Refused(404, f"{name[:60]!r}: there is no such sample")
        return Response(samples[name], media_type="image/png")

    @routes.post(
        "/v1/sign-in", tags=["server"], responses={401: {"model": ErrorAnswer}}, response_model=dict[str, bool]
    )
    async def sign_in(given: SignIn, request: Request) -> Response:
        """Give the token once, and the page's cookie proves it from then on."""
        token = service.settings.token
        if token is not None and not same(given.token, token):
            await asyncio.sleep(0.5)
            raise Refused(401, "this is not the token of this server")
        response = JSONResponse({"signed_in": True})
        if token is not None:
            safe = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
            response.set_cookie(COOKIE, cookie_for(token), httponly=True, samesite="strict", secure=safe, path="/")
        return response

    @routes.get("/healthz", tags=["server"], response_model=Health)
    async def health() -> Response:
        """200 as long as the server can work; whether there is a model stands in it."""
        model = service.current.model
        said = {"status": "ok", "model": model.stamp if model else None, "classes": len(model.classes) if model else 0}
        return JSONResponse({**said, "tutor": service.tutor, "trouble": service.current.trouble})

    @routes.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """In the text format of Prometheus."""
        model = service.current.model
        waiting, count = await asyncio.to_thread(lambda: (len(service.desk.waiting()), service.inbox.count()))
        gauges = {"classes": len(model.classes) if model else 0, "jobs_waiting": waiting, "inbox_images": count}
        return PlainTextResponse(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")

    return routes
