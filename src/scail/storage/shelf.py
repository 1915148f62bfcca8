"""Where models lie for others: a repository of the Hugging Face hub, or a folder behind a URL. Files by their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol


class ShelfError(ValueError):
    """The place cannot be used: what is wrong, and what to do. No secret is in it."""


class Shelf(Protocol):
    """Files at a place that others can reach."""

    @property
    def place(self) -> str:
        """How it is called, as `hf:owner/name`."""

    def names(self) -> frozenset[str]:
        """The files that are there now; none where the place is yet to be made."""

    def read(self, name: str, most: int) -> bytes:
        """One of them, of at most so many bytes."""

    def fetch(self, names: Sequence[str], to: Path) -> None:
        """These files, into a folder of this machine. FileNotFoundError where one has gone meanwhile."""

    def send(self, folder: Path, last: Sequence[str], gone: Collection[str]) -> None:
        """All files of a folder, those of `last` after the others; then those of `gone` go."""


def shelf_at(place: str, revision: str | None = None, private: bool = False) -> Shelf:
    """The shelf at this place: hf:owner/name, or a URL that fsspec knows."""
    if place.startswith("hf:") and not place.startswith("hf://"):
        from scail.storage.hub_shelf import HubShelf

        return HubShelf(place, revision, private)
    if "://" not in place:
        raise ShelfError(f"{place}: expected hf:owner/name, or a URL such as s3://bucket/name or file:///models/name")
    if place.startswith(("http://", "https://")):
        raise ShelfError(
            f"{without_secrets(place)}: the web is for reading pages; give hf:owner/name, or s3:// and such"
        )
    for name, given in (("--revision", revision), ("--private", private)):
        if given:
            raise ShelfError(
                f"{without_secrets(place)}: {name} is for the Hugging Face hub (hf:owner/name); leave it out"
            )
    from scail.storage.url_shelf import UrlShelf

    return UrlShelf(place)


_SECRETS = (
    (re.compile(r"\bhf_\w+"), "hf_..."),
    (re.compile(r"(?i)\b(bearer |(?:token|password|secret|key)\s*[=:]\s*)[^\s,;'\"]+"), r"\1..."),
    (re.compile(r"(\w://)[^/@\s]+@"), r"\1"),
    (re.compile(r"(\w://[^\s?'\"]+)\?[^\s'\"]+"), r"\1?..."),
)


def without_secrets(text: str) -> str:
    """A text that can be printed: tokens, passwords and signatures are cut out.

    >>> without_secrets("https://me:pass@host/a?X-Signature=1f2e: 403 for hf_abcdef")
    'https://host/a?... 403 for hf_...'
    """
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text
