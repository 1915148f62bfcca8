"""How much training the store saves: six heads x two selections x three memory sizes, together and each on its own.

Counts epochs and image passes that were really trained; asserts that sharing needs at least five times fewer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scail.benchmark.runner import run_experiment
from scail.benchmark.workers import Update
from scail.config import Experiment, Select
from scail.config.recipes import quick

HEADS = ("ft", "ft_nem", "ft_l2", "ft_init", "ft_init_l2", "scail")
SELECTIONS: tuple[Select, ...] = ("random", "herding")
MEMORIES = (28, 14, 7)  # 2 %, 1 % and 0.5 % of the training images of digits


@dataclass
class Cost:
    """What was trained."""

    epochs: int = 0
    images: int = 0
    seconds: float = 0.0

    def run(self, experiments: Iterable[Experiment], store: Path, out: Path) -> None:
        """Run the experiments on this store and add what they cost."""
        started = time.perf_counter()
        for experiment in experiments:
            self.epochs += run_experiment(experiment, out, store=store, jobs=1, receive=self._count).summary[
                "trained_epochs"
            ]
        self.seconds += time.perf_counter() - started

    def _count(self, update: Update) -> None:
        if update.progress is not None:
            self.images += update.progress.images


def main() -> None:
    """Measure, print, assert."""
    base = quick("digits").but(states=10).with_epochs((4, 2))
    together, alone = Cost(), Cost()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        shared = [base.but(methods=HEADS, select=SELECTIONS, memory=memory) for memory in MEMORIES]
        together.run(shared, root / "shared", root / "run")
        cells = [(head, select, memory) for head in HEADS for select in SELECTIONS for memory in MEMORIES]
        for n, (head, select, memory) in enumerate(cells):
            one = base.but(methods=(head,), select=(select,), memory=memory)
            alone.run([one], root / f"alone-{n}", root / "run")
    for name, cost in (("one store", together), ("each on its own", alone)):
        print(f"{name:16} {cost.epochs:6} epochs {cost.images:9} image passes {cost.seconds:7.1f} s")
    ratios = alone.epochs / together.epochs, alone.images / together.images
    print(f"{'ratio':16} {ratios[0]:6.1f} {'':6} {ratios[1]:9.1f} {'':12} {alone.seconds / together.seconds:7.1f}")
    assert min(ratios) >= 5, "the store must save at least five of six trainings"


if __name__ == "__main__":
    main()
