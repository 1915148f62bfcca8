"""The table of methods: each is a trainer, a way to choose exemplars, and a head read from the trajectory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from scail import heads
from scail.config import HeadOptions, Select
from scail.exemplars import Selection, name_of_selection
from scail.heads import LinearHead, Moments
from scail.learner import Learned
from scail.training import TRAINERS, Trainer


@dataclass(frozen=True)
class Method:
    """One named method."""

    label: str
    """Its name in the paper, and in tables."""
    summary: str
    head: Callable[..., LinearHead]
    trainer: str | type[Trainer] = "fine_tune"
    """A name of `TRAINERS`; or a trainer of one's own."""
    select: Select | Selection | None = None
    """The selection of its own paper, or one of one's own; None: as the experiment says."""
    needs_exemplars: bool = False
    """Cannot do without a memory."""
    without_memory: bool = False
    """By definition has none, whatever the memory of the others."""
    ignores_memory: bool = False
    """Reads nothing of the exemplars: it is the same with any memory."""
    left_out: Callable[[Moments, Tensor, Tensor], Tensor] | None = None
    """Scores of learned images, each by the classifier that never saw it; None: there is no closed form."""
    behind: Callable[[Moments], Tensor] | None = None
    """By how much the class of such an image scores less, as it has one image fewer; None: not known."""
    options: tuple[str, ...] = ()
    """Of the `HeadOptions`, those that the head takes."""
    carried: tuple[str, ...] = ()
    """What the head takes from its trainer."""
    in_paper: bool = True

    @property
    def kind(self) -> type[Trainer]:
        """How its network is trained."""
        return TRAINERS[self.trainer] if isinstance(self.trainer, str) else self.trainer

    @property
    def trainer_name(self) -> str:
        """The name that results and states know its trainer by; one's own has that of its class: `layer_only`."""
        if isinstance(self.trainer, str):
            return self.trainer
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.trainer.__name__).lower()

    @property
    def select_name(self) -> str | None:
        """The name of its selection; one's own has that of its function, without `_order` at its end."""
        return self.select if self.select is None or isinstance(self.select, str) else name_of_selection(self.select)

    @property
    def known_select(self) -> Select | None:
        """Its selection, where that is `random` or `herding`."""
        return self.select if isinstance(self.select, str) else None


METHODS: dict[str, Method] = {
    "ft": Method("FT", "fine tuning: trained on new images and exemplars, and used as it is", heads.ft),
    "ft_nem": Method(
        "FT^NEM", "fine tuning, then the class with the nearest mean of exemplars", heads.ft_nem, needs_exemplars=True,
    ),
    "ft_l2": Method("FT^L2", "fine tuning, then each class's weights scaled to length 1", heads.ft_l2),
    "ft_init": Method(
        "FT_init", "fine tuning, then past classes get the weights back that they had when new", heads.ft_init,
    ),
    "ft_init_l2": Method("FT_init^L2", "FT_init, then each class's weights scaled to length 1", heads.ft_init_l2),
    "scail": Method(
        "ScaIL", "FT_init, with the weights that come back scaled to match the new classes", heads.scail,
        options=("candidates", "as_published"),
    ),
    "ft_bal": Method(
        "FT^BAL", "fine tuning, then some more on as many images of each class",
        heads.ft, "balanced", "random", needs_exemplars=True,
    ),
    "icarl": Method(
        "iCaRL", "training that keeps past answers (distillation), then nearest exemplar mean",
        heads.ft_nem, "distill", "herding", True,
    ),
    "ft_distill": Method(
        "FT^distill", "iCaRL's training, with the network's own answer", heads.ft, "distill", "herding",
    ),
    "lwf": Method("LwF", "iCaRL's training without exemplars", heads.ft, "distill", without_memory=True),
    "bic": Method(
        "BiC", "distillation, then a learned correction of the newest classes", heads.bic, "bic", "herding",
        needs_exemplars=True, carried=("alpha", "beta"),
    ),
    "er": Method(
        "ER", "experience replay: half of each batch is new, half are exemplars",
        heads.ft, "replay", "random", needs_exemplars=True, in_paper=False,
    ),
    "gdumb": Method(
        "GDumb", "in each state a new network, trained on a balanced memory alone", heads.ft, "from_memory", "random",
        needs_exemplars=True, in_paper=False,
    ),
    "lwf_softmax": Method(
        "LwF^softmax", "fine tuning without exemplars that keeps past answers: LwF as others publish it",
        heads.ft, "lwf_softmax", without_memory=True, in_paper=False,
    ),
    "lucir": Method(
        "LUCIR", "distillation of features, scores by angles, exemplars kept apart from new classes",
        heads.lucir, "lucir", "herding", needs_exemplars=True, in_paper=False,
    ),
    "lucir_mc": Method(
        "LUCIR^mc", "LUCIR, then scaled by the mean scores of each state", heads.lucir_mc, "lucir", "herding",
        needs_exemplars=True, in_paper=False,
    ),
    "wa": Method(
        "WA", "distillation, then weights of new classes made as long as those of past ones",
        heads.ft, "wa", "herding", needs_exemplars=True, in_paper=False,
    ),
    "podnet": Method(
        "PODNet", "distillation in every part of the network; several weights for each class",
        heads.podnet, "podnet", "herding", needs_exemplars=True, in_paper=False,
    ),
    "threshold_moving": Method(
        "threshold moving", "distillation, then probabilities divided by each class's share of the training",
        heads.threshold_moving, "threshold_moving", "herding", carried=("mass_C",), in_paper=False,
    ),
    "der": Method(
        "DER", "each state adds a network beside the frozen ones; then a new layer on balanced images",
        heads.ft, "der", "herding", needs_exemplars=True, in_paper=False,
    ),
    "der_pruned": Method(
        "DER^pruned", "DER, whose further extractors lose the channels that they can do without",
        heads.ft, "der_pruned", "herding", needs_exemplars=True, in_paper=False,
    ),
    "packnet": Method(
        "PackNet", "one network, of which each state takes a share; made for known tasks, here all outputs compete",
        heads.own_features, "packnet", without_memory=True, in_paper=False,
    ),
    "progressive": Method(
        "progressive", "a column for each state, fed by frozen ones; made for known tasks, here all outputs compete",
        heads.own_features, "progressive", without_memory=True, in_paper=False,
    ),
    "growing_brain": Method(
        "Growing a Brain", "fine tuning of a network whose top is widened in each state",
        heads.ft, "growing_brain", "random", in_paper=False,
    ),
    "m2kd": Method(
        "M2KD", "distillation from every earlier model, also inside; they live on in the weights of one network",
        heads.ft, "m2kd", "herding", in_paper=False,
    ),
    "fearnet": Method(
        "FearNet", "frozen network; recent features as they are, older ones dreamt up again; a gate between",
        heads.ft, "fearnet", without_memory=True, in_paper=False,
    ),
    "generative_replay": Method(
        "generative replay", "trained on exemplars, and on images of past classes that generators make up",
        heads.ft, "generative_replay", "herding", in_paper=False,
    ),
    "deesil": Method(
        "DeeSIL", "frozen network, a linear SVM for each class", heads.svm, "frozen_svm", "random",
        carried=("svm_weight", "svm_bias"),
    ),
    "e2e": Method(
        "E2E", "end-to-end: FT^BAL, with distillation in both steps", heads.ft, "e2e", "herding", needs_exemplars=True,
    ),
    "ft_nomem": Method("FT^noMem", "fine tuning without exemplars", heads.ft, without_memory=True),
    "ft_wa": Method(
        "FT^WA", "fine tuning, then weights of new classes made as long as those of past ones",
        heads.ft_wa, in_paper=False,
    ),
    "prior": Method(
        "prior", "fine tuning, then scores lowered for classes that had many images in training",
        heads.prior, in_paper=False,
    ),
    "tau_norm": Method(
        "tau-norm", "fine tuning, then each class's weights divided by a power of their length",
        heads.tau_norm, in_paper=False,
    ),
    "il2m": Method(
        "IL2M", "fine tuning, then past classes lifted where a new one would win", heads.il2m, in_paper=False,
    ),
    "siw": Method("SIW", "FT_init, then each class's weights standardised", heads.siw, in_paper=False),
    "siw_mc": Method("SIW^mc", "SIW, then scaled by the mean scores of each state", heads.siw_mc, in_paper=False),
    "ft_slda": Method(
        "FT^SLDA", "fine tuning, then nearest class mean; where features vary much counts less",
        heads.ft_slda, needs_exemplars=True, in_paper=False
    ),
    "ft_ridge": Method(
        "FT^ridge", "fine tuning, then least squares on the features of exemplars",
        heads.ft_ridge, needs_exemplars=True, in_paper=False
    ),
    "duet": Method(
        "duet", "two methods decide together: the scores of SIW^mc and of FT^ridge, added up",
        heads.duet, needs_exemplars=True, in_paper=False,
    ),
    "icarl_duet": Method(
        "iCaRL^duet", "two methods decide together: the scores of FT^distill and of iCaRL, added up",
        heads.icarl_duet, "distill", "herding", needs_exemplars=True, in_paper=False,
    ),
    "ncm": Method(
        "NCM", "frozen network, nearest class mean", heads.ncm, "frozen", ignores_memory=True,
        left_out=heads.ncm_left_out, in_paper=False,
    ),
    "slda": Method(
        "SLDA", "frozen network, nearest class mean; where features vary much counts less",
        heads.slda, "frozen", ignores_memory=True,
        left_out=heads.slda_left_out, behind=heads.slda_behind, in_paper=False,
    ),
    "ridge": Method(
        "ridge", "frozen network, least squares", heads.ridge, "frozen", ignores_memory=True,
        left_out=heads.ridge_left_out, in_paper=False,
    ),
    "ranpac": Method(
        "RanPAC", "frozen network, random features, least squares", heads.ridge, "frozen_random", ignores_memory=True,
        left_out=heads.ridge_left_out, in_paper=False,
    ),
    "fetril": Method(
        "FeTrIL", "frozen network, SVMs; moved features of new images stand in for past ones",
        heads.fetril, "frozen", ignores_memory=True,
        in_paper=False,
    ),
    "full": Method("Full", "one training on all classes with all images: the reference", heads.ft, "joint"),
}  # fmt: skip


def split_name(name: str) -> tuple[str, Select | None]:
    """A method as it is asked for: its name, and the selection where one is named with it.

    >>> split_name("scail:herding"), split_name("scail")
    (('scail', 'herding'), ('scail', None))
    """
    method, colon, select = name.partition(":")
    for known in get_args(Select):
        if select == known:
            return method, known
    if colon:
        raise ValueError(
            f"method {name!r}: expected a name, or a name with {' or '.join(get_args(Select))} as ft:random"
        )
    return method, None


def choose_methods(
    names: tuple[str, ...], memory: int, methods: Mapping[str, Method] = METHODS
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods that `names` asks for ("all": every one that this memory allows), and notes on those left out."""
    names = tuple(split_name(name)[0] for name in names)
    unknown = [name for name in names if name != "all" and name not in methods]
    if unknown or not names:
        raise ValueError(f"unknown method {', '.join(unknown) or '(none)'}; known: all, {', '.join(methods)}")
    without = [name for name in methods if methods[name].needs_exemplars and memory == 0]
    named = [name for name in names if name in without]
    if named:
        raise ValueError(f"method {named[0]} needs exemplars, but memory is 0; leave it out or give it a memory")
    chosen = tuple(name for name in methods if name in names or ("all" in names and name not in without))
    notes = tuple(f"{methods[name].label} is left out: it needs exemplars, and memory is 0" for name in without)
    return chosen, notes if "all" in names else ()


def head_of(name: str, options: HeadOptions, learned: Learned, methods: Mapping[str, Method] = METHODS) -> LinearHead:
    """The head of this method on this learner, with the options that it takes."""
    method = methods[name]
    given = {option: getattr(options, option) for option in method.options}
    given |= {name: learned.carried[name] for name in method.carried}
    return method.head(learned.evidence, **given)
