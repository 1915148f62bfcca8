"""A stand-in for the Hugging Face hub on this machine: as much of its HTTP API as a push and a pull need."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_stand" + "in" * 8
_LARGE = 2000  # bytes: larger files go by LFS


@dataclass
class Repository:
    private: bool
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        said = [
            branch,
            len(self.commits),
            sorted((name, hashlib.sha1(data).hexdigest()) for name, data in files.items()),
        ]
        sha = hashlib.sha1(json.dumps(said).encode()).hexdigest()
        self.commits[sha], self.branches[branch] = files, sha
        return sha


@dataclass
class StandIn:
    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def files(self, name: str, branch: str = "main") -> dict[str, bytes]:
        repository = self.repositories[name]
        return repository.commits[repository.branches[branch]]


class Refused(Exception):
    def __init__(self, status: int, code: str = "", url: str = "") -> None:
        self.status, self.code, self.url = status, code, url


class Handler(BaseHTTPRequestHandler):
    hub: StandIn

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        try:
            found = self._found([part for part in path.split("/") if part], body)
        except Refused as refused:
            self._send(
                refused.status,
                json.dumps({"error": "refused", "url": refused.url}).encode(),
                {"X-Error-Code": refused.code} if refused.code else {},
            )
            return
        data, headers = found if isinstance(found, tuple) else (json.dumps(found).encode(), {})
        self._send(200, data, headers)

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _found(self, parts: list[str], body: bytes) -> Any:
        match parts:
            case ["api", "repos", "create"]:
                return self._create(json.loads(body))
            case ["api", "validate-yaml"]:
                return {"errors": [], "warnings": []}
            case ["api", "models", owner, name]:
                return self._about(f"{owner}/{name}", "main")
            case ["api", "models", owner, name, "revision", *revision]:
                return self._about(f"{owner}/{name}", "/".join(revision))
            case ["api", "models", owner, name, "tree", revision]:
                files = self._files(f"{owner}/{name}", revision)
                return [{"type": "file", "path": n, "size": len(d), "oid": _oid(d)} for n, d in files.items()]
            case ["api", "models", _, _, "preupload", _]:
                self._allowed()
                mode = [(f["path"], "lfs" if f["size"] > _LARGE else "regular") for f in json.loads(body)["files"]]
                return {"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in mode]}
            case ["api", "models", owner, name, "branch", branch]:
                self._allowed()
                repository = self._repository(f"{owner}/{name}")
                repository.branches[branch] = repository.branches["main"]
                return {}
            case ["api", "models", owner, name, "commit", branch]:
                self._allowed()
                return self._commit(f"{owner}/{name}", branch, [json.loads(line) for line in body.splitlines()])
            case [_, _, "info", "lfs", "objects", "batch"]:
                self._allowed()
                return {"transfer": "basic", "objects": [self._upload(one) for one in json.loads(body)["objects"]]}
            case ["lfs", oid]:
                self.hub.large[oid] = body
                return {}
            case [owner, name, "resolve", revision, *inside]:
                data = self._files(f"{owner}/{name}", revision).get("/".join(inside))
                if data is None:
                    raise Refused(404, "EntryNotFound")
                return data, {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": revision}
        raise Refused(404)

    def _allowed(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401)

    def _repository(self, name: str) -> Repository:
        found = self.hub.repositories.get(name)
        if found is None:
            raise Refused(404, "RepoNotFound")
        if found.private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "RepoNotFound")
        return found

    def _files(self, name: str, revision: str) -> dict[str, bytes]:
        repository = self._repository(name)
        files = repository.commits.get(repository.branches.get(revision, revision))
        if files is None:
            raise Refused(404, "RevisionNotFound")
        return files

    def _create(self, asked: dict[str, Any]) -> Any:
        self._allowed()
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.repositories:
            raise Refused(409, url=f"{self.hub.url}/{name}")
        self.hub.repositories[name] = Repository(asked.get("private") is True or asked.get("visibility") == "private")
        self.hub.repositories[name].commit("main", {".gitattributes": b""})
        return {"url": f"{self.hub.url}/{name}"}

    def _about(self, name: str, revision: str) -> Any:
        repository, files = self._repository(name), self._files(name, revision)
        siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
        sha = repository.branches.get(revision, revision)
        return {"id": name, "sha": sha, "private": repository.private, "siblings": siblings, "tags": [], "downloads": 0}

    def _upload(self, one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}"}}}

    def _commit(self, name: str, branch: str, lines: list[dict[str, Any]]) -> Any:
        repository, files = self._repository(name), dict(self._files(name, branch))
        for line in lines:
            value = line["value"]
            if (
                line["key"] == "header"
                and value.get("parentCommit", repository.branches[branch]) != repository.branches[branch]
            ):
                raise Refused(412)
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = repository.commit(branch, files)
        return {"commitUrl": f"{self.hub.url}/{name}/commit/{sha}", "commitOid": sha}


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextlib.contextmanager
def hub_stand_in() -> Iterator[StandIn]:
    """The stand-in, on a free port of the loopback."""
    hub = StandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfThisHub", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def hub_in_use(cache: Path) -> Iterator[StandIn]:
    """The stand-in in the place of the hub, with a login."""
    with hub_stand_in() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", TOKEN)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # the stand-in takes LFS
        serve_at(patch, hub.url)
        yield hub


def serve_at(patch: pytest.MonkeyPatch, url: str) -> None:
    """As HF_ENDPOINT does, where the library is imported already."""
    patch.setattr("huggingface_hub.constants.ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    patch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
