"""Errors that a client is told: a status and a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response


class Refused(HTTPException):
    """A request that is not carried out."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, text, dict(headers or {}))

    def __str__(self) -> str:
        """What the client is told."""
        return str(self.detail)


def answer_errors(app: FastAPI) -> None:
    """Every error is answered alike: {"error": a sentence}."""

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Request, error: AnyHTTPException) -> Response:
        del request
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> Response:
        del request
        said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"error": "; ".join(said)[:1000]}, 422)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        del request, error
        return Response(status_code=400)  # nobody reads it
