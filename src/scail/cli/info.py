"""`scail info`: look at the classifier in a folder. Unless asked, nothing but its manifest is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scail.cli.learn import ModelFolder
from scail.cli.shown import shown, shown_json

if TYPE_CHECKING:
    from scail.classifier.folder import Look
    from scail.classifier.inputs import Shape

_MOST_CLASSES = 10  # that changed in the last learn; all of them are in the JSON


@dataclass(frozen=True)
class InfoCommand:
    """Show a model: its classes by state, its memory, its size and its history.

    It also shows what the last learn did to the classes that were known before, on images that were held out. These
    are there if the model was begun with `scail learn --validation 0.1`.

      scail info pets
      scail info pets --json
      scail info pets --verify
    """

    model: ModelFolder
    """The folder of the model."""
    json: bool = False
    """Print JSON: top1 and top5 on held-out images, classes, memory, exemplars, last_learn, and more."""
    verify: bool = False
    """Instead, read every file of the folder again, and work out every checksum anew.
    What is damaged is named, and the exit code is then 1."""

    def __call__(self) -> None:
        """Show what the manifest says, or whether all files are as they were written."""
        from scail.classifier.folder import look
        from scail.cli.predict import tidied
        from scail.cli.verify import verify_model

        if self.verify:
            verify_model(self.model, self.json)
            return
        seen = look(self.model)
        tidied(self.model)
        known = _known(seen) | {"inbox": _waiting(self.model)}
        if self.json:
            print(shown_json(known, indent=1))
            return
        print(f"{self.model}: {known['classes']} classes in {len(known['states'])} state(s), ", end="")
        print(f"{known['calls']} call(s) of learn")
        for line in (*_summary(seen, known), *_inbox(known), *_last_learn(seen, known["last_learn"]), *_history(known)):
            print(shown(line))


def _known(seen: Look) -> dict[str, Any]:
    from scail.classifier.inputs import labels_of

    manifest = seen.manifest
    states = dict[str, list[str | int]]()
    for one in manifest.classes:
        states.setdefault(str(one.first_state), []).extend(labels_of([one.name]))
    settings, accuracy = manifest.settings, manifest.accuracy or {}
    named = {one.name: one.name for one in manifest.classes}  # in the history names are texts
    history = [
        {key: labels_of(named.get(name, name) for name in value) if key in ("new", "more") else value
         for key, value in record.items()}
        for record in manifest.history
    ]  # fmt: skip
    return {
        "top1": accuracy.get("top1"), "top5": accuracy.get("top5"), "classes": len(manifest.classes),
        "memory": settings.memory, "exemplars": sum(len(one.exemplars) for one in manifest.classes),
        "held_out": sum(len(one.held_out) for one in manifest.classes), "method": settings.method,
        "select": settings.select, "network": settings.experiment.recipe.network, "int8": settings.int8,
        "states": states,
        "shape": [settings.shape.channels, settings.shape.height, settings.shape.width], "bytes": seen.size,
        "calls": manifest.calls, "changed": manifest.changed, "scail": manifest.scail, "history": history,
        "last_learn": _difference(manifest.difference),
        "exemplars_per_class": {one.name: len(one.exemplars) for one in manifest.classes},
    }  # fmt: skip


def _difference(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """Held-out images of past classes, and how many were right before and after the last learn: of all, and of each."""
    if not found:
        return None
    from scail.evaluation import change_interval

    images, before, after = (sum(counts[i] for counts in found.values()) for i in range(3))
    classes: dict[str, dict[str, Any]] = {
        name: dict(zip(("images", "before", "after"), counts, strict=True)) for name, counts in found.items()
    }
    for of in classes.values():
        of["interval"] = change_interval(of["before"], of["after"], of["images"])
    share = 100 / images
    told = {"images": images, "top1_before": share * before, "top1_after": share * after}
    return {**told, "interval": change_interval(before, after, images), "classes": classes}


def _summary(seen: Look, known: dict[str, Any]) -> Iterator[str]:
    from scail.cli.store import human_size

    settings = seen.manifest.settings
    chosen = f"{settings.select} exemplars" if settings.select else "no exemplars"
    bits = ", in 8 bits (int8)" if settings.int8 else ""
    yield f"method {settings.method}, {chosen}; network {known['network']}{bits}, images {_size(settings.shape)}"
    kept = f"{known['exemplars']} exemplars and {known['held_out']} held-out images"
    yield f"memory: {kept}, at most {settings.memory} together; {human_size(seen.size)} on disk"
    if known["top1"] is not None:
        yield f"held-out images after the last learn: top-1 {known['top1']:.1f} %, top-5 {known['top5']:.1f} %"


def _waiting(model: Path) -> int:
    """Pictures that `scail serve` keeps beside the model until somebody says what they are."""
    from scail.server.desk import Desk, desk_of
    from scail.server.inbox import Inbox

    return Inbox(Desk(desk_of(model)).inbox, 0, 1.0).count()


def _inbox(known: dict[str, Any]) -> Iterator[str]:
    if known["inbox"]:
        yield f"inbox: {known['inbox']} pictures that came in unknown or doubtful; scail serve shows them"


def _size(shape: Shape) -> str:
    return f"{shape.height} x {shape.width}, {'colour' if shape.channels == 3 else 'grey'}"


def _last_learn(seen: Look, found: dict[str, Any] | None) -> Iterator[str]:
    """What it did to past classes: one line on all, then those that changed, the worst first."""
    settings = seen.manifest.settings
    if settings.held_out_places == 0 and settings.trainer.frozen:
        yield "its network is frozen: what was learned of past classes stays as it was"
    elif settings.held_out_places == 0:
        yield (
            "past classes cannot be compared: no images are held out; begin the model with learn --validation 0.1, or "
            "give images of your own to scail evaluate before and after a learn"
        )
    elif found is None:
        yield "no class was known before its last learn: there is nothing to compare"
    else:
        low, high = found["interval"]
        yield (
            f"{len(found['classes'])} past classes, {found['images']} held-out images: top-1 "
            f"{found['top1_before']:.1f} % before the last learn, {found['top1_after']:.1f} % after it; with 95 % "
            f"certainty a change between {low:+.1f} and {high:+.1f} points"
        )
        differ = [(name, of) for name, of in found["classes"].items() if of["before"] != of["after"]]
        sure = [(name, of) for name, of in differ if not of["interval"][0] <= 0 <= of["interval"][1]]
        if len(sure) < len(differ):
            yield f"{len(differ) - len(sure)} of its classes changed by no more than chance can do, on so few images"
        changed = [(name, of["images"], of["before"], of["after"]) for name, of in sure]
        changed.sort(key=lambda one: (one[3] - one[2]) / one[1])
        for name, images, before, after in changed[:_MOST_CLASSES]:
            yield f"{after - before:+4d}  {name}: {before} of {images} right before, {after} after"
        if len(changed) > _MOST_CLASSES:
            yield f"      and {len(changed) - _MOST_CLASSES} more that changed; --json has all"


def _history(known: dict[str, Any]) -> Iterator[str]:
    for state, names in known["states"].items():
        yield f"state {state}: {', '.join(map(str, names))}"
    for record in known["history"]:
        if change := record.get("change"):
            what = "a class was renamed" if change == "rename" else f"{record['images']} picture(s) moved"
            to = f" to {', '.join(map(str, record['more']))}" if record["more"] else ", since forgotten"
            yield f"{record['when']}: {what}{to}"
            continue
        more = f", more of {len(record['more'])}" if record.get("more") else ""
        new, images, seconds = len(record.get("new", [])), record.get("images"), record.get("seconds")
        yield f"{record.get('when')}: {new} new class(es){more}, {images} images, {seconds} s"
