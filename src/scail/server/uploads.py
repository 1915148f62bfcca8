"""Pictures out of a request: the multipart field `images`, repeated, or a body that is one picture."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import UploadFile
from starlette.requests import Request

from scail.server.refusals import Refused

_FIELDS = 20


@dataclass(frozen=True)
class Upload:
    """What a request brought."""

    images: list[tuple[str, bytes]] = field(default_factory=list)
    """Name and content of each picture; the name is for the answer only."""
    archive: bytes | None = None
    texts: dict[str, str] = field(default_factory=dict)


async def upload_of(request: Request, most: int) -> Upload:
    """What is in the body, whatever its type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        return Upload([("image", await request.body())])
    images, texts, archive = list[tuple[str, bytes]](), dict[str, str](), None
    async with request.form(max_files=most, max_fields=_FIELDS) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                data = await value.read()
                if name == "images":
                    images.append(((value.filename or "image")[:200], data))
                elif name == "archive":
                    archive = data
            elif name == "images":
                images.append(("image", value.encode()))
            else:
                texts[name] = value
    if len(images) > most:
        raise Refused(413, f"{len(images)} images, expected at most {most} in one request")
    return Upload(images, archive, texts)


def class_name(given: str | None) -> str:
    """A class's name, as it can be learned."""
    name = (given or "").strip()
    if not name or len(name) > 200 or not name.isprintable():
        raise Refused(422, f"class {name[:50]!r}: expected a name of 1 to 200 printable characters")
    return name
