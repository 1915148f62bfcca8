"""One configuration, as it is asked for: data, stream, exemplars, methods, recipe and machine, each a part of its own.

On disk an experiment is one flat record. The names of all settings are unique, so the types below say to which part
each of them belongs: a setting that is added here is known everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, get_type_hints

from scail.config.recipe import Recipe
from scail.config.roles import NUMBER, asked, settled, way
from scail.config.schedule import Schedules

Select = Literal["random", "herding"]
FILES_SIZE = 64
"""Side of image files in pixels, where nothing else is asked for."""
_SCHEDULE = "_schedule"


def _as_names(settings: object, *which: str) -> None:
    """Names as they are kept: a list becomes a tuple, a text with commas is what the command line would make of it."""
    for name in which:
        value = getattr(settings, name)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, list):
            object.__setattr__(settings, name, tuple(value))


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which part of a data set, how it is cut into training and test images, and how it is read."""

    classes: int | None = None
    """How many classes; None: all (glyphs: 100)."""
    images_per_class: int | None = None
    """At most so many training images a class; None: all (glyphs: 100)."""
    image_size: int | None = None
    """Side of the images; None: as the data set has it (glyphs: 20, cifar100: 32, image files: 64)."""
    split: Literal["icarl", "official"] = "icarl"
    """ILSVRC: 50 images a class held out of the training folder, or the official validation images."""
    held_out: float = 0.2
    """Share of each class that becomes test images, where a data set has none of its own."""
    tune: bool = False
    """Test on `held_out` of the training images of each class and leave the test images alone: to choose settings."""
    split_seed: int = 0
    """Draws the images that are held out: the same for every seed of the training."""
    on_disk: bool | None = None
    """Decode images when they are needed; None: where they are larger than 64 pixels or fill more than 2 GiB."""
    broken: Literal["error", "skip"] = way("error")
    """An image that cannot be read: stop, or leave it out and count it."""
    image_column: str | None = way(None)
    """The column of images in a data set of the Hub; None: found by its kind."""
    label_column: str | None = way(None)
    """The column of labels in a data set of the Hub; None: found by its kind."""
    workers: int = way(2)
    """Threads that decode images; they change no pixel."""

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ValueError(f"held out is {self.held_out}, expected a share between 0 and 1")
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}, expected 1 or more")
        if self.image_size is not None and not 8 <= self.image_size <= 1024:
            raise ValueError(f"image size is {self.image_size}, expected 8 to 1024 pixels")


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How classes arrive."""

    states: int | tuple[int, ...] = asked(10)
    """Z, the number of states; or how many classes are new in each."""
    first_state: int | Literal["half"] | None = asked(None)
    """How many classes are new in state 0, or half of them; None: as many as in the others."""
    class_order: str | tuple[str, ...] = asked("seed")
    """seed, icarl, given, or the class names in order of arrival."""


@dataclass(frozen=True, kw_only=True)
class ExemplarSettings:
    """What is kept of past classes."""

    memory: int | str = asked("2%")
    """B, the exemplars in memory: a number over all classes, or as `scail.config.memory_size` reads it."""
    select: tuple[Select, ...] | None = asked(None)
    """How exemplars are chosen; None: both ways on FT's trajectory, and as in its own paper for every other method."""

    def __post_init__(self) -> None:
        _as_names(self, "select")


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Options of heads; each head takes those that its method names."""

    candidates: int | None = 10
    """ScaIL: how many past classes can be predicted for an image; None: all."""
    as_published: bool = False
    """ScaIL: read the factors as the authors' code does, not as the paper writes them."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it is trained, and what of that changes bits."""

    threads: int = 1
    """CPU threads of one training. They change the order of additions, so they belong to the configuration."""
    accelerator: str = way("auto")
    """auto, cpu, gpu, cuda or mps."""
    precision: str = settled("auto", usual="32-true")
    """Number format: `auto` is bf16-mixed where the device is quick at it, else 32-true."""
    devices: int = 1
    """Devices of one training on each node. The batch is shared out among all; they change bits, as threads do."""
    nodes: int = 1
    """Machines that train one network together."""
    sync_batch_norm: bool = False
    """Several devices: normalise with the statistics of the whole batch instead of each device's own images."""
    linear_scaling: bool = False
    """Several devices: a whole batch on each, and a learning rate as many times as high."""

    @property
    def ranks(self) -> int:
        """Processes that train one network together, one for each device."""
        return self.devices * self.nodes


_BY_DEFAULT = Recipe(name="quick", network="", schedules=Schedules())
"""Stands for the recipe `quick` of the experiment's data set."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One configuration. Without a recipe it has that of `quick`, for a CPU.

    >>> Experiment(dataset="digits").but(states=5, memory="10%").recipe.name
    'quick'
    """

    recipe: Recipe = _BY_DEFAULT
    """Network and schedules."""
    dataset: str = asked("glyphs")
    """A name of `scail datasets`, hf:owner/name, or a path."""
    data: DataSettings = DataSettings()
    stream: StreamSettings = StreamSettings()
    exemplars: ExemplarSettings = ExemplarSettings()
    methods: tuple[str, ...] = asked(("all",))
    """Names of `METHODS`; "all": every one that the memory allows. "scail:herding" has a selection of its own."""
    own_methods: tuple[str, ...] = asked(())
    """Python files with methods of one's own, or names by which installed packages offer some. They are carried out."""
    own_content: tuple[str, ...] = asked(())
    """Settled: what tells the content of each of them apart."""
    heads: HeadOptions = HeadOptions()
    seed: int = 1
    """Draws class order, weights, batches and random exemplars. Same seed, same numbers."""
    machine: Machine = Machine()
    keep_features: bool = way(False)
    """Keep the features of the test images in the store: other heads are then scored without the network."""

    def __post_init__(self) -> None:
        _as_names(self, "methods", "own_methods")
        if self.recipe is _BY_DEFAULT:
            from scail.config.recipes import quick  # it makes experiments

            object.__setattr__(self, "recipe", quick(self.dataset).recipe)

    def but(self, **given: Any) -> Experiment:
        """The same with other values, by name, in whatever part they stand; schedules as `first_schedule`, ...

        >>> from scail.config.recipes import quick
        >>> quick("digits").but(states=5, candidates=None).stream.states
        5
        """
        schedules = {n.removesuffix(_SCHEDULE): given.pop(n) for n in [*given] if n.endswith(_SCHEDULE)}
        if unknown := sorted(given.keys() - settings_of(Experiment).keys()):
            raise ValueError(f"no setting {unknown[0]!r}; known: {', '.join(settings_of(Experiment))}")
        changed: Experiment = _changed(self, given)
        if not schedules:
            return changed
        recipe = replace(changed.recipe, schedules=Schedules(changed.recipe.schedules, **schedules))
        return replace(changed, recipe=recipe)

    def with_epochs(self, epochs: int | tuple[int, int] | None) -> Experiment:
        """Other numbers of epochs: of every state, or of the first and of the later ones."""
        return replace(self, recipe=replace(self.recipe, schedules=self.recipe.schedules.with_epochs(epochs)))

    def record(self) -> dict[str, Any]:
        """All settings by name, as they are written to disk."""
        return dict(_values(self))

    @property
    def trained_schedules(self) -> Schedules:
        """The schedules as they are trained with, in so many states and on so many devices."""
        states = self.stream.states if isinstance(self.stream.states, int) else len(self.stream.states)
        return self.recipe.schedules.for_states(states).scaled(self.machine.ranks if self.machine.linear_scaling else 1)


@dataclass(frozen=True)
class Setting:
    """What is known of a setting from its declaration."""

    name: str
    hint: Any
    role: str
    default: Any
    """What a record means that does not name it."""


@cache
def settings_of(*parts: type) -> dict[str, Setting]:
    """The settings of these parts (of `Experiment`: all) by name, in the order of their declaration, but schedules."""
    return {setting.name: setting for part in parts for setting in _declared(part)}


def names_with(*roles: str) -> set[str]:
    """The names of all settings that have one of these roles."""
    return {name for name, setting in settings_of(Experiment).items() if setting.role in roles}


def with_defaults(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of settings as JSON has it, whole: settings that came after it was written had their defaults."""
    defaults = {name: s.default for name, s in settings_of(Experiment).items() if s.default is not MISSING}
    return {name: [*one] if isinstance(one, tuple) else one for name, one in defaults.items()} | dict(record)


def schedules_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """The schedules among the settings of a record, with the names that they have there."""
    return {name: value for name, value in record.items() if name.endswith(_SCHEDULE)}


def schedule_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names that these schedules have in a record."""
    return tuple(f"{name}{_SCHEDULE}" for name in names)


def _declared(part: type) -> Iterator[Setting]:
    hints = get_type_hints(part)
    for one in fields(part):
        hint = hints[one.name]
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _declared(hint)
        elif hint is not Schedules:
            yield Setting(_name(one), hint, one.metadata.get("role", NUMBER), one.metadata.get("usual", one.default))


def _name(one: Field[Any]) -> str:
    return str(one.metadata.get("record", one.name))


def _values(part: Any) -> Iterator[tuple[str, Any]]:
    for one in fields(part):
        value = getattr(part, one.name)
        if isinstance(value, Schedules):
            yield from ((f"{name}{_SCHEDULE}", schedule.record()) for name, schedule in value.items())
        elif is_dataclass(value):
            yield from _values(value)
        else:
            yield _name(one), value


def _changed(part: Any, given: Mapping[str, Any]) -> Any:
    found = {}
    for one in fields(part):
        value = getattr(part, one.name)
        if is_dataclass(value):
            found[one.name] = _changed(value, given)
        elif _name(one) in given:
            found[one.name] = given[_name(one)]
    return replace(part, **found)


_NOTHING = Recipe(name="", network="", schedules=Schedules())


def experiment_from(values: Mapping[str, Any]) -> Experiment:
    """The experiment of a record whose values were checked; what is missing has its default."""
    if missing := [n for n, s in settings_of(Recipe).items() if s.default is MISSING and n not in values]:
        raise KeyError(missing[0])
    return Experiment(recipe=_NOTHING).but(**values)
