"""What was published about CIFAR-100, held against what was measured: shown, not shown, or undecided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any, Literal

from scail.results.archive import Measurements, Pair
from scail.results.published import WITH_MEMORY, WITHOUT_MEMORY, published
from scail.results.summary import not_learned, summarise

Place = tuple[int, str]
"""Z, and B as a share of the training images, or as images of each class."""
BySeed = dict[int, Mapping[Pair, float]]
"""Seed -> (method, selection) -> top-5."""
Verdict = Literal["shown", "not shown", "undecided", "not testable", "missing"]


@dataclass(frozen=True)
class Claim:
    """At this Z and B all of `above` are better than all of `below`; with `within`: as good, up to so many points."""

    place: Place
    text: str
    above: tuple[Pair, ...]
    below: tuple[Pair, ...]
    within: float | None = None


@dataclass(frozen=True)
class Held:
    """A claim with the difference that decides it: of the two methods that speak for it the least."""

    claim: Claim
    verdict: Verdict
    difference: float | None = None
    error: float | None = None
    """Standard error of the difference, over seeds."""
    seeds: int = 0


def _claims() -> Iterable[Claim]:
    ft, scail, herd = ("ft", "random"), ("scail", "random"), ("scail", "herding")
    l2, init_l2 = ("ft_l2", "random"), ("ft_init_l2", "random")
    icarl, bic, bal, distill = ("icarl", "herding"), ("bic", "herding"), ("ft_bal", "random"), ("ft_distill", "herding")
    ten: list[Place] = [(10, "2%"), (10, "1%"), (10, "0.5%")]
    for place in (*ten, (20, "0.5%")):
        yield Claim(place, "ScaIL^herd > ScaIL", (herd,), (scail,))
        yield Claim(place, "ScaIL > FT_init^L2", (scail,), (init_l2,))
        yield Claim(place, "ScaIL > FT^L2", (scail,), (l2,))
        yield Claim(place, "FT_init^L2 > FT", (init_l2,), (ft,))
        yield Claim(place, "FT^L2 > FT", (l2,), (ft,))
    for place in ten:
        yield Claim(place, "FT^BAL < FT", (ft,), (bal,))
        rest = tuple(pair for pair in WITH_MEMORY if pair != bic)
        yield Claim(place, "BiC is the best", (bic,), rest)
    many: Place = (50, "0.5%")
    yield Claim(many, "ScaIL < FT", (ft,), (scail,))
    yield Claim(many, "iCaRL is the best", (icarl,), tuple(pair for pair in WITH_MEMORY if pair != icarl))
    yield Claim(many, "BiC is the last", tuple(pair for pair in WITH_MEMORY if pair != bic), (bic,))
    yield Claim((10, "0.5%"), "distillation helps: FT^distill > FT", (distill,), (ft,))
    yield Claim((10, "0.5%"), "distillation helps: iCaRL > FT^NEM", (icarl,), (("ft_nem", "random"),))
    nothing: Place = (10, "0%")
    order = ["lwf", "ft_init", "ft_init_l2", "scail", "ft_l2"]
    labels = ["LwF", "FT_init", "FT_init^L2", "ScaIL", "FT^L2"]
    for i in range(len(order) - 1):
        pair = ((order[i], None),), ((order[i + 1], None),)
        yield Claim(nothing, f"{labels[i]} > {labels[i + 1]}", *pair)
    yield Claim(nothing, "FT^L2 = FT^noMem, within a point", (("ft_l2", None),), (("ft", None),), within=1.0)


CLAIMS = tuple(_claims())


def place_of(kept: Measurements) -> Place:
    """Z, and B as a share.

    >>> place_of(Measurements({"state_sizes": [10] * 10, "memory": 100, "dataset": {"train_images": 20000}}, []))
    (10, '0.5%')
    """
    configuration = kept.configuration
    if "memory_per_class" in configuration:
        return len(configuration["state_sizes"]), f"{configuration['memory_per_class']}/class"
    share = 100 * configuration["memory"] / configuration["dataset"]["train_images"]
    return len(configuration["state_sizes"]), f"{share:.2g}%"


def top5_by_place(kept: Iterable[Measurements]) -> dict[Place, BySeed]:
    """What was measured, ready to be held against the claims."""
    found: dict[Place, BySeed] = {}
    for one in kept:
        records: list[Mapping[str, Any]] = summarise(one.rows)["methods"]
        of_seed = {(r["method"], r["select"]): r["top5"] for r in records}
        found.setdefault(place_of(one), {})[one.configuration["experiment"]["seed"]] = of_seed
    return found


def not_learned_by_place(kept: Iterable[Measurements]) -> dict[Place, set[Pair]]:
    """The methods whose networks did not learn with some seed: nothing can be read from them."""
    found: dict[Place, set[Pair]] = {}
    for one in kept:
        records = [record for record in summarise(one.rows)["methods"] if not_learned(record)]
        found.setdefault(place_of(one), set()).update((record["method"], record["select"]) for record in records)
    return found


def published_top5() -> dict[Place, dict[Pair, float]]:
    """The paper's own numbers for CIFAR-100: for each Z and B, (method, selection) -> top-5."""
    shares = {1000: "2%", 500: "1%", 250: "0.5%", 0: "0%"}
    some: dict[str, Pair] = {label: pair for pair, label in WITH_MEMORY.items()}
    none: dict[str, Pair] = {label: (method, None) for method, label in WITHOUT_MEMORY.items()}
    none["FT^noMem"] = ("ft", None)
    found: dict[Place, dict[Pair, float]] = {}
    for cell in published():
        if cell.dataset == "CIFAR-100" and cell.label != "Full":
            pair = (some if cell.memory else none)[cell.label]
            found.setdefault((cell.states, shares[cell.memory]), {})[pair] = cell.top5
    return found


def hold(
    claim: Claim, measured: Mapping[Place, BySeed], unlearned: Mapping[Place, Collection[Pair]] | None = None
) -> Held:
    """Whether the claim is shown: zero lies outside the 95 % interval of the mean difference over seeds.

    One that rests on a network that did not learn cannot be tested.
    """
    by_seed = measured.get(claim.place, {})
    found = [_difference(above, below, by_seed) for above in claim.above for below in claim.below]
    known = [one for one in found if one]
    if not known:
        return Held(claim, "missing")
    worst = min(known, key=lambda one: one[0])
    if not {*claim.above, *claim.below}.isdisjoint((unlearned or {}).get(claim.place, ())):
        return Held(claim, "not testable", *worst)
    verdicts = [_verdict(claim, *one) for one in known]
    if "not shown" in verdicts:
        return Held(claim, "not shown", *worst)
    if len(known) < len(found):  # those that are there can refute it, but not show it
        return Held(claim, "missing", *worst)
    return Held(claim, "undecided" if "undecided" in verdicts else "shown", *worst)


def _difference(above: Pair, below: Pair, by_seed: BySeed) -> tuple[float, float | None, int] | None:
    """Mean over the seeds that have both, its standard error, and how many these are."""
    values = [of[above] - of[below] for of in by_seed.values() if above in of and below in of]
    if not values:
        return None
    return mean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else None, len(values)


def _verdict(claim: Claim, difference: float, error: float | None, seeds: int) -> Verdict:
    if error is None:
        return "undecided"  # one seed has no spread
    above = difference if claim.within is None else claim.within - abs(difference)
    return "undecided" if abs(above) <= interval(seeds) * error else "shown" if above > 0 else "not shown"


def interval(seeds: int) -> float:
    """Half of a 95 % interval in standard errors, by Student's t: few seeds say little about their own spread.

    >>> round(interval(2), 1), round(interval(3), 1), round(interval(10), 1)
    (12.7, 4.3, 2.3)
    """
    from scipy.stats import t

    return float(t.ppf(0.975, seeds - 1))
