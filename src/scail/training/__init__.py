"""Trainers: how the network of a state is trained. One loop, one file per trainer, and their table."""

from scail.training.balanced import Balanced
from scail.training.bic import Bic
from scail.training.der import Der
from scail.training.der_pruned import DerPruned
from scail.training.distill import Distill
from scail.training.end_to_end import EndToEnd
from scail.training.fearnet import Fearnet
from scail.training.fine_tune import FineTune
from scail.training.from_memory import FromMemory
from scail.training.frozen import Frozen
from scail.training.frozen_random import FrozenRandom
from scail.training.frozen_svm import FrozenSvm
from scail.training.generative_replay import GenerativeReplay
from scail.training.growing_brain import GrowingBrain
from scail.training.joint import Joint
from scail.training.loop import TrainingDiverged
from scail.training.lucir import Lucir
from scail.training.lwf_softmax import LwfSoftmax
from scail.training.m2kd import M2kd
from scail.training.packnet import Packnet
from scail.training.podnet import Podnet
from scail.training.progressive import Progressive
from scail.training.replay import Replay
from scail.training.task import Interrupted, Progress, Task, Trained
from scail.training.threshold_moving import ThresholdMoving
from scail.training.trainer import Trainer, trainer_of
from scail.training.wa import Wa

TRAINERS: dict[str, type[Trainer]] = {
    "fine_tune": FineTune,
    "balanced": Balanced,
    "e2e": EndToEnd,
    "distill": Distill,
    "bic": Bic,
    "replay": Replay,
    "from_memory": FromMemory,
    "frozen_svm": FrozenSvm,
    "frozen": Frozen,
    "frozen_random": FrozenRandom,
    "joint": Joint,
    "lucir": Lucir,
    "wa": Wa,
    "podnet": Podnet,
    "threshold_moving": ThresholdMoving,
    "der": Der,
    "m2kd": M2kd,
    "fearnet": Fearnet,
    "der_pruned": DerPruned,
    "packnet": Packnet,
    "progressive": Progressive,
    "growing_brain": GrowingBrain,
    "lwf_softmax": LwfSoftmax,
    "generative_replay": GenerativeReplay,
}
"""Every trainer by the name that methods, results and states on disk know it by."""

__all__ = [
    "TRAINERS", "Balanced", "Bic", "Der", "DerPruned", "Distill", "EndToEnd", "Fearnet", "FineTune", "FromMemory",
    "Frozen", "FrozenRandom", "FrozenSvm", "GenerativeReplay", "GrowingBrain", "Interrupted", "Joint", "Lucir",
    "LwfSoftmax", "M2kd",
    "Packnet", "Podnet", "Progress", "Progressive", "Replay", "Task", "ThresholdMoving", "Trained", "Trainer",
    "TrainingDiverged", "Wa", "trainer_of",
]  # fmt: skip
