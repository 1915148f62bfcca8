"""The named recipes: every hyper-parameter stands here, none is hidden in code.

Light on purpose: nothing here imports torch, so that `--help` stays quick.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from scail.config.experiment import DataSettings, ExemplarSettings, Experiment, StreamSettings
from scail.config.recipe import Recipe
from scail.config.schedule import Schedule, Schedules

PRETRAINED_NETWORK = "efficientnet-lite0@224"
"""What `pretrained` means where no network is named."""
SMALL_IMAGES = ("glyphs", "digits", "mnist", "cifar100")
"""Data sets of small images: the paper's CIFAR-100 column is theirs."""


PAPER_DATA: dict[str, tuple[int, int, int]] = {
    "ilsvrc": (1000, 1_281_167 - 50_000, 50_000),  # iCaRL's split holds 50 images a class out
    "vggface2": (1000, 491_746, 50_000),
    "landmarks": (1000, 374_367, 20_000),
    "cifar100": (100, 50_000, 10_000),
}
"""The paper's data sets: classes, training images, test images."""


def settling(
    epochs: int, passes: int, teacher_gain: float = 0.01, batch_size: int = 32, generated: int = 64_000
) -> Schedules:
    """Every training at its own rate until its loss stops falling, within the same limits for all of them.

    So each fits what it is given, exemplars included, on ten images or on ten thousand. No rate is divided by the
    number of the state: a layer that is drawn anew has as much to learn in the last state as in the first. A loss with
    distillation in it does not fall to zero, so what is still to be gained is a smaller share of it: `teacher_gain`.
    `generated`: how many real images an image generator is shown.
    """
    first = Schedule(
        epochs=epochs, passes=passes, lr=0.1, batch_size=batch_size, decay="settle", patience=4, gain=0.03, window=2000
    )
    return Schedules(
        _memories(epochs=100, batch_size=64),
        first=first,
        later=first,
        balanced=replace(first, lr=0.01),
        distill=replace(first, lr=2.0, weight_decay=1e-5, gain=teacher_gain),
        bic_first=first,
        bic=replace(first, weight_decay=2e-4, gain=teacher_gain),
        bic_correction=Schedule(epochs=100, lr=0.1, batch_size=32, weight_decay=0.0, decay="cosine"),
        lucir=replace(first, gain=teacher_gain),
        wa=replace(first, weight_decay=2e-4, gain=teacher_gain),
        podnet=replace(first, gain=teacher_gain),
        podnet_classifier=replace(first, lr=0.05),
        threshold_moving=replace(first, gain=0.01),
        der=first,
        der_classifier=first,
        m2kd=replace(first, gain=teacher_gain),
        m2kd_pruned=replace(first, epochs=epochs // 4, lr=0.01, gain=teacher_gain),
        der_pruned=first,
        packnet=replace(first, lr=0.01),
        packnet_retraining=replace(first, lr=0.01),
        progressive=replace(first, lr=0.05),
        growing_brain=first,
        generative_replay=first,
        generator=_generator(generated),
    )


def _generator(passes: int) -> Schedule:
    """An image generator's: so many real images, however few there are. Adam has no momentum to set."""
    return Schedule(
        epochs=5000, passes=passes, lr=1e-3, batch_size=32, weight_decay=0.0, decay="cosine", critic_steps=2
    )


def _memories(epochs: int, batch_size: int) -> dict[str, Schedule]:
    """FearNet's long memory in state 0, and later: small layers on features, by NAdam, which has no momentum to set."""
    base = Schedule(epochs=epochs, lr=2e-3, batch_size=batch_size, decay="steps")
    return {"fearnet_base": base, "fearnet_sleep": replace(base, epochs=60)}


def quick(dataset: str = "glyphs") -> Experiment:
    """Fits a CPU: ResNet-8, short trainings."""
    padding = 2 if dataset in ("glyphs", "digits", "mnist") else 4
    schedules = settling(epochs=80, passes=160_000)
    return Experiment(
        recipe=Recipe(name="quick", network="resnet8", padding=padding, schedules=schedules), dataset=dataset
    )


def cifar100_cpu(dataset: str = "cifar100") -> Experiment:
    """The paper's CIFAR-100 as far as two cores go: a small ResNet, 200 images a class, the memory in proportion."""
    base = quick(dataset)
    schedules = settling(epochs=100, passes=1_000_000, teacher_gain=0.003)
    # With generated images every class has as many as a new one: in a tenth state ten times as many as in the first.
    schedules = schedules.but([("generative_replay", "passes", 200_000)])
    recipe = replace(base.recipe, name="cifar100-cpu", network="resnet8-half", schedules=schedules)
    return replace(base, recipe=recipe, data=DataSettings(images_per_class=200))


def split_mnist(dataset: str = "mnist") -> Experiment:
    """Split-MNIST as others publish it: five states of two digits in their order, a perceptron, no augmentation.

    Fine tuning, and so ER and LwF^softmax, and iCaRL are trained as van de Ven et al. train them: some 2000 batches of
    128 in each state by Adam, 100 exemplars of each class, iCaRL's targets at temperature 2. All others are ours.
    """
    published = Schedule(
        epochs=21, lr=0.001, batch_size=128, weight_decay=0.0, decay="steps", optimizer="adam"
    )  # no milestones: the rate stays
    first = Schedule(epochs=30, lr=0.05, batch_size=128, decay="cosine")
    schedules = Schedules(
        _memories(epochs=100, batch_size=64),
        first=published,
        later=published,
        balanced=replace(first, epochs=10, lr=0.005),
        distill=replace(published, distillation=(2.0,)),
        bic_first=first,
        bic=replace(first, epochs=10, weight_decay=2e-4),
        bic_correction=Schedule(epochs=100, lr=0.1, batch_size=32, weight_decay=0.0, decay="cosine"),
        lucir=replace(first, epochs=10),
        wa=replace(first, epochs=10, weight_decay=2e-4),
        podnet=replace(first, epochs=10),
        podnet_classifier=replace(first, epochs=10),
        threshold_moving=replace(first, epochs=10),
        der=first,
        der_classifier=replace(first, epochs=10),
        m2kd=replace(first, epochs=10),
        m2kd_pruned=replace(first, epochs=5, lr=0.005),
        der_pruned=first,
        packnet=replace(first, epochs=10, lr=0.01),
        packnet_retraining=replace(first, epochs=10, lr=0.01),
        progressive=first,
        growing_brain=replace(first, epochs=10),
        generative_replay=replace(first, epochs=10),
        generator=_generator(64_000),
    )
    recipe = Recipe(name="split-mnist", network="mlp", padding=0, schedules=schedules)
    stream = StreamSettings(states=5, class_order="given")
    return Experiment(recipe=recipe, dataset=dataset, stream=stream, exemplars=ExemplarSettings(memory="100/class"))


def pretrained(dataset: str = "cifar100") -> Experiment:
    """For methods that train, from weights that have seen the world: low rates, so that features move little.

    Small images are scaled to 64 pixels, files to 128: what a CPU can train. No rate is divided by the number of the
    state: a layer that is drawn anew has as much to learn in the last state as in the first.
    """
    first = Schedule(epochs=16, lr=0.01, batch_size=32, decay="cosine")
    schedules = Schedules(
        _memories(epochs=100, batch_size=64),
        first=first,
        later=first,
        balanced=replace(first, lr=0.001),
        distill=replace(first, lr=0.4, weight_decay=1e-5),
        bic_first=first,
        bic=replace(first, weight_decay=2e-4),
        bic_correction=Schedule(epochs=100, lr=0.1, batch_size=32, weight_decay=0.0, decay="cosine"),
        lucir=first,
        wa=replace(first, weight_decay=2e-4),
        podnet=first,
        podnet_classifier=replace(first, lr=0.005),
        threshold_moving=first,
        der=first,
        der_classifier=replace(first, lr=0.1),
        m2kd=first,
        m2kd_pruned=replace(first, epochs=8, lr=0.001),
        der_pruned=first,
        packnet=replace(first, lr=0.001),
        packnet_retraining=replace(first, lr=0.001),
        progressive=first,
        growing_brain=first,
        generative_replay=first,
        generator=_generator(64_000),
    )
    small = dataset in SMALL_IMAGES
    network, _, _ = PRETRAINED_NETWORK.partition("@")
    recipe = Recipe(
        name="pretrained", network=f"{network}@64" if small else network, weights="pretrained",
        padding=4 if small else 16, schedules=schedules,
    )  # fmt: skip
    return Experiment(recipe=recipe, dataset=dataset, data=DataSettings(image_size=None if small else 128))


def paper(dataset: str = "glyphs") -> Experiment:
    """The paper's training: ResNet-18; for small images its CIFAR-100 column with a 3x3 stem, for others 224 pixels."""
    if dataset in SMALL_IMAGES:
        return _paper_small(dataset)
    bic, correction = _bic_as_public()
    plateau = Schedule(epochs=35, lr=0.1, batch_size=256, weight_decay=1e-4, patience=5, divide_by_state=True)
    first = Schedule(epochs=100, lr=0.1, batch_size=256, weight_decay=1e-4, patience=10)
    schedules = Schedules(
        _field_large(),
        first=first,
        later=plateau,
        progressive=first,
        growing_brain=plateau,
        balanced=replace(plateau, epochs=15, lr=0.01),
        distill=Schedule(
            epochs=60, lr=2.0, batch_size=128, weight_decay=1e-5, decay="steps", divide_by=5,
            milestones=(20, 30, 40, 50),
        ),
        bic_first=bic,
        bic=bic,
        bic_correction=correction,
    )  # fmt: skip
    return _of_paper(dataset, Recipe(name="paper", network="resnet18", schedules=schedules), 224)


def paper_code(dataset: str = "cifar100") -> Experiment:
    """The paper's training as the authors' public code does it: gradients of micro-batches of 32 are summed.

    Eight of them for large images, four for small ones: as many times the rate, at as small a part of the weight decay.
    iCaRL and BiC come from codes of their own, and stay as they are.
    """
    base = paper(dataset)
    changed = [
        (name, what, value)
        for name in ("first", "later", "balanced")
        for what, value in (("micro_batch", 32), ("sum_micro_batches", True))
    ]
    recipe = replace(base.recipe, name="paper-code", schedules=base.recipe.schedules.but(changed))
    return replace(base, recipe=recipe)


def paper_224(dataset: str = "cifar100") -> Experiment:
    """The paper's training for small images as the authors' scripts have it: 7x7 stem, images scaled to 224 pixels."""
    small = _paper_small(dataset)
    return _of_paper(dataset, replace(small.recipe, name="paper-224", network="resnet18"), 224)


def paper_bic(dataset: str = "cifar100") -> Experiment:
    """The paper's training, but BiC with the numbers of its own paper."""
    if dataset in SMALL_IMAGES:
        bic = Schedule(epochs=250, lr=0.1, batch_size=128, weight_decay=2e-4, decay="steps", milestones=(100, 150, 200))
        correction = replace(bic, epochs=500, weight_decay=0.0, milestones=(200, 300, 400))
    else:
        bic = Schedule(
            epochs=100, lr=0.1, batch_size=256, weight_decay=1e-4, decay="steps", milestones=(30, 60, 80, 90)
        )
        correction = replace(bic, epochs=200, weight_decay=0.0, milestones=(60, 120, 160, 180))
    base = paper(dataset)
    schedules = Schedules(base.recipe.schedules, bic_first=bic, bic=bic, bic_correction=correction)
    return replace(base, recipe=replace(base.recipe, name="paper-bic", schedules=schedules))


def _bic_as_public() -> tuple[Schedule, Schedule]:
    """Both stages of BiC, as its authors' public code trains it: the paper ran this, on every data set."""
    steps = Schedule(
        epochs=100, lr=0.1, batch_size=256, weight_decay=1e-4, decay="steps", milestones=(30, 60, 80, 90),
        weight_decay_states=-1,
    )  # fmt: skip
    correction = replace(steps, epochs=200, weight_decay=0.0, milestones=(60, 120, 160, 180), weight_decay_states=0)
    return steps, correction


def _paper_small(dataset: str) -> Experiment:
    bic, correction = _bic_as_public()
    plateau = Schedule(epochs=60, lr=0.1, batch_size=128, patience=15, divide_by_state=True)
    first = Schedule(epochs=300, lr=0.1, batch_size=128, patience=60)
    schedules = Schedules(
        _field_small(),
        first=first,
        later=plateau,
        progressive=first,
        growing_brain=plateau,
        balanced=replace(plateau, epochs=30, lr=0.01),
        distill=Schedule(
            epochs=70, lr=2.0, batch_size=128, weight_decay=1e-5, decay="steps", divide_by=5, milestones=(49, 63)
        ),
        bic_first=bic,
        bic=bic,
        bic_correction=correction,
    )
    return _of_paper(dataset, Recipe(name="paper", network="resnet18-3x3", schedules=schedules), None)


def _field_large() -> dict[str, Schedule]:
    """What came after the paper, each as in its own paper for ImageNet."""
    lucir = Schedule(
        epochs=90, lr=0.1, batch_size=128, weight_decay=1e-4, decay="steps", milestones=(30, 60), distillation=(10.0,)
    )
    podnet = Schedule(epochs=90, lr=0.05, batch_size=64, weight_decay=1e-4, decay="cosine", distillation=(10.0, 8.0))
    der = Schedule(epochs=30, lr=0.1, batch_size=128, decay="steps", milestones=(15,))
    return {
        "lucir": lucir,
        "wa": replace(lucir, epochs=100, batch_size=256, decay="steps", milestones=(30, 60, 80, 90), distillation=()),
        "podnet": podnet,
        "podnet_classifier": replace(podnet, epochs=20, lr=0.01, decay="steps", distillation=()),
        # Not published for large images: iCaRL's, whose loss is divided by 100 outputs.
        "threshold_moving": replace(
            lucir,
            epochs=60,
            lr=0.02,
            weight_decay=1e-3,
            milestones=(20, 30, 40, 50),
            divide_by=5,
            distillation=(1.0, 2.0),
        ),
        "der": replace(der, epochs=200, batch_size=256, milestones=(60, 120, 160)),
        "der_classifier": replace(der, batch_size=256, distillation=(1.0,)),
        # Ours: its numbers were not at hand.
        "m2kd": replace(lucir, distillation=(1.0, 1.0)),
        "m2kd_pruned": replace(lucir, epochs=20, lr=0.001, milestones=(10,), distillation=()),
        **_memories(epochs=1000, batch_size=450),
        "der_pruned": replace(der, epochs=200, batch_size=256, milestones=(60, 120, 160), distillation=(1.75,)),
        **_packnet(),
        # For 64 pixels: 20,000 steps of the generator, five of the critic each, for all classes of a state.
        "generative_replay": Schedule(
            epochs=60,
            lr=0.2,
            batch_size=128,
            weight_decay=1e-5,
            decay="steps",
            divide_by=5,
            milestones=(20, 30, 40, 50),
        ),
        "generator": replace(_generator(3_200_000), epochs=1_000_000, lr=2e-4, critic_steps=5),
    }


def _field_small() -> dict[str, Schedule]:
    """What came after the paper, each as in its own paper for CIFAR-100."""
    lucir = Schedule(epochs=160, lr=0.1, batch_size=128, decay="steps", milestones=(80, 120), distillation=(5.0,))
    podnet = Schedule(epochs=160, lr=0.1, batch_size=128, decay="cosine", distillation=(1.0, 3.0))
    der = Schedule(epochs=30, lr=0.1, batch_size=128, decay="steps", milestones=(15,))
    return {
        "lucir": lucir,
        "wa": replace(lucir, epochs=250, weight_decay=2e-4, milestones=(100, 150, 200), distillation=()),
        "podnet": podnet,
        "podnet_classifier": replace(podnet, epochs=20, lr=0.05, decay="steps", distillation=()),
        # 2.0 and 5e-5 in the authors' code, whose loss is divided by 100 outputs.
        "threshold_moving": replace(
            lucir,
            epochs=70,
            lr=0.02,
            batch_size=64,
            weight_decay=5e-3,
            milestones=(45, 60, 68),
            divide_by=5,
            distillation=(1.0, 2.0),
        ),
        "der": replace(der, epochs=170, milestones=(100, 120)),
        "der_classifier": der,
        # Ours: its numbers were not at hand.
        "m2kd": replace(lucir, distillation=(1.0, 1.0)),
        "m2kd_pruned": replace(lucir, epochs=20, lr=0.01, milestones=(10,), distillation=()),
        **_memories(epochs=1000, batch_size=450),
        "der_pruned": replace(der, epochs=170, milestones=(100, 120)),
        **_packnet(),
        # 10,000 steps of the generator, five of the critic each, for each class.
        "generative_replay": Schedule(
            epochs=70, lr=0.1, batch_size=128, weight_decay=2e-3, decay="steps", divide_by=5, milestones=(49, 63)
        ),
        "generator": replace(_generator(0), epochs=6400, batch_size=64, decay="steps", critic_steps=5),
    }


def _packnet() -> dict[str, Schedule]:
    """PackNet's, for networks that were trained on ImageNet."""
    training = Schedule(epochs=20, lr=0.001, batch_size=32, decay="steps", milestones=(10,))
    return {"packnet": training, "packnet_retraining": replace(training, epochs=10, milestones=(5,))}


def _of_paper(dataset: str, recipe: Recipe, image_size: int | None) -> Experiment:
    """The paper's protocol: iCaRL's order of classes."""
    data, stream = DataSettings(image_size=image_size), StreamSettings(class_order="icarl")
    return Experiment(recipe=recipe, dataset=dataset, data=data, stream=stream)


FROZEN_METHOD = "slda"
"""What a classifier that keeps learning uses on a network that has seen the world: method `auto`."""
DEFAULT_METHOD, WITHOUT_MEMORY = "icarl_duet", "lwf"
"""What it uses where it trains a network, with a memory and without one."""


def learning(images: int, pixels: int, network: str, started: bool = False) -> Experiment:
    """For a classifier that keeps learning: it trains until the loss stops falling, and how long at most goes by how
    many images its first state has. `started`: it begins with weights that know something, and moves less.

    A later state starts from a fixed rate, not from one divided by the number of the state: nobody knows how many
    states will come, and a class that comes as the hundredth is to be learned like the second. Past rows of the linear
    layer are kept: better for all heads of fine tuning but SLDA.
    """
    small = re.fullmatch(r"resnet(8|20|32)(x\d+)?(-half)?", network) is not None
    pace = 0.1 if started else 1.0
    base = settling(epochs=150, passes=max(50_000, (16 if small else 30) * images), batch_size=32 if small else 64)
    rates = {"first": 0.1, "later": 0.05, "balanced": 0.005, "distill": 2.0, "bic_first": 0.1, "bic": 0.05}
    rates |= {"lucir": 0.1, "wa": 0.1, "podnet": 0.1, "podnet_classifier": 0.05}
    rates |= {"threshold_moving": 0.1}
    rates |= {"der": 0.1, "der_classifier": 0.1, "der_pruned": 0.1, "packnet": 0.01, "packnet_retraining": 0.01}
    rates |= {"progressive": 0.05, "growing_brain": 0.1, "m2kd": 0.1, "m2kd_pruned": 0.01}
    rates |= {"generative_replay": 0.05}
    schedules = base.but((name, "lr", rate * pace) for name, rate in rates.items())
    if not small:
        schedules = schedules.but((name, "weight_decay", 1e-4) for name in rates if name != "distill")
    padding = min(4, max(1, pixels // 8))
    return Experiment(
        recipe=Recipe(name="learning", network=network, padding=padding, keep_past_rows=True, schedules=schedules)
    )


RECIPES: dict[str, Callable[[str], Experiment]] = {
    "quick": quick,
    "cifar100-cpu": cifar100_cpu,
    "paper": paper,
    "paper-224": paper_224,
    "paper-code": paper_code,
    "paper-bic": paper_bic,
    "pretrained": pretrained,
    "split-mnist": split_mnist,
}
