"""`scail evaluate`: measure the classifier in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from scail.cli.learn import ModelFolder
from scail.cli.predict import load_for_use, tidied
from scail.cli.shown import shown, shown_json

if TYPE_CHECKING:
    from scail.classifier.evaluated import Evaluated

_MOST, _MOST_ANSWERS = 10, 3  # classes, and answers to one of them, that are printed; the JSON has all


@dataclass(frozen=True)
class EvaluateCommand:
    """Measure a model on labelled images that it did not learn: in all and of each class, the worst first.

    Of data with test images of their own, those are taken. Images of classes that the model never learned count apart:
    it says what they were taken for. An image that cannot be read is left out and counted.

      scail evaluate pets photos/test
    """

    model: ModelFolder
    """The folder of the model."""
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Labelled images, as for `scail learn`."""
    classes: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Only these classes of the data, separated by commas."""
    method: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Classify with another method of `scail methods`: one that is trained in the same way (its column trainer).
    Nothing is trained for it. Default: the model's."""
    unknown: bool = False
    """Let it say `unknown` of a picture that is like nothing it has learned."""
    sub_folders: Literal["merge", "classes"] = "merge"
    """Images in sub-folders of a class folder, as shoes/red. merge: they are of the class shoes.
    classes: shoes/red is a class of its own."""
    json: bool = False
    """Print JSON: top1, top5, images, broken, by_class, confusions, never_learned, classes, memory, exemplars."""

    def __call__(self) -> None:
        """Measure, and print."""
        import torch

        from scail.classifier.evaluated import evaluated
        from scail.classifier.model import counts_of
        from scail.cli.learn import read_data
        from scail.heads.strangeness import UNKNOWN

        tidied(self.model)
        clf = load_for_use(self.model, self.method)
        data = read_data(self.data, clf, self.classes, "skip", test=True, nested=self.sub_folders == "classes")
        scores = torch.from_numpy(clf.decision_function(data.images))
        strange = torch.from_numpy(clf.strangeness(data.images)) > UNKNOWN if self.unknown else None
        found, model = evaluated(clf.model_.classes, scores, data.names, strange), clf.model_
        counts = counts_of(model)
        if self.json:
            record = {**found.record(), "broken": data.broken, **counts, "method": model.settings.method}
            print(shown_json(record, indent=1))
            return
        held = f"{counts['classes']} classes, {counts['exemplars']} exemplars, memory of {counts['memory']} images"
        if found.images:
            print(f"{found.images} images: top-1 {found.top1:.1f} %, top-5 {found.top5:.1f} % ({held})")
        for line in (*_classes(found), *_strangers(found)):
            print(shown(line))
        if data.broken:
            print(f"{data.broken} image(s) could not be read, and are not counted")


def _classes(found: Evaluated) -> Iterator[str]:
    """A line for each class, the worst first; what its images were taken for stands behind it."""
    shown = [*found.said][:_MOST]
    for name in shown:
        images, right = found.right(name)
        wrong = Counter({other: n for other, n in found.said[name].items() if other != name})
        taken = f"; taken for {_some(wrong)}" if wrong else ""
        yield f"{100 * right / images:6.1f} %  {name}: {right} of {images}{taken}"
    if rest := [*found.said][_MOST:]:
        images, right = found.right(rest[0])
        yield f"and {len(rest)} more classes, at {100 * right / images:.1f} % or better; --json has all"


def _strangers(found: Evaluated) -> Iterator[str]:
    if not found.never_learned:
        return
    total = sum(said.total() for said in found.never_learned.values())
    yield f"{total} images of {len(found.never_learned)} class(es) that the model never learned, not counted above:"
    for name, said in [*found.never_learned.items()][:_MOST]:
        yield f"  {name}: {said.total()} images, taken for {_some(said)}"
    if len(found.never_learned) > _MOST:
        yield f"  and {len(found.never_learned) - _MOST} more; --json has all"


def _some(said: Counter[str]) -> str:
    named = ", ".join(f"{name} ({count})" for name, count in said.most_common(_MOST_ANSWERS))
    return named + (f" and {len(said) - _MOST_ANSWERS} more" if len(said) > _MOST_ANSWERS else "")
