"""How an image generator is trained: against a critic whose gradient is held at length 1 (WGAN-GP), class by class.

Shapes: N images of a batch, K classes of the state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor
from torch.optim import Adam

from scail.config import Schedule
from scail.networks.image_generator import NOISE, Critic, ImageGenerator, ImageShape, drawn_pair
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import Entry
from scail.training.loop import TrainingDiverged
from scail.training.rates import Rates
from scail.training.task import Interrupted, Progress, Task

PENALTY = 10.0
"""Weight of the penalty on the critic's gradient."""
BETAS = (0.5, 0.9)
"""Of Adam."""
STAGE = "generator"
"""Its checkpoint, and what its random numbers are for."""
_SAVE_EVERY = 500
"""Steps of the critic between two checkpoints."""


@dataclass
class _Pair:
    """A generator and its critic on their way."""

    generator: ImageGenerator
    critic: Critic
    step: int = 0
    """Steps that the critic has made."""
    loss: float = 0.0
    """Its loss, summed up over the steps of this epoch."""
    of_generator: Adam = field(init=False)
    of_critic: Adam = field(init=False)

    def __post_init__(self) -> None:
        self.of_generator = Adam(self.generator.parameters(), betas=BETAS, foreach=True)
        self.of_critic = Adam(self.critic.parameters(), betas=BETAS, foreach=True)

    def save(self, checkpoint: Checkpoint | None) -> None:
        """All that is needed to go on from here."""
        if checkpoint is None:
            return
        tensors = {f"{name}.{n}": t for name, of in self._networks.items() for n, t in of.state_dict().items()}
        for name, adam in self._adams.items():
            for i, values in adam.state_dict()["state"].items():
                tensors |= {f"{name}.{i}.{what}": value for what, value in values.items()}
        entry = Entry(tensors, {"step": self.step, "loss": self.loss, "losses": []})
        checkpoint.stage(STAGE).save(entry)

    def resume(self, checkpoint: Checkpoint | None) -> None:
        """Go on from the checkpoint, if there is one."""
        entry = checkpoint.stage(STAGE).load() if checkpoint else None
        if entry is None:
            return
        assert checkpoint is not None
        try:
            for name, network in self._networks.items():
                network.load_state_dict(_under(f"{name}.", entry.tensors))
            for name, adam in self._adams.items():
                state: dict[int, dict[str, Tensor]] = {}
                for path, value in _under(f"{name}.", entry.tensors).items():
                    number, _, what = path.partition(".")
                    state.setdefault(int(number), {})[what] = value
                adam.load_state_dict({"state": state, "param_groups": adam.state_dict()["param_groups"]})
            self.step, self.loss = int(entry.facts["step"]), float(entry.facts["loss"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # whole, but not of this training
            place = checkpoint.stage(STAGE).path
            raise ValueError(f"{place}: not the checkpoint of this training; remove it, and train anew") from error

    @property
    def _networks(self) -> dict[str, ImageGenerator | Critic]:
        return {"network": self.generator, "critic": self.critic}

    @property
    def _adams(self) -> dict[str, Adam]:
        return {"of_network": self.of_generator, "of_critic": self.of_critic}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def train_generator(
    images: Tensor, labels_N: Tensor, shape: ImageShape, schedule: Schedule, task: Task
) -> ImageGenerator:
    """A generator of these images, which are of the classes 0 to K - 1; it goes on from the task's checkpoint."""
    device, classes = task.fabric.device, int(labels_N.max()) + 1
    generator, critic = drawn_pair(shape, classes, generator_for(task.seed, STAGE, task.state))
    pair = _Pair(generator.to(device), critic.to(device))
    pair.resume(task.checkpoint)
    rates, each = Rates(schedule, task.state, len(images)), -(-len(images) // schedule.batch_size)
    steps = rates.most * each
    while pair.step < steps:
        epoch, batch = divmod(pair.step, each)
        for adam in (pair.of_generator, pair.of_critic):
            adam.param_groups[0]["lr"] = rates.next([0.0] * epoch)
        order = torch.randperm(len(images), generator=generator_for(task.seed, STAGE, task.state, "order", epoch))
        for rows in order.split(schedule.batch_size)[batch:]:
            real = images[rows].to(device).float() / 127.5 - 1
            draw = generator_for(task.seed, STAGE, task.state, pair.step)
            _step(pair, real, labels_N[rows].to(device), draw, schedule.critic_steps)
            if pair.step % each == 0:
                _check(pair.loss / each, pair.step, steps, schedule, task.state)
                pair.loss = 0.0
            task.report(Progress(pair.step, steps, 0, unit="generator step"))
            if task.stop_asked():
                pair.save(task.checkpoint)
                raise Interrupted
            if pair.step % _SAVE_EVERY == 0 and pair.step < steps:
                pair.save(task.checkpoint)
    return pair.generator.cpu().requires_grad_(False).eval()


def _step(pair: _Pair, real: Tensor, labels_N: Tensor, draw: Generator, critic_steps: int) -> None:
    """A step of the critic; after so many of them, a step of the generator."""
    pair.loss += _descend(pair.of_critic, critic_loss(pair.critic, real, labels_N, pair.generator, draw))
    pair.step += 1
    if pair.step % critic_steps == 0:
        pair.critic.requires_grad_(False)
        _descend(pair.of_generator, generator_loss(pair.critic, labels_N, pair.generator, draw))
        pair.critic.requires_grad_(True)


def _descend(adam: Adam, loss: Tensor) -> float:
    adam.zero_grad()
    loss.backward()
    adam.step()
    return loss.item()


def critic_loss(critic: Critic, real: Tensor, labels_N: Tensor, generator: ImageGenerator, draw: Generator) -> Tensor:
    """How real it takes generated images for, less how real it takes real ones for; and the penalty."""
    with torch.no_grad():
        made = generator(_noise(labels_N, draw), labels_N)
    of_real, of_made = critic(torch.cat([real, made]), labels_N.repeat(2)).chunk(2)
    shares = torch.rand(len(real), 1, 1, 1, generator=draw).to(real.device)
    penalty = gradient_penalty(critic, real + shares * (made - real), labels_N)
    found: Tensor = of_made.mean() - of_real.mean() + PENALTY * penalty
    return found


def gradient_penalty(critic: Critic, between: Tensor, labels_N: Tensor) -> Tensor:
    """How far the lengths of the critic's gradients at these images are from 1, squared."""
    between = between.requires_grad_(True)
    (slopes,) = torch.autograd.grad(critic(between, labels_N).sum(), between, create_graph=True)
    found: Tensor = ((slopes.flatten(1).norm(dim=1) - 1) ** 2).mean()
    return found


def generator_loss(critic: Critic, labels_N: Tensor, generator: ImageGenerator, draw: Generator) -> Tensor:
    """How far the critic does not take its images for real ones of their classes."""
    found: Tensor = -critic(generator(_noise(labels_N, draw), labels_N), labels_N).mean()
    return found


def _noise(like: Tensor, draw: Generator) -> Tensor:
    return torch.randn(len(like), NOISE, generator=draw).to(like.device)


def _check(loss: float, step: int, steps: int, schedule: Schedule, state: int) -> None:
    if not math.isfinite(loss):
        raise TrainingDiverged(
            f"state {state}, step {step} of {steps} of the image generator: the loss is {loss} at learning rate "
            f"{schedule.lr:g}; try a lower one, as {schedule.lr / 10:g} (schedule generator: lr). The network of this "
            "state is kept"
        )
