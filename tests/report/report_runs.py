"""Run directories with made-up numbers, written as a run writes them: for reports of any size without training."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from scail.config.recipes import quick
from scail.evaluation import ERROR_KINDS
from scail.results.row import Row
from scail.results.run_directory import RunDirectory, Sheet
from scail.results.summary import AVERAGING, summarise
from scail.storage.atomic import write_text

LABELS = {
    "ft": "FT",
    "ft_nem": "FT^NEM",
    "ft_l2": "FT^L2",
    "ft_init_l2": "FT_init^L2",
    "scail": "ScaIL",
    "ft_wa": "FT^WA",
}


def config_for(sizes, memory=20, seed=1, names=None, **changes):
    classes = sum(sizes)
    experiment = quick("digits").record() | {"seed": seed, "states": len(sizes), "memory": memory}
    experiment |= changes.pop("experiment", {})
    data = {"name": "made", "fingerprint": "f00d", "shape": [1, 8, 8], "train_images": 10 * classes,
            "test_images": 2 * classes, "split": "its own test images", "on_disk": False, "notes": []}  # fmt: skip
    return {
        "experiment": experiment,
        "memory": memory,
        "class_order": names or [f"class {c}" for c in range(classes)],
        "state_sizes": list(sizes),
        "dataset": data | changes.pop("dataset", {}),
        "network": {"feature_size": 64, "parameters": 1000, "flops": 10},
        "lines": [
            {
                "title": f"FT, {f'{select} exemplars' if select else 'no memory'}",
                "trainer": "fine_tune",
                "select": select,
            }
            for select in ("random", "herding", None)
        ],
        "provenance": {"scail": "0", "torch": "0", "class_order_hash": "abc", "averaging": AVERAGING},
        "command": ["scail", "run", "--seed", str(seed)],
        "started": "2020-01-01T00:00:00+0000",
        **changes,
    }


def _row(method, select, state, sizes, memory, seed, top1):
    past, new = 2 * sum(sizes[:state]), 2 * sizes[state]
    right = int(past * top1 / 100)
    confused = (past - right) // 2
    counts = (right, confused, past - right - confused, new, 0, 0)
    return Row(
        method=method, label=LABELS.get(method, method), in_paper=method != "ft_wa", select=select, memory=memory,
        exemplars=memory, trainer="fine_tune", state=state, classes=sum(sizes[: state + 1]), top1=top1,
        top5=min(100.0, top1 + 10), test_images=past + new, errors=dict(zip(ERROR_KINDS, counts, strict=True)),
        past_errors_by_origin=[confused if o == 0 else 0 for o in range(state)],
        scores={"past": 1.0 + state if state else None, "new": 5.0}, seed=seed, trained_epochs=1,
        provenance={"scail": "0", "device": "cpu"},
    )  # fmt: skip


def make_run(
    path: Path, sizes=(2, 2, 2), methods=("ft", "scail"), selects=("random", "herding"), *, memory=20, seed=1,
    shift=0.0, features=64, thumbnail: bytes | None = None, confusions=4, full=True, **changes,
) -> Path:  # fmt: skip
    """Write a finished run directory."""
    folder = RunDirectory(path)
    folder.begin(config_for(sizes, memory, seed, **changes))
    lines = [(m, s) for m in methods for s in (selects if memory else (None,))]
    matrices = {state: _matrix(2, sum(sizes[: state + 1])) for state in range(len(sizes))}
    first, *_ = sorted((path / "confusion").glob("*.npz")) or [None]
    for n, (method, select) in enumerate(lines):
        tops = [60.0 - 30 * s / len(sizes) + n % 15 + shift for s in range(len(sizes))]
        rows = [_row(method, select, s, sizes, memory, seed, top) for s, top in enumerate(tops)]
        if n == 0:
            for row in rows:
                folder.add([row], None, {method: matrices[row.state]})
            first = path / "confusion" / f"{method}-{select}.npz" if select else path / "confusion" / f"{method}.npz"
        else:
            with (path / "results.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
            if n < confusions:
                shutil.copy(first, path / "confusion" / f"{method}{f'-{select}' if select else ''}.npz")
    for select in selects if memory else (None,):
        for state in range(len(sizes)):
            _add_trajectory(folder, path, select, state, sizes, memory, features, thumbnail)
    if full:
        row = _row("full", None, 0, [sum(sizes)], 0, seed, 96.0)
        folder.add([row], None, {"full": _matrix(2, sum(sizes))})
    folder.end()
    summary = summarise(folder.rows()) | {"seconds": 12.0, "world_size": 1}
    write_text(path / "summary.json", json.dumps(summary))
    return path


def _matrix(images, classes):
    matrix = np.zeros((classes, classes), dtype=np.int32)
    matrix[np.arange(classes), np.arange(classes)] = images - 1
    matrix[np.arange(classes), (np.arange(classes) * 7) % classes] += 1
    return matrix


def _add_trajectory(folder, path, select, state, sizes, memory, features, thumbnail):
    where = {"trainer": "fine_tune", "select": select, "memory": memory, "state": state}
    curve = np.linspace(1, 0.01, features).tolist()
    ranked = {"new": curve} | ({"past": curve, "past_initial": curve} if state else {})
    with (path / "weights.jsonl").open("a") as file:
        file.write(json.dumps({**where, "ranked": ranked}) + "\n")
    folder.add_timing({**where, "trained_epochs": 1, "seconds": 2.0, "evaluation": 0.5})
    if memory:
        classes = sum(sizes[: state + 1])
        each, left = divmod(memory, classes)
        kept = [[n, c] for n, c in ((each + 1, left), (each, classes - left)) if c]
        sheet = Sheet(thumbnail, "png", sizes[state], 2, 8) if thumbnail else None
        folder.add_memory({**where, "kept": kept}, sheet)
