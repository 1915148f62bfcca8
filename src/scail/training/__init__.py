"""Trainers: how the network of a state is trained. One SGD loop, one file per trainer."""

from scail.training.fine_tune import FineTune
from scail.training.joint import Joint
from scail.training.loop import TrainingDiverged
from scail.training.task import Interrupted, Progress, Task, Trainer

__all__ = ["FineTune", "Interrupted", "Joint", "Progress", "Task", "Trainer", "TrainingDiverged"]
