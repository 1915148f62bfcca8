"""`GET /v1/classes` and the exemplars: what the model knows, and how well."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from scail.server.current import exemplar_png
from scail.server.refusals import Refused
from scail.server.service import Service
from scail.server.shapes import ClassesAnswer, ErrorAnswer, ExemplarsAnswer

_FOR_A_DAY = {"Cache-Control": "private, max-age=86400, immutable"}  # its name is its content
_FIRST = 6  # exemplars that are shown with the list of classes


def class_routes(service: Service) -> APIRouter:
    """The routes that show the model."""
    routes = APIRouter(tags=["model"])

    @routes.get("/v1/classes", response_model=ClassesAnswer, summary="All classes")
    async def classes() -> Response:
        """In the order in which they were learned, each with how well it does."""
        model = await service.refreshed()
        if model is None:
            nothing = {"model": None, "method": None, "memory": None, "top1": None, "measuring": False}
            return JSONResponse({**nothing, "tells_unknown": False, "classes": []})
        report = await asyncio.to_thread(service.desk.report, model.stamp)
        of_classes: dict[str, Any] = (report or {}).get("classes") or {}
        said = []
        for one in model.classes:
            measured, right = of_classes.get(one.name) or (None, None)
            said.append(
                {
                    "name": one.name, "state": one.state, "since": one.since, "images": one.images,
                    "exemplars": len(one.exemplars),
                    "first": [_url(digest) for digest in one.exemplars[:_FIRST]], "measured": measured, "right": right,
                }
            )  # fmt: skip
        accuracy = (report or {}).get("accuracy") or {}
        answerer = model.answerer
        return JSONResponse(
            {
                "model": model.stamp, "method": answerer.method, "memory": model.record["settings"].get("memory"),
                "top1": accuracy.get("top1"), "measuring": report is None,
                "tells_unknown": answerer.strange is not None, "classes": said,
            }
        )  # fmt: skip

    @routes.get(
        "/v1/exemplars", response_model=ExemplarsAnswer, responses={404: {"model": ErrorAnswer}},
        summary="Exemplars of a class",
    )  # fmt: skip
    async def exemplars(
        name: Annotated[str, Query(alias="class", min_length=1, max_length=200)],
        most: Annotated[int, Query(ge=1, le=2000)] = 200,
    ) -> Response:
        """Pictures that the model keeps, best first."""
        model = await service.refreshed()
        found = next((one for one in model.classes if one.name == name), None) if model else None
        if found is None:
            raise Refused(404, f"class {name[:80]!r} is not known")
        said = [{"id": digest, "url": _url(digest)} for digest in found.exemplars[:most]]
        return JSONResponse({"exemplars": said})

    @routes.get(
        "/v1/exemplars/{digest}.png", response_class=Response, summary="One exemplar",
        responses={200: {"content": {"image/png": {}}}, 404: {"model": ErrorAnswer}},
    )  # fmt: skip
    async def exemplar(digest: str) -> Response:
        """The picture, as the model keeps it."""
        model = service.current.model
        data = await asyncio.to_thread(exemplar_png, service.settings.model, model, digest) if model else None
        if data is None:
            raise Refused(404, f"exemplar {digest[:40]!r} is not kept")
        return Response(data, media_type="image/png", headers=_FOR_A_DAY)

    return routes


def _url(digest: str) -> str:
    return f"/v1/exemplars/{digest}.png"
