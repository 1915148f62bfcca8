"""Freed memory serves the next batch: seen by the pages that the system has to provide."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import resource, torch
from scail.runtime.allocation import keep_freed_memory
torch.set_num_threads(1)
assert keep_freed_memory()
def batch():
    kept = [torch.ones(500_000) for _ in range(20)]  # 2 MB each
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
batch(); batch()
before = faults()
for _ in range(10):
    batch()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is told so; this is not Linux")
def test_memory_is_used_again():
    """400 MB are asked for and freed. Untold, the library mostly gets them again page by page: a hundred thousand."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500
