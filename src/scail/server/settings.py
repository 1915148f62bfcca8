"""What a server is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from scail.server.desk import desk_of
from scail.server.limits import Limits


@dataclass(frozen=True)
class ServerSettings:
    """Which model, where, and for whom."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    inbox: int = 0
    """Pictures that the inbox holds at most; 0: there is none."""
    inbox_days: float = 30.0
    desk: Path | None = None
    """Another place for the desk than beside the model."""
    samples: Path | None = None
    """A folder of PNG files that the page offers to try."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError(f"port {self.port}: expected 0 (any that is free) to 65535")
        if self.inbox < 0 or not 0 < self.inbox_days <= 3650:
            raise ValueError(f"inbox {self.inbox}, {self.inbox_days} days: expected 0 or more, and up to 3650 days")
        if self.token is not None and (not self.token.strip() or not self.token.isascii()):
            raise ValueError("token: expected some plain letters and digits; `openssl rand -hex 24` makes a good one")
        if self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host}: others could reach the server there, so it needs a token: give --token, or set "
                "SCAIL_TOKEN; without one it serves this machine only (--host 127.0.0.1)"
            )

    @property
    def desk_folder(self) -> Path:
        """Where the desk is."""
        return self.desk or desk_of(self.model)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
