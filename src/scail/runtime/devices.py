"""Where an experiment is trained: Fabric on one device, or on several that train one network together."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from scail.config import Machine
from scail.runtime.launch import started_ranks
from scail.runtime.ranks import ALONE, RankLost, Ranks

if TYPE_CHECKING:
    import torch
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

_TIMEOUT = 300.0  # seconds; rank 0 is heard all the while, however long it works alone
_SIGNS = ("gloo", "nccl", "connection", "timed out", "socket")
"""Words by which the errors of lost connections are known: torch has no class of its own for them."""


def make_fabric(
    accelerator: str, precision: str = "32-true", devices: int = 1, nodes: int = 1, ddp: DDPStrategy | None = None
) -> Fabric:
    """Fabric on these devices: the one place that makes it. What cannot be had is an error that says so."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its precision, and that ranks connect, is no news
    try:
        return Fabric(
            accelerator=accelerator, strategy=ddp or "auto", devices=devices, num_nodes=nodes,
            precision=precision,  # type: ignore[arg-type]
            plugins=LightningEnvironment() if devices * nodes == 1 else None,  # Slurm is not asked
        )  # fmt: skip
    except (RuntimeError, ValueError, ImportError, MisconfigurationException) as error:
        raise ValueError(
            f"accelerator {accelerator}, precision {precision}: {error}; use auto or cpu, with precision 32-true"
        ) from error


@dataclass(frozen=True)
class PlainCpu:
    """The CPU where nothing is trained: Fabric alone takes two seconds to import."""

    @property
    def device(self) -> torch.device:
        """Always the CPU."""
        import torch

        return torch.device("cpu")


def check_devices(machine: Machine) -> None:
    """Devices that are not there are an error before anything is written."""
    if machine.accelerator not in ("auto", "cpu"):
        make_fabric(machine.accelerator, machine.precision, machine.devices)
    if machine.sync_batch_norm and _is_cpu(machine.accelerator):
        raise ValueError(
            "--sync-batch-norm: torch's SyncBatchNorm works on GPUs only; on CPUs every rank normalises its own images"
        )


def _is_cpu(accelerator: str) -> bool:
    import torch

    return accelerator == "cpu" or not torch.cuda.is_available()


def fabric_of(machine: Machine) -> Fabric:
    """Fabric on the machine's devices; several need ranks that are joined."""
    accelerator, precision = machine.accelerator, machine.precision
    if machine.ranks == 1:
        return make_fabric(accelerator, precision)
    fabric = make_fabric(accelerator, precision, machine.devices, machine.nodes, _between_ranks(accelerator))
    fabric.launch()  # the processes are there: this only connects them, once
    return fabric


def _between_ranks(accelerator: str) -> DDPStrategy:
    """How ranks that torchrun, or `launch`, has started exchange gradients."""
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning_fabric.strategies.ddp import DDPStrategy

    return DDPStrategy(
        cluster_environment=TorchElasticEnvironment(), timeout=timedelta(seconds=rank_timeout()),
        process_group_backend="gloo" if _is_cpu(accelerator) else "cpu:gloo,cuda:nccl",
    )  # fmt: skip


def device_of(fabric: Fabric) -> tuple[str, str]:
    """Type and kind of the device that this Fabric trains on: other kinds add up in another order."""
    import torch

    kind = fabric.device.type
    name = torch.cuda.get_device_name(fabric.device) if kind == "cuda" else torch.backends.cpu.get_cpu_capability()
    return kind, name


def rank_timeout() -> float:
    """After how many seconds of silence a rank is given up: `SCAIL_RANK_TIMEOUT`, or five minutes."""
    text = os.environ.get("SCAIL_RANK_TIMEOUT") or str(_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise ValueError(f"SCAIL_RANK_TIMEOUT is {text!r}: expected a number of seconds, 1 or more")
    return seconds


@contextlib.contextmanager
def joined(machine: Machine) -> Iterator[Ranks]:
    """This process among the ranks of an experiment, connected to the others; `ALONE` for one device."""
    started = started_ranks()
    if machine.ranks != (started[1] if started else 1):
        raise ValueError(
            f"{machine.devices} devices on {machine.nodes} nodes need {machine.ranks} processes, here are "
            f"{started[1] if started else 1}; start them with `scail run --devices N`, or with torchrun"
        )
    if started is None or machine.ranks == 1:
        yield ALONE
        return
    import torch

    # Of 1 x 1 convolutions, whose memory layout has two names. DDP then copies a gradient; the result is the same.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    try:
        fabric_of(machine)
        group = torch.distributed.new_group(backend="gloo", timeout=timedelta(seconds=rank_timeout()))
        yield Ranks(*started, group)
    except RuntimeError as error:
        if not (isinstance(error, torch.distributed.DistError) or any(s in str(error).lower() for s in _SIGNS)):
            raise
        why = str(error).splitlines()[0].split("] ", 1)[-1][:80]
        raise RankLost(
            f"another rank ended, or was not heard for {rank_timeout():.0f} s ({why}...); it may be stopped, or slow: "
            "SCAIL_RANK_TIMEOUT, in seconds, gives it longer. Nothing is lost: the same command goes on"
        ) from error
    torch.distributed.destroy_process_group()
