"""`POST /v1/predict`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from scail.server.answers import Answered
from scail.server.current import ServedModel
from scail.server.inbox import is_doubtful
from scail.server.pictures import content_id
from scail.server.refusals import Refused
from scail.server.service import Service
from scail.server.shapes import PNG_JPEG, ErrorAnswer, PredictAnswer, Unreadable
from scail.server.uploads import upload_of

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["images"],
                    "properties": {"images": {"type": "array", "items": PNG_JPEG, "minItems": 1, "maxItems": 64}},
                }
            },
            "application/octet-stream": {"schema": PNG_JPEG},
        },
    }
}


def predict_routes(service: Service) -> APIRouter:
    """The route that answers."""
    routes = APIRouter(tags=["answers"])

    @routes.post(
        "/v1/predict", response_model=PredictAnswer, openapi_extra=_BODY, summary="Classify pictures",
        responses={422: {"model": Unreadable}, 503: {"model": ErrorAnswer}},
    )  # fmt: skip
    async def predict(
        request: Request,
        top: Annotated[int, Query(ge=1, le=1000, description="How many classes to name.")] = 5,
        nearest: Annotated[int, Query(ge=0, le=20, description="How many like exemplars to name.")] = 0,
        keep: Annotated[bool, Query(description="Whether the inbox may keep what is unknown or doubtful.")] = True,
    ) -> JSONResponse:
        """Pictures in the multipart field `images`, repeated; or one picture as the body.

        Each picture that cannot be read has its own `error`. Where none can be read, the request is refused.
        """
        upload = await upload_of(request, service.settings.limits.asked)
        if not upload.images:
            raise Refused(422, "no images: send them in the multipart field `images`, or one as the body")
        model = service.model()
        found = await service.answers.to(model, [data for _, data in upload.images])
        said = []
        for (name, data), one in zip(upload.images, found, strict=True):
            if not isinstance(one, Answered):
                said.append({"name": name, "error": str(one)})
                continue
            said.append({"name": name, **described(model, one, top, nearest)})
            if keep and service.settings.inbox and is_doubtful(one.answer):
                service.inbox.put(content_id(data), one.picture, one.answer, model)
        unreadable = sum("error" in one for one in said)
        service.metrics.counts["unreadable"] += unreadable
        service.metrics.counts["answered"] += len(said) - unreadable
        service.metrics.counts["unknown"] += sum(bool(one.get("unknown")) for one in said)
        if unreadable == len(said):
            return JSONResponse({"error": f"no image can be read: {said[0]['error']}", "images": said}, 422)
        return JSONResponse({"model": model.stamp, "images": said})

    return routes


def described(model: ServedModel, one: Answered, top: int, nearest: int) -> dict[str, Any]:
    """An answer in plain values."""
    answer, classes = one.answer, model.names
    said: dict[str, Any] = {
        "top": [{"class": classes[c], "probability": float(answer.odds[c])} for c in answer.top(top)],
        "unknown": answer.unknown, "strangeness": answer.strangeness,
    }  # fmt: skip
    if nearest:
        like = model.nearest(answer.features, nearest)
        said["nearest"] = [{"class": name, "exemplar": digest, "similarity": s} for name, digest, s in like]
    return said
