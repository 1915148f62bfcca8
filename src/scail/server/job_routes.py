"""`POST /v1/learn` and the other changes: each is a job, whose progress can be followed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from scail.datasets.images.decode import BrokenImage
from scail.server.archives import pictures_in
from scail.server.desk import Job, Kind, new_job
from scail.server.refusals import Refused
from scail.server.service import Service
from scail.server.shapes import (
    PNG_JPEG,
    Begun,
    ClassRequest,
    ErrorAnswer,
    JobAnswer,
    Jobs,
    MoveRequest,
    RenameRequest,
    Unreadable,
)  # fmt: skip
from scail.server.uploads import class_name, upload_of

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "class": {"type": "string", "minLength": 1, "maxLength": 200},
                        "images": {"type": "array", "items": PNG_JPEG},
                        "archive": {**PNG_JPEG, "description": "A ZIP file with a folder of pictures for each class."},
                    },
                }
            }
        },
    }
}
_FOLLOW = 0.15  # seconds between looks at a job
_ALIVE = 15.0  # seconds without a word, after which a stream says that it is there
_LONGEST = 3600.0
JobName = Annotated[str, Path(alias="id")]


def job_routes(service: Service) -> APIRouter:
    """The routes that change the model."""
    routes = APIRouter(tags=["changes"])
    refused: dict[int | str, dict[str, Any]] = {404: {"model": ErrorAnswer}, 503: {"model": ErrorAnswer}}
    refused |= {507: {"model": ErrorAnswer}, 422: {"model": ErrorAnswer}}

    @routes.post(
        "/v1/learn", status_code=202, response_model=Begun, openapi_extra=_BODY, summary="Learn a class, or several",
        responses={**refused, 422: {"model": Unreadable}, 413: {"model": ErrorAnswer}},
    )  # fmt: skip
    async def learn(request: Request) -> Response:
        """`class` and `images`, repeated; or `archive`, a ZIP file with a folder of pictures for each class.

        Pictures that cannot be read are left out, each with its `error`. Follow the job under its `Location`.
        """
        given = await _lesson(service, request)
        unread = await service.answers.readable([data for _, _, data in given])
        left_out = [
            {"name": name, "error": str(error)}
            for (_, name, _), error in zip(given, unread, strict=True)
            if isinstance(error, BrokenImage)
        ]
        good = [one for one, error in zip(given, unread, strict=True) if error is None]
        if not good:
            return JSONResponse({"error": f"no image can be read: {left_out[0]['error']}", "images": left_out}, 422)
        job = new_job("learn", classes=tuple(name for name, _, _ in good))
        return _begun(service, await service.begin(job, [data for _, _, data in good]), left_out)

    @routes.post("/v1/forget", status_code=202, response_model=Begun, responses=refused, summary="Forget a class")
    async def forget(wanted: ClassRequest) -> Response:
        """The whole class; or, with `images`, these exemplars of it."""
        return await change("forget", wanted.name, images=tuple(wanted.images))

    @routes.post("/v1/rename", status_code=202, response_model=Begun, responses=refused, summary="Rename a class")
    async def rename(wanted: RenameRequest) -> Response:
        """Nothing is learned anew."""
        return await change("rename", wanted.name, to=class_name(wanted.to))

    @routes.post("/v1/correct", status_code=202, response_model=Begun, responses=refused, summary="Move pictures")
    async def correct(wanted: MoveRequest) -> Response:
        """Exemplars that were learned under the wrong name are taken back, and learned under this one."""
        model = service.model()
        for image in wanted.images:
            if model.class_of(image) is None:
                raise Refused(404, f"image {image[:40]!r}: the model keeps no exemplar of this id")
        return await change("correct", None, images=tuple(wanted.images), to=class_name(wanted.to))

    @routes.post("/v1/undo", status_code=202, response_model=Begun, responses=refused, summary="Take back a lesson")
    async def undo() -> Response:
        """The model is as it was before its last lesson."""
        service.model()
        return await change("undo", None)

    async def change(kind: Kind, name: str | None, **given: Any) -> Response:
        if name is not None and name not in {one.name for one in service.model().classes}:
            raise Refused(404, f"class {name[:80]!r} is not known")
        job = new_job(kind, classes=() if name is None else (name,), **given)
        return _begun(service, await service.begin(job), [])

    @routes.get("/v1/jobs", response_model=Jobs, summary="All jobs")
    async def jobs() -> Response:
        """Those that are remembered, the newest first."""
        found = await asyncio.to_thread(service.desk.all_jobs)
        return JSONResponse({"jobs": [told(service, job) for job in reversed(found)]})

    @routes.get("/v1/jobs/{id}", response_model=JobAnswer, responses=refused, summary="How a job stands")
    async def one_job(name: JobName, wait: Annotated[float, Query(ge=0, le=60)] = 0) -> Response:
        """With `wait`, the answer comes when the job has ended, or after so many seconds."""
        until = time.monotonic() + wait
        while not (job := _known(service, name)).ended and time.monotonic() < until:
            await asyncio.sleep(_FOLLOW)
        if job.ended:
            await service.refreshed()  # who knows that it is done finds it done
        return JSONResponse(told(service, job))

    @routes.get(
        "/v1/jobs/{id}/events", response_class=StreamingResponse, summary="Follow a job",
        responses={**refused, 200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def events(name: JobName, last_event_id: Annotated[str, Header()] = "0") -> Response:
        """Server-sent events: `said`, and `done` of `of`; at last the event `end` with the whole job."""
        _known(service, name)
        after = int(last_event_id) if re.fullmatch("[0-9]{1,9}", last_event_id) else 0
        return StreamingResponse(_stream(service, name, min(after, 10**6)), media_type="text/event-stream")

    return routes


async def _lesson(service: Service, request: Request) -> list[tuple[str, str, bytes]]:
    """Class, name and content of each picture."""
    limits = service.settings.limits
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refused(422, "expected multipart/form-data with the fields `class` and `images`, or `archive`")
    upload = await upload_of(request, limits.taught)
    given = [(name, data) for name, data in upload.images]
    if upload.archive is not None:
        found = await asyncio.to_thread(pictures_in, upload.archive, limits)
        return [(class_name(of_class), name, data) for of_class, name, data in found]
    if not given:
        raise Refused(422, "no images: send `class` and the field `images`, repeated; or `archive`, a ZIP of folders")
    of_class = class_name(upload.texts.get("class"))
    return [(of_class, name, data) for name, data in given]


def _begun(service: Service, job: Job, left_out: list[dict[str, str]]) -> Response:
    return JSONResponse({"job": told(service, job), "images": left_out}, 202, {"Location": f"/v1/jobs/{job.id}"})


def _known(service: Service, name: str) -> Job:
    if (job := service.desk.job(name)) is None:
        raise Refused(404, f"job {name[:40]!r} is not known")
    return job


def told(service: Service, job: Job) -> dict[str, Any]:
    """A job in plain values, with what was said while it was done."""
    events = service.desk.events(job.id)
    progress = next((one for one in reversed(events) if "of" in one), None)
    return {
        "id": job.id, "kind": job.kind, "status": job.status, "created": job.created, "classes": Counter(job.classes),
        "to": job.to, "progress": progress, "said": [one["said"] for one in events if "said" in one],
        "error": job.error, "result": job.result,
    }  # fmt: skip


async def _stream(service: Service, name: str, after: int) -> AsyncIterator[str]:
    """What is said of a job, until it has ended."""
    begun = spoke = time.monotonic()
    while time.monotonic() - begun < _LONGEST:
        job = service.desk.job(name)
        for event in await asyncio.to_thread(service.desk.events, name, after):
            after, spoke = after + 1, time.monotonic()
            yield f"id: {after}\ndata: {json.dumps(event)}\n\n"
        if job is None or job.ended:
            await service.refreshed()
            yield f"event: end\ndata: {json.dumps(told(service, job) if job else None)}\n\n"
            return
        if time.monotonic() - spoke > _ALIVE:
            spoke = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(_FOLLOW)
