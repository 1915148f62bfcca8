"""`scail store`: look into the store of trained states, check it, and make room."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from scail.cli.verify import Place, VerifyCommand, unfinished

if TYPE_CHECKING:
    from scail.storage.holdings import Holding, StoredEntry
    from scail.storage.store import Store


@dataclass(frozen=True)
class LsCommand:
    """List the states: what they are, their sizes, when they were last used, and how many build on each."""

    store: Place = None
    """Which store. Default: SCAIL_STORE, or the user's cache folder."""

    def on(self, store: Store) -> None:
        """Print the table of states."""
        from rich.console import Console
        from rich.table import Table

        entries = store.listing()
        dependents = _dependents(entries)
        titles = ("key", "what", "data", "state", "seed", "exemplars", "memory", "size", "last used", "builds on")
        table = Table(*titles, "needed by", box=None, pad_edge=False)
        for item in entries:
            made, facts = item.facts.get("made_from", {}), item.facts
            what = facts.get("kind") or made.get("trainer", {}).get("trainer", "damaged")
            own = (made.get(name) for name in ("seed", "select", "memory"))
            values = (what, facts.get("dataset"), facts.get("state"), *own)
            texts = ["" if value is None else str(value) for value in values]
            table.add_row(
                item.key[:10], *texts, human_size(item.size), human_age(item.used), item.previous[:10],
                str(len(dependents.get(item.key, []))),
            )  # fmt: skip
        Console(width=None if sys.stdout.isatty() else 160).print(table)
        held = [one for one in store.held() if one.kind != "stray"]
        print(f"{len(entries)} states, {size_of(held)} of at most {human_size(store.limit)}: {store.root}")
        for line in unfinished(store):
            print(line)
        _list_images()


@dataclass(frozen=True)
class ShowCommand:
    """Show all that is known of one state: what it was made from, what it builds on, and what builds on it."""

    key: Annotated[str, tyro.conf.Positional]
    """The key of the state, or how it begins."""
    store: Place = None
    """Which store, as for `ls`."""

    def on(self, store: Store) -> None:
        """Print it as JSON."""
        entries = store.listing()
        item = _one(entries, self.key)
        dependents = sorted(other.key for other in _dependents(entries).get(item.key, []))
        known = {
            "key": item.key, "folder": str(store.root / "states" / item.key), "bytes": item.size,
            "created": time.ctime(item.created), "last_used": time.ctime(item.used),
            "builds_on": item.previous or None, "needed_by": dependents, "facts": item.facts,
        }  # fmt: skip
        print(json.dumps(known, indent=1, ensure_ascii=False))


@dataclass(frozen=True)
class RmCommand:
    """Remove states. What builds on them stays usable: a run trains only what is missing."""

    keys: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Keys of states, or how they begin. Decoded copies of images go by their names; `images-` is all of them."""
    dependents: bool = False
    """Also remove everything that builds on them."""
    store: Place = None
    """Which store, as for `ls`."""

    def on(self, store: Store) -> None:
        """Remove them, and say how much that was."""
        if not self.keys:
            raise ValueError("give the keys of the states to remove; see `scail store ls`")
        images, keys = _remove_images(self.keys)
        if not keys:
            print(f"removed {images} decoded copies of images")
            return
        entries = store.listing()
        chosen = {item.key: item for item in (_one(entries, key) for key in keys)}
        dependents = _dependents(entries)
        waiting = list(chosen.values())
        while self.dependents and waiting:
            for item in dependents.get(waiting.pop().key, []):
                if item.key not in chosen:
                    chosen[item.key] = item
                    waiting.append(item)
        for item in chosen.values():
            store.remove(item.key)
        print(f"removed {len(chosen)} states, {human_size(sum(item.size for item in chosen.values()))}")


@dataclass(frozen=True)
class GcCommand:
    """Make room: remove what dead runs left over, then states that were not used for longest, down to a limit.

    This also happens by itself: every write keeps the finished states below SCAIL_STORE_LIMIT (50GB).
    """

    limit: Annotated[str | None, tyro.conf.arg(metavar="SIZE", help_behavior_hint="")] = None
    """How much may stay, as 20GB or 500MB. Default: SCAIL_STORE_LIMIT, or 50GB."""
    unfinished_days: Annotated[float, tyro.conf.arg(metavar="N")] = 30
    """Also remove unfinished trainings, and decoded copies of images, that were not touched for so many days."""
    store: Place = None
    """Which store, as for `ls`."""

    def on(self, store: Store) -> None:
        """Sweep, shrink, and say what is left."""
        from scail.storage.store import parse_size

        limit = store.limit if self.limit is None else parse_size(self.limit)
        gone = [*store.sweep(self.unfinished_days * 86400), *store.shrink(limit)]
        states = [one for one in gone if one.kind == "state"]
        others = len(gone) - len(states) + _old_images(self.unfinished_days)
        left = size_of([one for one in store.held() if one.kind != "stray"])
        print(f"removed {len(states)} states ({size_of(states)}) and {others} leftovers; ", end="")
        print(f"{left} left of at most {human_size(limit)}")


@dataclass(frozen=True)
class StoreCommand:
    """Look into the store of trained states, check it, and make room.

    `scail run` and `scail grid` keep every state that they finish in the store, and never train it again.

      scail store ls
      scail store gc --limit 20GB
    """

    command: tyro.conf.OmitSubcommandPrefixes[
        Annotated[LsCommand, tyro.conf.subcommand("ls")]
        | Annotated[ShowCommand, tyro.conf.subcommand("show")]
        | Annotated[RmCommand, tyro.conf.subcommand("rm")]
        | Annotated[GcCommand, tyro.conf.subcommand("gc")]
        | Annotated[VerifyCommand, tyro.conf.subcommand("verify")]
    ]

    def __call__(self) -> None:
        """Open the store, and do it there."""
        from scail.storage.entry import StoreError
        from scail.storage.remote_store import is_url, open_store
        from scail.storage.store import Store, default_store_dir

        command, given = self.command, self.command.store
        place = given or default_store_dir()
        if is_url(place) and isinstance(command, VerifyCommand) and not command.remove:
            command.on(open_store(place))
            return
        if is_url(place):
            raise StoreError(
                f"store {place}: only a directory can be looked into or changed; use the tools of the object store. "
                "What `scail store verify` finds damaged there, a run makes again"
            )
        root = Path(place)
        if (root / "store.json").is_file():
            command.on(Store(root))
        elif given is not None:
            raise StoreError(f"{root}: there is no scail store here")
        else:
            _on_images(command, root)


def _on_images(command: object, root: Path) -> None:
    """Where nothing was trained yet there may be decoded copies of images."""
    if isinstance(command, RmCommand) and not _remove_images(command.keys)[1]:
        print("removed decoded copies of images")
    elif isinstance(command, LsCommand):
        print(f"{root}: empty, nothing was trained yet")
        _list_images()
    elif isinstance(command, VerifyCommand):
        print(f"{root}: empty, nothing was trained yet")
        command.on(None)
    elif root.exists():
        raise ValueError(f"{root}: there is no scail store here")
    else:
        print(f"{root}: empty, nothing was trained yet")


def _list_images() -> None:
    """Decoded copies of a user's images, which the cache keeps."""
    from scail.storage.cache import cache_dir, kept_images

    copies = kept_images()
    for path in copies:
        status = path.stat()
        print(f"{path.stem}  {human_size(status.st_size)}, last used {human_age(status.st_mtime)}")
    size = human_size(sum(path.stat().st_size for path in copies))
    print(f"{len(copies)} decoded copies of images, {size}: {cache_dir()}")


def _remove_images(keys: Sequence[str]) -> tuple[int, list[str]]:
    """Remove the decoded copies that are named; gives how many these are, and the keys that name none."""
    from scail.storage.cache import IMAGES, kept_images

    mine = [key for key in keys if key.startswith(IMAGES)]
    gone = [path for path in kept_images() if path.stem.startswith(tuple(mine))] if mine else []
    if unknown := [key for key in mine if not any(path.stem.startswith(key) for path in gone)]:
        raise ValueError(f"{unknown[0]}: no decoded copies of images are called so; see `scail store ls`")
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone), [key for key in keys if key not in mine]


def _old_images(days: float) -> int:
    """Remove decoded copies that were not used for so many days, and halves of them; gives how many these were."""
    from scail.storage.cache import half_written, kept_images

    old = [path for path in kept_images() if time.time() - path.stat().st_mtime > days * 86400]
    old += half_written()
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _one(entries: list[StoredEntry], beginning: str) -> StoredEntry:
    found = [item for item in entries if item.key.startswith(beginning)]
    if len(found) != 1 or not beginning:
        many = "no state" if not found else f"{len(found)} states"
        raise ValueError(f"key {beginning!r}: {many} in this store begin like that; see `scail store ls`")
    return found[0]


def _dependents(entries: list[StoredEntry]) -> dict[str, list[StoredEntry]]:
    """For each key, the entries that build on it directly."""
    found: dict[str, list[StoredEntry]] = {}
    for item in entries:
        found.setdefault(item.previous, []).append(item)
    return found


def human_size(size: float) -> str:
    """Bytes as people write them.

    >>> human_size(1536), human_size(50e9)
    ('1.5 kB', '50.0 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def size_of(held: Sequence[Holding]) -> str:
    """Bytes of all of them together, as people write them."""
    return human_size(sum(one.size for one in held))


def human_age(moment: float) -> str:
    """How long ago that was."""
    seconds = max(0.0, time.time() - moment)
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
