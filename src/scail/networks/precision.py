"""The number format of a training: bfloat16 where the device is quick at it, else 32 bits.

Where a processor has no instructions for bfloat16, it is many times slower than 32 bits. So the device is looked at;
where that does not tell, a few steps are timed once, and the answer is remembered.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median

from scail.storage.cache import cache_dir, keep, kept

AUTO, FULL, HALF = "auto", "32-true", "bf16-mixed"
_GAIN, _TURNS = 1.2, 5  # so many times as fast it must be to pay


def used_precision(asked: str, accelerator: str = "auto") -> str:
    """What `asked` comes to on this machine: `auto` is bf16-mixed where that is quick, else 32-true.

    >>> used_precision("16-mixed")
    '16-mixed'
    """
    if asked != AUTO:
        return asked
    return HALF if quick_bf16(accelerator) else FULL


@cache
def quick_bf16(accelerator: str = "auto") -> bool:
    """Is bfloat16 quicker than 32 bits on this device?"""
    import torch

    if accelerator != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_capability()[0] >= 8
    if accelerator in ("auto", "mps") and torch.backends.mps.is_available():
        return _remembered("mps", lambda: _gain("mps"))
    flags = _cpu_flags()
    if flags is not None:
        return not flags.isdisjoint({"avx512_bf16", "amx_bf16"})
    return _remembered("cpu", lambda: _gain("cpu"))


def _cpu_flags() -> frozenset[str] | None:
    """The instructions of this processor; None where nobody tells."""
    import torch

    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    if tell := getattr(torch.cpu, "get_capabilities", None):  # of newer torches
        return frozenset(name for name, has in tell().items() if has is True)
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            return frozenset(next((line for line in info if line.startswith("flags")), "").split())
    except OSError:
        return None


def _remembered(kind: str, gain: Callable[[], float]) -> bool:
    """The answer of a timing, made once for this processor and this torch: it must not change from run to run."""
    import torch

    machine = f"{platform.node()}-{platform.machine()}-{torch.__version__}".replace("/", "-")
    path = cache_dir() / f"bf16-{kind}-{machine}.json"
    try:
        return bool(json.loads(kept(path) or b"")["gain"] >= _GAIN)
    except (ValueError, KeyError, TypeError):
        found = gain()
        keep(path, json.dumps({"gain": found}).encode())
        return found >= _GAIN


def _gain(kind: str) -> float:
    """How many times as fast a step of a small convolution is in bfloat16, the two in turns."""
    import torch

    layer = torch.nn.Conv2d(32, 32, 3, padding=1, device=kind)
    images = torch.ones(16, 32, 16, 16, device=kind)

    def step(half: bool) -> float:
        began = time.perf_counter()
        with torch.autocast(kind, torch.bfloat16, enabled=half):
            loss = layer(images).float().square().mean()
        loss.backward()
        loss.item()  # waits for the device
        return time.perf_counter() - began

    for half in (False, True):
        step(half)
    return median(step(False) / step(True) for _ in range(_TURNS))
