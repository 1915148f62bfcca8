"""`scail info` and `scail diff`: look at the classifier in a folder. Nothing but its manifest is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scail.cli.learn import ModelFolder

if TYPE_CHECKING:
    from scail.classifier.folder import Look
    from scail.classifier.inputs import Shape


@dataclass(frozen=True)
class InfoCommand:
    """Show a model: its classes by state, its memory, sizes and history."""

    model: ModelFolder
    """The folder of the model."""
    json: bool = False
    """As JSON: top1, top5 (on held-out images), classes, memory, exemplars, and all else that is known."""

    def __call__(self) -> None:
        """Show what the manifest says."""
        from scail.classifier.folder import look
        from scail.cli.store import human_size

        seen = look(self.model)
        manifest, known = seen.manifest, _known(seen)
        if self.json:
            print(json.dumps(known, indent=1, ensure_ascii=False))
            return
        settings = manifest.settings
        chosen = f"{settings.select} exemplars" if settings.select else "no exemplars"
        states = f"{len(known['states'])} state(s), {manifest.calls} call(s) of learn"
        print(f"{self.model}: {known['classes']} classes in {states}")
        print(
            f"method {settings.method}, {chosen}; network {settings.experiment.network}, images {_size(settings.shape)}"
        )
        print(
            f"memory: {known['exemplars']} exemplars and {known['held_out']} held-out images, at most "
            f"{settings.memory} together; {human_size(seen.size)} on disk"
        )
        if known["top1"] is not None:
            print(f"held-out images after the last learn: top-1 {known['top1']:.1f} %, top-5 {known['top5']:.1f} %")
        for state, names in known["states"].items():
            print(f"state {state}: {', '.join(names)}")
        for record in manifest.history:
            more = f", more of {len(record['more'])}" if record.get("more") else ""
            new, images, seconds = len(record.get("new", [])), record.get("images"), record.get("seconds")
            print(f"{record.get('when')}: {new} new class(es){more}, {images} images, {seconds} s")


@dataclass(frozen=True)
class DiffCommand:
    """What the last learn did to the classes that were known before, on images held out (`learn --validation`)."""

    model: ModelFolder
    """The folder of the model."""
    json: bool = False
    """As JSON: per class images, and how many were right before and after."""

    def __call__(self) -> None:
        """Show what the last learn did to past classes."""
        from scail.classifier.folder import look

        manifest = look(self.model).manifest
        if manifest.settings.held_out_places == 0:
            raise ValueError(
                f"{self.model}: no images are held out; begin the model with learn --validation 0.1, or give images of "
                "your own to scail evaluate before and after a learn"
            )
        found = manifest.difference
        if not found:
            raise ValueError(f"{self.model}: no class was known before its last learn: there is nothing to compare")
        before, after, images = (sum(values[i] for values in found.values()) for i in (1, 2, 0))
        if self.json:
            per_class = {name: dict(zip(("images", "before", "after"), v, strict=True)) for name, v in found.items()}
            totals = {"images": images, "top1_before": 100 * before / images, "top1_after": 100 * after / images}
            print(json.dumps(totals | {"classes": per_class}, indent=1, ensure_ascii=False))
            return
        print(
            f"{len(found)} past classes, {images} held-out images: top-1 {100 * before / images:.1f} % before the last "
            f"learn, {100 * after / images:.1f} % after it"
        )
        for name, (count, then, now) in sorted(found.items(), key=lambda item: (item[1][2] - item[1][1]) / item[1][0]):
            print(f"{now - then:+4d}  {name}: {then} of {count} right before, {now} after")


def _known(seen: Look) -> dict[str, Any]:
    manifest = seen.manifest
    states = dict[str, list[str]]()
    for one in manifest.classes:
        states.setdefault(str(one.first_state), []).append(one.name)
    settings, accuracy = manifest.settings, manifest.accuracy or {}
    return {
        "top1": accuracy.get("top1"), "top5": accuracy.get("top5"), "classes": len(manifest.classes),
        "memory": settings.memory, "exemplars": sum(len(one.exemplars) for one in manifest.classes),
        "held_out": sum(len(one.held_out) for one in manifest.classes), "method": settings.method,
        "select": settings.select, "network": settings.experiment.network, "states": states,
        "shape": [settings.shape.channels, settings.shape.height, settings.shape.width], "bytes": seen.size,
        "calls": manifest.calls, "changed": manifest.changed, "scail": manifest.scail, "history": manifest.history,
        "exemplars_per_class": {one.name: len(one.exemplars) for one in manifest.classes},
    }  # fmt: skip


def _size(shape: Shape) -> str:
    return f"{shape.height} x {shape.width}, {'colour' if shape.channels == 3 else 'grey'}"
