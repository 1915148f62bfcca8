"""What every request passes: where it comes from, who sends it, how much, how long; and headers on every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scail.server.limits import MIB
from scail.server.refusals import Refused
from scail.server.settings import ServerSettings, is_loopback

COOKIE = "scail"
_OPEN = ("/", "/docs", "/openapi.json", "/healthz", "/v1/sign-in")
"""What needs no token: the page itself (it asks for the token), the description, and whether the server is well."""
_DIGITS = 18  # of a length, at most: Python takes no number of thousands
_SAFE = ("GET", "HEAD", "OPTIONS")
_WRONG_TOKEN = 0.5  # seconds that a wrong token waits for its answer
SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def cookie_for(token: str) -> str:
    """What the page's cookie holds: it proves the token and does not tell it."""
    return hmac.new(token.encode(), b"scail page", hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Whether two secrets are the same; the time it takes tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class Guard:
    """An app in front of the app."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def answered(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_origin(scope["method"], headers)
            await self._check_token(scope["path"], headers)
            await self._app(scope, self._bounded(headers, receive), answered)
        except Refused as refused:
            if not begun:
                answer = JSONResponse({"error": str(refused)}, refused.status_code, refused.headers)
                await answer(scope, receive, answered)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Pages of others can send a browser here. What changes something must come from this page, or from none."""
        host = headers.get("host", "")
        if self._settings.token is None and not _is_ours(host, self._settings.host):
            raise Refused(403, f"Host {host[:100]!r}: expected this machine's own address")
        if method in _SAFE:
            return
        if (origin := headers.get("origin")) is not None and _netloc(origin) != host.lower():
            raise Refused(403, f"Origin {origin[:100]!r}: another page than this server's own; nothing was changed")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Refused(403, "sent by another site's page; nothing was changed")

    async def _check_token(self, path: str, headers: Headers) -> None:
        if self._settings.token is None or path in _OPEN or path.startswith("/static/"):
            return
        if not allowed(headers, self._settings.token):
            if "authorization" in headers:
                await asyncio.sleep(_WRONG_TOKEN)
            text = "this server needs its token: send the header `Authorization: Bearer TOKEN`"
            raise Refused(401, text, {"WWW-Authenticate": "Bearer"})

    def _bounded(self, headers: Headers, receive: Receive) -> Receive:
        """The body, of at most so many bytes and seconds."""
        limits, read = self._settings.limits, 0
        until = time.monotonic() + limits.request_seconds
        too_much = f"the request has more than {limits.request_bytes // MIB} MiB; send fewer pictures at a time"
        said = headers.get("content-length", "0")
        if not said.isascii() or not said.isdigit() or len(said) > _DIGITS:
            raise Refused(400, "Content-Length: expected a number")
        if int(said) > limits.request_bytes:
            raise Refused(413, too_much, {"Connection": "close"})
        more = True

        async def bounded() -> Message:
            nonlocal read, more
            if not more:
                return await receive()  # a client that is gone
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise Refused(408, f"the request took more than {limits.request_seconds:.0f} seconds") from None
            read += len(message.get("body", b""))
            more = bool(message.get("more_body"))
            if read > limits.request_bytes:
                raise Refused(413, too_much, {"Connection": "close"})
            return message

        return bounded


def allowed(headers: Mapping[str, str], token: str) -> bool:
    """Whether a request proves the token, by its header or by the page's cookie."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and same(given.strip(), token):
        return True
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return False
    return cookie is not None and same(cookie.value, cookie_for(token))


def _netloc(origin: str) -> str | None:
    try:
        found = urlsplit(origin)
    except ValueError:
        return None
    return found.netloc.lower() if found.scheme in ("http", "https") else None


def _is_ours(host: str, served: str) -> bool:
    """Whether a Host header names this machine: a page elsewhere can give its own name our address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == served.lower() or is_loopback(name)
