"""One more state of a classifier: new classes, and perhaps more images of known ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scail.classifier.inputs import grouped
from scail.classifier.left_out import calibrated
from scail.classifier.model import MOST_HISTORY, Kept, Model, Seen
from scail.classifier.settings import Settings
from scail.config import schedules_in
from scail.datasets.dataset import fingerprint_of
from scail.datasets.images.batches import Augmentation
from scail.evaluation import top_k_accuracy
from scail.exemplars import SELECTION_VERSION, Memory
from scail.learner import Learned, Rows, remember, train_state
from scail.networks.network import Network, network_version
from scail.networks.precision import FULL
from scail.runtime.seeds import generator_for
from scail.storage.checkpoint import Checkpoint
from scail.storage.entry import key_of
from scail.training import Progress, Task, Trained, Trainer
from scail.training.generators import recognised_share

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Lesson:
    """What is to be learned: images of new classes and of known ones, training and held-out images apart."""

    classes: tuple[str, ...]
    """All classes after it, the new ones last."""
    known: int
    """How many were known before."""
    new: Tensor
    """Images of new classes to train on, class by class."""
    new_labels: Tensor
    more: Tensor
    """Images of known classes to train on."""
    more_labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor

    @property
    def new_classes(self) -> tuple[str, ...]:
        """Classes that come for the first time."""
        return self.classes[self.known :]

    @property
    def seen_again(self) -> tuple[str, ...]:
        """Known classes of which there are more images."""
        return tuple(self.classes[c] for c in torch.unique(self.more_labels).tolist())


@dataclass(frozen=True)
class Circumstances:
    """Where and under whose eyes it is learned."""

    fabric: Fabric
    report: Callable[[Progress], None] = lambda progress: None
    checkpoint: Callable[[str], Checkpoint] | None = None
    """Where an unfinished training with this key is kept."""
    start: Network | None = None
    """A network to begin with, in place of a fresh one."""
    say: Callable[[str], None] = lambda text: None
    precision: str = FULL
    key: str = ""
    """What was given and asked for, as `key_of_lesson` has it."""


def key_of_lesson(settings: Settings, images: Tensor, names: Sequence[str]) -> str:
    """The same images and names, to be learned in the same way, have the same key."""
    experiment = settings.experiment
    asked = {"method": settings.method, "memory": settings.memory, "network": experiment.recipe.network}
    # 3 epochs are as many as 3.0: what was read from a folder may have been written otherwise.
    schedules = json.loads(json.dumps(schedules_in(experiment.record())), parse_int=float)
    return key_of({**asked, "schedules": schedules, "data": fingerprint_of(images, torch.empty(0)), "names": [*names]})


def lesson_of(model: Model | None, settings: Settings, images: Tensor, names: Sequence[str]) -> Lesson:
    """Which images are new, which are held out."""
    known = model.classes if model else ()
    rows = grouped(names)
    classes = (*known, *(name for name in rows if name not in known))
    number = {name: c for c, name in enumerate(classes)}
    call = model.calls if model else 0
    train, held = dict[int, list[int]](), dict[int, list[int]]()
    for name, of_class in sorted(rows.items(), key=lambda item: number[item[0]]):
        away = _held_out(of_class, name, call, settings)
        held[number[name]] = away
        train[number[name]] = sorted({*of_class} - {*away})

    def part(chosen: dict[int, list[int]]) -> tuple[Tensor, Tensor]:
        at = torch.tensor([row for of_class in chosen.values() for row in of_class], dtype=torch.int64)
        labels = torch.tensor([c for c, of_class in chosen.items() for _ in of_class], dtype=torch.int64)
        return images[at], labels

    new = part({c: of_class for c, of_class in train.items() if c >= len(known)})
    more = part({c: of_class for c, of_class in train.items() if c < len(known)})
    return Lesson(classes, len(known), *new, *more, *part(held))


def _held_out(rows: list[int], name: str, call: int, settings: Settings) -> list[int]:
    """Rows of a class that are held out: a share, at least one, but never the last image."""
    if settings.held_out_places == 0 or len(rows) < 2:
        return []
    count = min(len(rows) - 1, max(1, round(settings.validation * len(rows))))
    order = torch.randperm(len(rows), generator=generator_for(settings.experiment.seed, "validation", name, call))
    return [rows[i] for i in sorted(order[:count].tolist())]


def check_lesson(lesson: Lesson, settings: Settings) -> None:
    """An error for what this method cannot learn, before anything is trained."""
    trainer, new = settings.trainer, len(lesson.new_classes)
    if trainer.apart:
        at_hand = new
    else:
        at_hand = len(lesson.classes) if settings.exemplar_places else new + len(lesson.seen_again)
    if new and at_hand < trainer.least_classes:
        which = "new class" if trainer.apart else "class"
        raise ValueError(f"method {settings.method}: only one {which} is at hand, and it needs two; learn two")


def next_state(model: Model | None, settings: Settings, lesson: Lesson, where: Circumstances) -> Model:
    """The classifier after this lesson. The benchmark's states are learned by the same functions."""
    check_lesson(lesson, settings)
    started, new = time.time(), len(lesson.new)
    trainer = settings.training()
    task = _task(model, settings, lesson, where)
    if where.checkpoint is not None and trainer.epochs(task.state, len(task.images)):
        task = _with_checkpoint(
            task, where.checkpoint(_key(model, settings, trainer, task, where.precision)), where.say
        )
    rows = Rows(*torch.arange(len(task.images)).split([new, len(task.images) - new]))
    losses = list[float]()
    trained = train_state(trainer, replace(task, report=_noting(losses, task.report)), rows)
    carried = trainer.complete(trained, task)
    if (share := recognised_share(carried)) is not None:
        where.say(f"of generated images {share:.0f} % are recognised")
    before, aside = _moved(model.learned, by=new) if model else None, trainer.set_aside(task)
    learned = remember(trained, before, settings.select or "random", task.budget, task.seed, carried, aside)
    assert isinstance(task.images, Tensor)
    exemplars = Kept.chosen(task.images, learned.memory)
    learned = replace(learned, memory=exemplars.memory)
    after = Model(settings, lesson.classes, learned, exemplars, _nothing(settings, 0, len(lesson.classes)))
    if settings.trainer.frozen and settings.keep == "features":
        after = replace(after, seen=(*(model.seen if model else ()), _seen(trained, task)))
    after = calibrated(_measured(model, after, lesson))
    record: dict[str, Any] = {"when": _now(), "new": list(lesson.new_classes), "more": list(lesson.seen_again)}
    record |= {"images": new + len(lesson.more), "epochs": len(losses)}
    record |= {"precision": where.precision} if losses else {}
    record |= {"seconds": round(time.time() - started, 1), "method": settings.method, "accuracy": after.accuracy}
    history = (*(model.history if model else ()), record)[-MOST_HISTORY:]
    return replace(after, calls=task.state + 1, history=history, lesson=where.key)


def _task(model: Model | None, settings: Settings, lesson: Lesson, where: Circumstances) -> Task:
    """Images of new classes, then the exemplars, then further images of known classes."""
    kept = model.exemplars if model else _nothing(settings, settings.exemplar_places)
    parts = [part for part in (lesson.new, kept.images, lesson.more) if len(part)]
    return Task(
        state=model.calls if model else 0,
        images=parts[0] if len(parts) == 1 else torch.cat(parts or [lesson.new]),  # no copy without need
        labels=torch.cat([lesson.new_labels, kept.memory.labels, lesson.more_labels]),
        num_classes=len(lesson.classes),
        previous=model.learned.network if model else None,
        augmentation=Augmentation(settings.experiment.recipe.padding, settings.mirror),
        seed=settings.experiment.seed,
        fabric=where.fabric,
        report=where.report,
        past_classes=lesson.known,
        budget=settings.exemplar_places,
        carried=model.learned.carried if model else {},
        exemplars=len(kept.images),
        exemplar_features_ED=_known_features(model, settings),
        start=where.start,
        int8=settings.int8,
    )


def _known_features(model: Model | None, settings: Settings) -> Tensor | None:
    """Of the exemplars, where the network does not move: no past image passes it again."""
    if not settings.trainer.frozen:
        return None
    if model is None:
        return torch.empty(0, 0) if settings.pretrained else None  # else it has yet to be trained
    return model.learned.evidence.exemplar_features_ED


def _with_checkpoint(task: Task, checkpoint: Checkpoint, say: Callable[[str], None]) -> Task:
    """The task with a place for its unfinished work; says so if it goes on."""
    if begun := sum(len(entry.facts.get("losses", ())) for entry in checkpoint.stages() if entry is not None):
        say(f"a training of the same images was interrupted: it goes on in epoch {begun + 1}")
    return replace(task, checkpoint=checkpoint)


def _noting(losses: list[float], report: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Reports as before; the loss of each epoch that ends goes into `losses`, too."""

    def noting(progress: Progress) -> None:
        if progress.loss is not None:
            losses.append(progress.loss)
        report(progress)

    return noting


def _seen(trained: Trained, task: Task) -> Seen:
    """What this lesson showed for the first time, as numbers."""
    rows = torch.arange(len(task.labels))
    new = len(trained.new_labels)
    fresh = torch.cat([rows[:new], rows[new + task.exemplars :]])
    assert isinstance(task.images, Tensor)
    return Seen.of(trained.features_ND[fresh], task.labels[fresh], [task.images[row] for row in fresh.tolist()])


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _nothing(settings: Settings, places: int, classes: int = 0) -> Kept:
    """No images of so many classes."""
    shape, none = settings.shape, torch.empty(0, dtype=torch.int64)
    pixels = torch.empty(0, shape.channels, shape.height, shape.width, dtype=torch.uint8)
    return Kept(pixels, Memory(places, (none,) * classes))


def _moved(before: Learned, by: int) -> Learned:
    """The learner before, its exemplars counted as rows of the task's images: after the new ones."""
    memory = Memory(before.memory.budget, tuple(rows + by for rows in before.memory.exemplars))
    return replace(before, memory=memory)


def _measured(model: Model | None, after: Model, lesson: Lesson) -> Model:
    """With the accuracy on held-out images, what became of the past classes, and the held-out images that stay."""
    settings = after.settings
    if settings.held_out_places == 0:
        return after
    before = model.held_out if model else _nothing(settings, settings.held_out_places)
    images = torch.cat([before.images, lesson.held_out])
    labels = torch.cat([before.memory.labels, lesson.held_out_labels])
    memory = before.memory
    orders = dict[int, Tensor]()
    for c in torch.unique(lesson.held_out_labels).tolist():
        draw = generator_for(settings.experiment.seed, "held out", lesson.classes[c], len(labels))
        at = (labels == c).nonzero().flatten()
        orders[c] = at[torch.randperm(len(at), generator=draw)]
    empty = torch.empty(0, dtype=torch.int64)
    added = [orders.get(c, empty) for c in range(len(memory.exemplars), len(lesson.classes))]
    memory = memory.reorder({c: rows for c, rows in orders.items() if c < len(memory.exemplars)})
    memory = memory.add(added)
    after = replace(after, held_out=Kept.chosen(images, memory))
    if len(images) == 0:
        return after
    scores = after.scores(images)
    accuracy = {"top1": top_k_accuracy(scores, labels, 1), "top5": top_k_accuracy(scores, labels, 5)}
    return replace(after, accuracy=accuracy | {"images": len(labels)}, difference=_difference(model, before, scores))


def _difference(model: Model | None, held_out: Kept, scores: Tensor) -> dict[str, Any] | None:
    """Per past class: held-out images, how many were right before this state, and how many are after it."""
    if model is None or len(held_out.images) == 0:
        return None
    labels = held_out.memory.labels
    right = [
        torch.bincount(labels[found.argmax(1) == labels], minlength=len(model.classes)).tolist()
        for found in (model.scores(held_out.images), scores[: len(labels)])
    ]
    images = torch.bincount(labels, minlength=len(model.classes)).tolist()
    return {name: [images[c], right[0][c], right[1][c]] for c, name in enumerate(model.classes) if images[c]}


def _key(model: Model | None, settings: Settings, trainer: Trainer, task: Task, precision: str) -> str:
    """Everything that decides the training: only the very same one goes on from a checkpoint."""
    network = task.previous or task.start
    state = {} if network is None else {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    weights = [fingerprint_of(t.contiguous(), torch.empty(0)) for _, t in sorted(state.items())]
    carried = [fingerprint_of(t.contiguous(), torch.empty(0)) for _, t in sorted(task.carried.items())]
    return key_of(
        {
            "state": task.state,
            "before": [weights, carried],
            "classes": list(model.classes) if model else [],
            "data": fingerprint_of(task.images, task.labels),
            "trainer": trainer.settings(task.state),
            "augmentation": [settings.experiment.recipe.padding, settings.mirror],
            "seed": task.seed,
            "budget": task.budget,
            "past": task.past_classes,
            "versions": [torch.__version__, network_version(settings.experiment.recipe.network), SELECTION_VERSION],
            "threads": torch.get_num_threads(),
            "device": str(task.fabric.device),
            "precision": precision,
        }
    )
