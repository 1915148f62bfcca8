"""Models on the Hugging Face hub, through its own library: the extra `hub`. A push is one commit."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from scail.storage.reading import read_bounded, size_text
from scail.storage.shelf import ShelfError, without_secrets

_NAME = re.compile(r"hf:([\w.-]{1,96}/[\w.-]{1,96})", re.ASCII)
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


class HubShelf:
    """A repository of the hub, at a branch, tag or commit."""

    def __init__(self, place: str, revision: str | None, private: bool) -> None:
        if (found := _NAME.fullmatch(place)) is None:
            raise ShelfError(f"{place}: expected hf:owner/name")
        try:
            from huggingface_hub import HfApi, utils
        except ModuleNotFoundError as error:
            raise ShelfError(f"{place}: the hub needs the extra `hub`: pip install 'scail[hub]'") from error
        utils.disable_progress_bars()  # type: ignore[attr-defined]
        utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        self.place, self._name, self._revision, self._private = place, found[1], revision, private
        self._api = HfApi()
        self._seen: Any = None  # what was there when it was looked at

    def names(self) -> frozenset[str]:
        """The files that are there now. All that follows is about this commit."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        with self._told():
            try:
                self._seen = self._api.model_info(self._name, revision=self._revision, files_metadata=True)
            except (RepositoryNotFoundError, RevisionNotFoundError):
                self._seen = None
        return frozenset(self._sizes)

    @property
    def _sizes(self) -> dict[str, int]:
        files = self._seen.siblings if self._seen is not None else None
        return {file.rfilename: file.size or 0 for file in files or ()}

    def read(self, name: str, most: int) -> bytes:
        """One of them, of at most so many bytes."""
        if (size := self._sizes.get(name, 0)) > most:
            raise ShelfError(f"{self.place}, {name}: {size_text(size)}, expected at most {size_text(most)}")
        with tempfile.TemporaryDirectory(prefix="scail-") as place:
            self.fetch([name], Path(place))
            return read_bounded(Path(place) / name, most)

    def fetch(self, names: Sequence[str], to: Path) -> None:
        """These files, into a folder of this machine. Nothing stays in the hub's cache: who forgets, forgets all."""
        with self._told():
            self._api.snapshot_download(
                self._name, revision=self._seen.sha, local_dir=to, allow_patterns=[*names], max_workers=4
            )

    def send(self, folder: Path, last: Sequence[str], gone: Collection[str]) -> None:  # noqa: ARG002
        """All files of a folder, in one commit. A repository or a branch that is not there is made."""
        with self._told():
            if self._seen is None:
                self._api.create_repo(self._name, private=self._private or None, exist_ok=True)
            if self._private and not self._api.model_info(self._name).private:
                raise ShelfError(
                    f"{self.place}: is there and public; make it private on its page, or give another name"
                )
            if self._revision is not None and self._seen is None:
                self._api.create_branch(self._name, branch=self._revision, exist_ok=True)
            # Not `upload_folder`: that may take several commits, and between them half of a model would be there.
            self._api.create_commit(
                self._name, [*_changes(folder, gone)], commit_message="scail push", revision=self._revision,
                parent_commit=self._seen.sha if self._seen is not None else None,
            )  # fmt: skip

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """The library's errors on one line, without secrets, and what to do."""
        try:
            yield
        except ShelfError:
            raise
        except Exception as error:
            first = error
            while not hasattr(first, "response") and isinstance(first.__cause__, Exception):
                first = first.__cause__
            status = getattr(getattr(first, "response", None), "status_code", None)
            if type(first).__name__ == "LocalTokenNotFoundError" or status in (401, 403):
                told = f"the hub does not allow it; {_LOG_IN} to a token with the right to it"
            elif status in (409, 412):
                told = "was changed meanwhile; give the same command again"
            else:
                line = next(iter(str(first).strip().splitlines()), type(first).__name__)
                told = f"{without_secrets(line)}; look at the connection, then give the same command again"
            raise ShelfError(f"{self.place}: {told}") from error


def _changes(folder: Path, gone: Collection[str]) -> Iterator[Any]:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield CommitOperationAdd(path.relative_to(folder).as_posix(), str(path))
    yield from map(CommitOperationDelete, gone)
