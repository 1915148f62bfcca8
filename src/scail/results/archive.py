"""Measured numbers that are kept for good: one small file of JSON lines for each configuration, made to be committed.

A file begins with the configuration. Then comes one part for each run that added to it: how it was run (schedules,
command, commit, versions, time), and its rows. What was measured once, in whatever run, is not run again; schedules
that a method's trainer does not use make no difference to it, nor do states and memory to Full.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scail.config import ASKED, WAY, Experiment, names_with, schedule_names, schedules_in, settings_of
from scail.results.kept_record import EACH, read_configuration, read_parts
from scail.results.row import Row
from scail.results.run_record import check
from scail.storage.atomic import sweep, told, write_text
from scail.storage.flushing import make_folder
from scail.storage.lock import LOCK, locked

Pair = tuple[str, str | None]
"""(method, selection)."""
Schedules = Mapping[str, Any]
"""Schedules of an experiment by name, as in its configuration."""

_USED_IN_0_1 = {
    "joint": ("first",), "frozen_svm": ("first",), "fine_tune": ("first", "later"),
    "balanced": ("first", "later", "balanced"), "e2e": ("first", "later", "balanced"), "distill": ("distill",),
    "bic": ("bic_first", "bic", "bic_correction"),
}  # fmt: skip
"""Schedules that each trainer used, for files of version 0.1: they do not say it themselves."""


@dataclass(frozen=True)
class Contribution:
    """What one run added to a configuration."""

    made: dict[str, Any]
    """Schedules, command, commit, versions, start and duration."""
    rows: list[Row]

    @property
    def own(self) -> Mapping[str, str]:
        """For each method from a file of one's own, what tells the file apart."""
        found: Mapping[str, str] = self.made.get("own", {})
        return found

    def used_by(self, trainer: str) -> tuple[str, ...]:
        """The schedules that this trainer used: no other makes a difference to its rows."""
        return schedule_names(self._used()[trainer])

    def check_used(self, path: Path, trainer: str) -> None:
        """An error if the file does not say what this trainer used."""
        known = trainer in self._used() and self.made["schedules"].keys() >= set(self.used_by(trainer))
        check(path, known, f"schedules of {trainer}")

    def _used(self) -> dict[str, Sequence[str]]:
        return {**_USED_IN_0_1, **self.made.get("used", {})}


@dataclass(frozen=True)
class Measurements:
    """All that is known of one configuration."""

    configuration: dict[str, Any]
    parts: list[Contribution]

    @property
    def rows(self) -> list[Row]:
        """The rows of all its runs."""
        return [row for part in self.parts for row in part.rows]

    def matching(self, schedules: Schedules, own: Mapping[str, str] | None = None) -> Measurements:
        """Only the rows whose trainers had these schedules, which then stand in the configuration.

        Of methods from files of one's own, those whose files had this content; None: that of the newest rows.
        """
        if own is None:
            own = {method: content for part in self.parts for method, content in part.own.items()}
        parts = []
        for part in self.parts:
            unlike = {name for name, value in part.made["schedules"].items() if schedules.get(name) != value}
            same = [row for row in part.rows if part.own.get(row.method) == own.get(row.method)]
            rows = [row for row in same if unlike.isdisjoint(part.used_by(row.trainer))]
            parts += [Contribution(part.made, rows)] if rows else []
        experiment = {**self.configuration["experiment"], **schedules}
        return Measurements({**self.configuration, "experiment": experiment}, parts)

    @property
    def pairs(self) -> set[Pair]:
        """The methods and selections that were measured in every state."""
        states = len(self.configuration["state_sizes"])
        found: dict[Pair, set[int]] = {}
        for row in self.rows:
            found.setdefault((row.method, row.select), set()).add(row.state)
        return {pair for pair, of in found.items() if len(of) == states or pair[0] == "full"}


def configuration_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run's config.json decides the numbers of each method, beside the schedules of its trainer.

    Which methods were asked for does not.
    Settings at their defaults are left out: one that is added to scail later does not change the key of what is known.
    """
    defaults = {name: setting.default for name, setting in settings_of(Experiment).items() if name != "seed"}
    apart = names_with(ASKED, WAY) | schedules_in(config["experiment"]).keys()
    experiment = {
        name: value
        for name, value in config["experiment"].items()
        if name not in apart and (name not in defaults or value != defaults[name])
    }
    data = {name: config["dataset"][name] for name in ("name", "fingerprint", "train_images", "test_images", "split")}
    rest = {name: config[name] for name in ("memory", "state_sizes", "class_order")}
    if "memory_per_class" in config:  # another B in every state but the last
        rest["memory_per_class"] = config["memory_per_class"]
    found: dict[str, Any] = json.loads(json.dumps({**rest, "dataset": data, "experiment": experiment}))
    return found


def schedules_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The schedules in a run's config.json."""
    as_kept: dict[str, Any] = json.loads(json.dumps(schedules_in(config["experiment"])))
    return as_kept


def own_of(config: Mapping[str, Any]) -> dict[str, str]:
    """For each method in a run's config.json that is from a file of one's own, what tells the file apart."""
    return dict(config.get("own", {}))


def key_of_configuration(config: Mapping[str, Any]) -> str:
    """A short name for these numbers: the same on every machine and with every version."""
    text = json.dumps(configuration_of(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Archive:
    """A folder of such files."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{folder}: is a file, expected a folder of kept numbers")
        self._look()

    def _look(self) -> None:
        """See which files there are: other grids may add some."""
        self._files = dict[str, list[Path]]()
        """By key; more than one where folders were joined."""
        self._alike = dict[str, list[Path]]()
        """Configurations that differ in Z and B only: they have the same Full."""
        for path in sorted(self.folder.glob("*.jsonl")):
            configuration = read_configuration(path)
            self._files.setdefault(configuration["key"], []).append(path)
            self._alike.setdefault(_beside_states_and_memory(configuration), []).append(path)

    def __len__(self) -> int:
        return len(self._files)

    def find(self, config: Mapping[str, Any]) -> Measurements:
        """What is known of this configuration; Full, which knows nothing of Z and B, from others too."""
        kept, schedules = self._own(config), schedules_of(config)
        return Measurements(kept.configuration, [*kept.parts, *self._lent(kept, schedules)]).matching(
            schedules, own_of(config)
        )

    def get(self, key: str, schedules: Schedules, own: Mapping[str, str]) -> Measurements | None:
        """What is known of the configuration with this key, with these schedules and files of one's own."""
        return _joined(self._files[key]).matching(schedules, own) if key in self._files else None

    def all(self) -> list[Measurements]:
        """Every configuration, by file name, with whatever schedules."""
        return [_joined(paths) for paths in sorted(self._files.values())]

    def add(self, config: Mapping[str, Any], rows: Iterable[Row], seconds: float) -> None:
        """Keep the rows of a finished run, and Full with them where another configuration has it.

        Those of methods that were measured before are left as they are. Of several that add at once, one after the
        other reads what is there, and writes it with its own.
        """
        new = Contribution(_made(config, seconds), [*rows])
        if self._grown(config, new) is None:
            return
        try:
            make_folder(self.folder)
            with locked(self.folder / LOCK):
                sweep(self.folder)
                if (grown := self._grown(config, new)) is not None:
                    self._write(config, grown)
        except OSError as error:
            raise ValueError(f"--results {self.folder}: cannot write there: {told(error)}") from error

    def _grown(self, config: Mapping[str, Any], new: Contribution) -> Measurements | None:
        """What there is of this configuration with the new rows; None: nothing is new."""
        kept = self._own(config)
        grown = _with(kept, new)
        parts = [*grown.parts, *self._lent(grown, schedules_of(config))]
        return Measurements(kept.configuration, parts) if len(parts) > len(kept.parts) else None

    def _write(self, config: Mapping[str, Any], grown: Measurements) -> None:
        """On the disk, in one file; hold the lock."""
        first, *others = self._files.get(grown.configuration["key"], ()) or (self._free_path(config),)
        write_text(first, "".join(_lines(grown)))
        for path in others:
            path.unlink()
        self._look()

    def _own(self, config: Mapping[str, Any]) -> Measurements:
        """What the files of this configuration have, if there are any."""
        self._look()
        paths = self._files.get(key := key_of_configuration(config))
        return _joined(paths) if paths else Measurements({"key": key, **configuration_of(config)}, [])

    def _lent(self, kept: Measurements, schedules: Schedules) -> list[Contribution]:
        """Full, where `kept` has none, from the first configuration that differs in Z and B only."""
        if ("full", None) in kept.matching(schedules).pairs:
            return []
        for path in self._alike.get(_beside_states_and_memory(kept.configuration), ()):
            for part in read_measurements(path).matching(schedules).parts:
                if full := [row for row in part.rows if row.method == "full"]:
                    return [Contribution(part.made, full)]
        return []

    def _free_path(self, config: Mapping[str, Any]) -> Path:
        data, states, seed = config["dataset"]["name"], len(config["state_sizes"]), config["experiment"]["seed"]
        name = f"{Path(data).stem}-z{states}-b{config['memory']}-seed{seed}"
        n = 1
        while (path := self.folder / f"{name}{f'-{n}' if n > 1 else ''}.jsonl").exists():
            n += 1
        return path


def _made(config: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """How a run was made, for those who read its rows."""
    made = {name: config.get(name) for name in ("commit", "started", "provenance")}
    made |= {"command": plain_command(config["command"]), "schedules": schedules_of(config)}
    made |= {"seconds": round(seconds, 3)} | ({"own": own} if (own := own_of(config)) else {})
    lines = config["lines"]
    if all("schedules" in line for line in lines):
        made["used"] = {line["trainer"]: list(line["schedules"]) for line in lines}
    return made


def _with(kept: Measurements, part: Contribution) -> Measurements:
    """With the rows of this part whose methods were not measured before."""
    known = kept.matching(part.made["schedules"], part.own).pairs
    new = [row for row in part.rows if (row.method, row.select) not in known]
    return Measurements(kept.configuration, [*kept.parts, *([Contribution(part.made, new)] if new else [])])


def _joined(paths: Sequence[Path]) -> Measurements:
    """All files of one configuration; more than one where folders were joined, by git perhaps."""
    found, *others = [read_measurements(path) for path in paths]
    for part in (part for other in others for part in other.parts):
        found = _with(found, part)
    return found


def plain_command(command: Sequence[str]) -> str:
    """The command as one would type it: without where the program and one's folders are.

    >>> plain_command(["/usr/bin/scail", "grid", "my.yaml", "--out", "/home/me/runs", "--seed", "1"])
    'scail grid my.yaml --seed 1'
    """
    kept, skip = ["scail"], False
    for word in command[1:]:
        if skip or word in ("--out", "--store", "--jobs"):
            skip = not skip
        else:
            kept.append(str(word))
    return shlex.join(kept)


_OF_MEMORY = ("key", "state_sizes", "memory", "memory_per_class")


def _beside_states_and_memory(configuration: Mapping[str, Any]) -> str:
    """All of a configuration that Full depends on, and settings of others."""
    rest = {name: value for name, value in configuration.items() if name not in _OF_MEMORY}
    return json.dumps(rest, sort_keys=True)


def _lines(kept: Measurements) -> Iterable[str]:
    yield json.dumps(kept.configuration, ensure_ascii=False) + "\n"
    for part in kept.parts:
        yield json.dumps({"made": part.made}, ensure_ascii=False) + "\n"
        for rows in _by_pair(part.rows).values():
            yield json.dumps(_folded(rows), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _by_pair(rows: Iterable[Row]) -> dict[Pair, list[Row]]:
    found: dict[Pair, list[Row]] = {}
    for row in rows:
        found.setdefault((row.method, row.select), []).append(row)
    return found


def _folded(rows: Sequence[Row]) -> dict[str, Any]:
    """All states of a method in one record: what they have in common once, the rest as lists. Numbers to 4 decimals."""
    records = [{n: _rounded(v) for n, v in asdict(row).items() if n not in ("provenance", "seed")} for row in rows]
    common = {n: v for n, v in records[0].items() if n != "state" and all(record[n] == v for record in records)}
    return {**common, EACH: {n: [record[n] for record in records] for n in records[0] if n not in common}}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def read_measurements(path: Path) -> Measurements:
    """One file, whole."""
    configuration, parts = read_parts(path)
    found = [Contribution({**made, "schedules": dict(made["schedules"])}, rows) for made, rows in parts]
    for part in found:
        for trainer in {row.trainer for row in part.rows}:
            part.check_used(path, trainer)
    return Measurements(configuration, found)
