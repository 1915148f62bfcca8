"""Run every benchmark, one after the other, each in a process of its own: none inherits memory from the one before."""

import ast
import subprocess
import sys
from pathlib import Path

for name in (
    "startup",
    "heads",
    "training",
    "teachers",
    "evaluation",
    "decoding",
    "reuse",
    "jobs",
    "svms",
    "learner",
    "frozen_speed",
    "serving",
):
    about = ast.get_docstring(ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))) or ""
    print(f"== benchmarks.{name}: {about.splitlines()[0]}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
