"""What a client may ask for at most."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds on requests: whoever goes beyond them gets an error that names the bound."""

    request_bytes: int = 256 * MIB
    request_seconds: float = 120.0
    """To send a request."""
    picture_bytes: int = 32 * MIB
    pixels: int = 50_000_000
    """Of one picture, width times height; in memory it takes three bytes each."""
    asked: int = 64
    """Pictures in one request for answers."""
    taught: int = 2000
    """Pictures in one request to learn."""
    unpacked_bytes: int = 1024 * MIB
    """Of an archive."""
    waiting: int = 512
    """Pictures that wait for an answer, of all clients together."""
    jobs: int = 20
    """Jobs that wait."""
    clients: int = 256
    """Connections."""
