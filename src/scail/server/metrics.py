"""Counters and times in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What was counted since the server started."""

    def __init__(self) -> None:
        self._begun = time.time()
        self._requests = Counter[tuple[str, str, int]]()
        self._seconds = dict[str, list[float]]()
        """Per route: how many took at most each bucket's time, how many there were, and their sum."""
        self.counts = Counter[str]()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request that was answered."""
        self._requests[(method, route, status)] += 1
        of_route = self._seconds.setdefault(route, [0.0] * (len(BUCKETS) + 2))
        for n, most in enumerate(BUCKETS):
            of_route[n] += seconds <= most
        of_route[-2] += 1
        of_route[-1] += seconds

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with what holds at this moment."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        yield "# TYPE scail_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            yield f'scail_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
        yield "# TYPE scail_request_seconds histogram"
        for route, values in sorted(self._seconds.items()):
            for most, within in zip((*map(str, BUCKETS), "+Inf"), values[:-1], strict=True):
                yield f'scail_request_seconds_bucket{{route="{route}",le="{most}"}} {within:.0f}'
            yield f'scail_request_seconds_count{{route="{route}"}} {values[-2]:.0f}'
            yield f'scail_request_seconds_sum{{route="{route}"}} {values[-1]:.6f}'
        for name in ("answered", "unreadable", "unknown"):
            yield f"# TYPE scail_images_{name}_total counter"
            yield f"scail_images_{name}_total {self.counts[name]}"
        for name, value in {**gauges, "up_seconds": time.time() - self._begun, **_memory()}.items():
            yield f"# TYPE scail_{name} gauge"
            yield f"scail_{name} {value:g}"


def _memory() -> dict[str, float]:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return {"resident_bytes": int(file.read().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))}
    except (OSError, ValueError, IndexError):
        return {}
