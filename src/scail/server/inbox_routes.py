"""`/v1/inbox`: pictures that came in unknown or doubtful, in groups, ready to be named and learned."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from scail.server.desk import new_job
from scail.server.inbox import InboxPicture
from scail.server.refusals import Refused
from scail.server.service import Service
from scail.server.shapes import Begun, ErrorAnswer, InboxAnswer, InboxChoice, InboxLesson
from scail.server.uploads import class_name


def inbox_routes(service: Service) -> APIRouter:
    """The routes of the inbox."""
    routes = APIRouter(tags=["inbox"])

    @routes.get("/v1/inbox", response_model=InboxAnswer, summary="What waits in the inbox")
    async def inbox() -> Response:
        """Pictures that look alike stand together, the largest group first."""
        settings, model = service.settings, await service.refreshed()
        groups = [] if model is None else await asyncio.to_thread(service.inbox.groups, model)
        said = [{"images": [_told(one) for one in group]} for group in groups]
        count = sum(map(len, groups))
        return JSONResponse(
            {"on": settings.inbox > 0, "most": settings.inbox, "days": settings.inbox_days, "count": count,
             "groups": said}
        )  # fmt: skip

    @routes.get(
        "/v1/inbox/{name}.jpg", response_class=Response, summary="One picture of the inbox",
        responses={200: {"content": {"image/jpeg": {}}}, 404: {"model": ErrorAnswer}},
    )  # fmt: skip
    async def picture(name: str) -> Response:
        """The picture, reduced."""
        data = await asyncio.to_thread(service.inbox.picture, name)
        if data is None:
            raise Refused(404, f"image {name[:40]!r} is not in the inbox")
        return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})

    @routes.post(
        "/v1/inbox/learn", status_code=202, response_model=Begun, summary="Name pictures of the inbox",
        responses={404: {"model": ErrorAnswer}, 503: {"model": ErrorAnswer}, 507: {"model": ErrorAnswer}},
    )  # fmt: skip
    async def learn(wanted: InboxLesson) -> Response:
        """They are learned as this class, and leave the inbox once they are."""
        from scail.server.job_routes import told

        name, images = class_name(wanted.name), list(dict.fromkeys(wanted.images))
        pictures = [await asyncio.to_thread(service.inbox.picture, one) for one in images]
        found = [data for data in pictures if data is not None]
        if len(found) < len(images):
            raise Refused(404, f"image {images[pictures.index(None)][:40]!r} is not in the inbox")
        job = await service.begin(new_job("learn", classes=(name,) * len(found), inbox=tuple(images)), found)
        return JSONResponse({"job": told(service, job), "images": []}, 202, {"Location": f"/v1/jobs/{job.id}"})

    @routes.post("/v1/inbox/discard", summary="Remove pictures from the inbox", response_model=dict[str, int])
    async def discard(wanted: InboxChoice) -> Response:
        """They are gone for good."""
        return JSONResponse({"removed": await asyncio.to_thread(service.inbox.discard, wanted.images)})

    return routes


def _told(one: InboxPicture) -> dict[str, object]:
    when = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(one.when))
    top = [{"class": name, "probability": chance} for name, chance in one.top]
    return {"id": one.id, "url": f"/v1/inbox/{one.id}.jpg", "when": when, "top": top, "unknown": one.unknown}
