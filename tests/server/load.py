"""Many clients at once: what a server answers while it learns and forgets, and how long each waits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx

from tests.server.serving import encoded, images


@dataclass
class Load:
    """What came of it."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lessons: int = 0
    memory: list[int] = field(default_factory=list)
    """Bytes that the server had in memory, over time."""

    def share(self, part: float) -> float:
        """So long took this part of the requests at most."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(part * len(self.seconds)))]


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def under_load(address: str, pid: int, requests: int, clients: int = 8, size: int = 96) -> Load:
    """So many predictions from so many clients, while another one teaches a class and forgets it, again and again."""
    load, numbers, bodies = Load(), count(), [encoded(kind, n, size) for kind in ("red", "green") for n in range(4)]
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=address, timeout=60) as client:
            while (n := next(numbers)) < requests:
                begun = time.perf_counter()
                try:
                    found = client.post("/v1/predict?top=1", content=bodies[n % 8])
                    name = found.json()["images"][0]["top"][0]["class"]
                    if found.status_code != 200 or name != ("red" if n % 8 < 4 else "green"):
                        load.failures.append(f"{found.status_code} {found.text[:100]}")
                except Exception as error:
                    load.failures.append(repr(error))
                load.seconds.append(time.perf_counter() - begun)
                if n % 50 == 0:
                    load.memory.append(resident(pid))

    def change() -> None:
        with httpx.Client(base_url=address, timeout=90) as client:
            while not over.is_set():
                files = images(*["dots"] * 3, seed=load.lessons * 10)
                for response in (
                    client.post("/v1/learn", data={"class": "dots"}, files=files),
                    client.post("/v1/forget", json={"class": "dots"}) if load.lessons else None,
                ):
                    if response is None or response.status_code == 404:  # not learned yet
                        continue
                    job = client.get(response.headers["location"], params={"wait": 60}).json()
                    if job["status"] == "failed":
                        load.failures.append(job["error"])
                load.lessons += 1

    teacher = threading.Thread(target=change)
    askers = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in (teacher, *askers):
        thread.start()
    for thread in askers:
        thread.join()
    over.set()
    teacher.join()
    return load
