"""Trainers: how the network of a state is trained. One SGD loop, one file per trainer."""

from scail.training.balanced import Balanced
from scail.training.bic import Bic
from scail.training.distill import Distill
from scail.training.fine_tune import FineTune
from scail.training.frozen_svm import FrozenSvm
from scail.training.joint import Joint
from scail.training.loop import TrainingDiverged
from scail.training.task import Interrupted, Progress, Task, Trained, Trainer

__all__ = [
    "Balanced", "Bic", "Distill", "FineTune", "FrozenSvm", "Interrupted", "Joint", "Progress", "Task", "Trained",
    "Trainer", "TrainingDiverged",
]  # fmt: skip
