"""What goes out and in, as the API's description tells it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

PNG_JPEG = {"type": "string", "format": "binary"}


class ErrorAnswer(BaseModel):
    """Why a request was not carried out."""

    error: str


class Guess(BaseModel):
    """A class and its odds."""

    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="class")
    probability: float


class Neighbour(BaseModel):
    """An exemplar that looks like the picture."""

    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="class")
    exemplar: str
    similarity: float


class ImageAnswer(BaseModel):
    """What the model says of a picture, or why it says nothing."""

    name: str
    top: list[Guess] | None = None
    unknown: bool | None = None
    strangeness: float | None = None
    nearest: list[Neighbour] | None = None
    error: str | None = None


class PredictAnswer(BaseModel):
    """One entry for each picture, in their order."""

    model: str
    """Changes whenever the model does."""
    images: list[ImageAnswer]


class Unreadable(BaseModel):
    """No picture of a request could be read."""

    error: str
    images: list[ImageAnswer] = []


class JobAnswer(BaseModel):
    """A change of the model: what is asked for, how it stands, what came of it."""

    id: str
    kind: str
    status: str
    created: str
    classes: dict[str, int]
    to: str | None
    progress: dict[str, Any] | None
    said: list[str]
    error: str | None
    result: dict[str, Any]


class Begun(BaseModel):
    """A job that was put on the desk."""

    job: JobAnswer
    images: list[ImageAnswer] = []
    """Pictures that are left out, each with its error."""


class Jobs(BaseModel):
    """All jobs that are remembered, the newest first."""

    jobs: list[JobAnswer]


class ClassAnswer(BaseModel):
    """A class and how well it does."""

    name: str
    state: int
    since: str | None
    images: int | None
    exemplars: int
    first: list[str]
    """Where a few of its exemplars are."""
    measured: int | None
    """Images that were left out one by one to measure it."""
    right: int | None


class ClassesAnswer(BaseModel):
    """What the model knows."""

    model: str | None
    method: str | None
    memory: int | None
    top1: float | None
    """Percent, left out one by one; null while it is measured, and where that cannot be told."""
    measuring: bool
    tells_unknown: bool
    classes: list[ClassAnswer]


class Exemplar(BaseModel):
    """A picture that the model keeps."""

    id: str
    url: str


class ExemplarsAnswer(BaseModel):
    """Pictures of one class that the model keeps, best first."""

    exemplars: list[Exemplar]


class ClassRequest(BaseModel):
    """A class, and perhaps single pictures of it by their ids."""

    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    name: str = Field(alias="class", min_length=1, max_length=200)
    images: list[str] = Field([], max_length=2000)


class MoveRequest(BaseModel):
    """Exemplars by their ids, and the class that they are to belong to."""

    model_config = ConfigDict(extra="forbid")
    images: list[str] = Field(min_length=1, max_length=2000)
    to: str = Field(min_length=1, max_length=200)


class RenameRequest(BaseModel):
    """A class and its new name."""

    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    name: str = Field(alias="class", min_length=1, max_length=200)
    to: str = Field(min_length=1, max_length=200)


class SignIn(BaseModel):
    """The token, so that the page gets its cookie."""

    model_config = ConfigDict(extra="forbid")
    token: str = Field(min_length=1, max_length=1000)


class Waiting(BaseModel):
    """A picture in the inbox."""

    id: str
    url: str
    when: str
    top: list[Guess]
    unknown: bool


class InboxGroup(BaseModel):
    """Pictures that look alike, those in the middle first."""

    images: list[Waiting]


class InboxAnswer(BaseModel):
    """What waits in the inbox, the largest group first."""

    on: bool
    most: int
    days: float
    count: int
    groups: list[InboxGroup]


class InboxChoice(BaseModel):
    """Pictures of the inbox."""

    model_config = ConfigDict(extra="forbid")
    images: list[str] = Field(min_length=1, max_length=2000)


class InboxLesson(InboxChoice):
    """Pictures of the inbox and the class that they are to be learned as."""

    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    name: str = Field(alias="class", min_length=1, max_length=200)


class Health(BaseModel):
    """Whether answers can be had."""

    status: str
    model: str | None
    classes: int
    tutor: str
    """working, idle or away: the process that learns."""
    trouble: str | None
