"""What scail gives, as digests: recorded before a refactoring and after it, the two must be equal to the bit.

    python -m benchmarks.bits before.json      (on the commit before)
    python -m benchmarks.bits after.json       (on the commit after)
    diff before.json after.json

Everything goes through the command line, so that the same file serves whatever the package looks like inside. Runs of
every method on digits and glyphs, with one rank and with two; and models that learn, measure and forget.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = "--dataset digits --states 5 --memory 40 --epochs 2,1 --seed 3"
GLYPHS = "--dataset glyphs --classes 12 --images-per-class 12 --states 4 --memory 24 --epochs 1 --batch-size 16"
RUNS = {
    "digits": DIGITS,
    "glyphs": GLYPHS,
    "digits, two ranks": f"{DIGITS} --devices 2",
    "glyphs, two ranks": f"{GLYPHS} --devices 2",
    "digits, no memory": f"{DIGITS} --memory 0 --order given",
    "digits, options": f"{DIGITS} --first-state half --select herding --keep-past-rows --candidates 2 --as-published "
    "--keep-features --methods ft,scail,siw_mc,full --schedule later.lr=0.05,later.weight-decay=0",
}
MODELS = {
    "auto": "--memory 60",
    "scail:random": "--memory 30 --validation 0.1",
    "bic": "--memory 60",
    "deesil": "--memory 40",
    "e2e": "--memory 40",
    "ft_bal": "--memory 40",
    "lwf": "--memory 0",
}
LESSONS = ("0,1,2", "3,4", "0,5", "6")
_LEFT_OUT = {"when", "seconds", "changed", "sha256", "created", "evaluation", "started", "command", "commit", "scail"}
"""What no two runs have in common: times, and where and by whom it was run."""
_NEWER = {"schedules"}
"""What later versions say in addition: the names of the schedules that a trajectory used."""
_OF_A_MODEL = {"network", "padding", "keep_past_rows", "candidates", "as_published", "seed", "precision", "recipe"}
"""What a model needs of an experiment, beside its schedules; version 0.1 wrote more of it down."""


def main() -> None:
    """Run everything, and write the digests."""
    target = Path(sys.argv[1]).resolve()
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ |= {"SCAIL_STORE": str(Path(place) / "store"), "OMP_NUM_THREADS": "1"}
        for name, options in RUNS.items():
            scail("run", *options.split(), "--out", "run")
            found |= {f"run {name}: {what}": digest for what, digest in digests_of_run(Path("run")).items()}
        found |= {f"store: {key}": digest for key, digest in digests_of_store(Path("store")).items()}
        for method, options in MODELS.items():
            folder = Path(f"model-{method.replace(':', '-')}")
            for n, classes in enumerate(LESSONS):
                first = ["--method", method, *options.split(), "--epochs", "2"] if n == 0 else []
                scail("learn", str(folder), "digits", "--classes", classes, *first)
                found[f"model {method}: lesson {n}"] = digest_of_model(folder)
            found[f"model {method}: measured"] = scail(
                "evaluate", str(folder), "digits", "--classes", "0,1,4", "--json"
            )
            scail("forget", str(folder), "1")
            found[f"model {method}: forgotten"] = digest_of_model(folder)
    target.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} digests: {target}")


def scail(*arguments: str) -> str:
    """Run the command line, and give what it printed."""
    print("scail", *arguments, flush=True)
    done = subprocess.run([sys.executable, "-m", "scail", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def digests_of_run(run: Path) -> dict[str, str]:
    """A digest for each file of results."""
    found = {}
    for path in sorted(run.glob("*.jsonl")):
        found[path.name] = digest(sorted(json.dumps(plain(json.loads(line))) for line in path.open(encoding="utf-8")))
    for name in ("config.json", "summary.json"):
        found[name] = digest(plain(json.loads((run / name).read_text(encoding="utf-8"))))
    matrices = dict[str, Any]()
    for path in sorted((run / "confusion").iterdir()):
        with np.load(path) as arrays:
            matrices |= {f"{path.name} {name}": arrays[name].tolist() for name in sorted(arrays)}
    found["confusion"] = digest(matrices)
    found["exemplars"] = digest(files_in(run / "exemplars"))
    return found


def digests_of_store(store: Path) -> dict[str, str]:
    """A digest of each state's tensors and facts, by its key."""
    return {
        folder.name: digest(
            [
                hashlib.sha256((folder / "tensors.safetensors").read_bytes()).hexdigest(),
                plain(json.loads((folder / "entry.json").read_text(encoding="utf-8"))["facts"]),
            ]
        )
        for folder in sorted((store / "states").iterdir())
    }


def digest_of_model(folder: Path) -> str:
    """Everything in the folder but times; its files are named by their content."""
    manifest = plain(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    experiment = manifest["settings"]["experiment"]
    needed = {name: experiment[name] for name in experiment if name in _OF_A_MODEL or name.endswith("_schedule")}
    manifest["settings"]["experiment"] = needed
    return digest([manifest, {k: v for k, v in files_in(folder).items() if k not in ("manifest.json", "learn.lock")}])


def files_in(place: Path) -> dict[str, str]:
    """Each file below a folder with its digest."""
    paths = (path for path in sorted(place.rglob("*")) if path.is_file())
    return {str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def plain(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in _LEFT_OUT | _NEWER}
    return [plain(one) for one in value] if isinstance(value, list) else value


def digest(value: Any) -> str:
    """A short digest of anything that JSON can carry."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
