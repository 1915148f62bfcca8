"""A classifier that keeps learning classes, as people of scikit-learn expect it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scail.classifier.choices import Wishes, first_settings, first_size
from scail.classifier.estimator import Estimator
from scail.classifier.inputs import Shape, Size, as_pixels, class_names_of, images_of, labelled, labels_of
from scail.classifier.left_out import calibrated
from scail.classifier.lesson import Circumstances, check_lesson, key_of_lesson, lesson_of, next_state
from scail.classifier.model import Model
from scail.classifier.outlook import estimate, how_good, notes_on
from scail.classifier.repeats import first_seen
from scail.classifier.settings import Change, Keep, Settings, check_int8, check_method
from scail.config import Experiment
from scail.evaluation import top_k_accuracy
from scail.heads.strangeness import Strangeness
from scail.networks.network import Network
from scail.networks.precision import AUTO, used_precision
from scail.networks.pretrained import start_network
from scail.runtime.devices import PlainCpu, make_fabric
from scail.storage.checkpoint import Checkpoint
from scail.training import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from scail.classifier.correcting import Corrected

_BATCH = 512


class IncrementalClassifier(Estimator):
    """Learns classes over time and keeps at most `memory` images of what it saw.

    >>> import numpy as np
    >>> images = np.random.RandomState(0).randint(0, 255, (8, 8, 8), dtype=np.uint8)
    >>> clf = IncrementalClassifier(memory=4, epochs=1, verbose=False).learn(images, list("aaaabbbb"))
    >>> clf.learn(images[:3], ["c"] * 3).classes_
    ('a', 'b', 'c')
    """

    def __init__(
        self,
        memory: int = 2000,
        method: str = "auto",
        backbone: str | None = "auto",
        recipe: str | Experiment = "auto",
        *,
        backbone_weights: str | Path | None = None,
        image_size: int | None = None,
        validation: float = 0.0,
        mirror: bool = True,
        epochs: int | tuple[int, int] | None = None,
        seed: int = 1,
        keep: Keep = "features",
        int8: bool = False,
        accelerator: str = "auto",
        precision: str = AUTO,
        verbose: bool = True,
    ) -> None:
        """Nothing is checked or made before the first `learn`.

        By default nothing is trained: a network that has seen the world is frozen, and classes are told apart by the
        moments of its features. memory: B, the images kept, over all classes. method: a name of METHODS, perhaps with a
        selection, as "scail:herding"; "auto": slda, on a network without pretrained weights icarl_duet (lwf without a
        memory). backbone: a network by name, or "auto": efficientnet-lite0 with pretrained weights; for methods that
        train, by image size, number of images and device; None: what `fit` and `partial_fit` are given are features, on
        which ncm, slda or ridge learn. recipe: "auto", "quick", "paper", or an `Experiment`.
        backbone_weights: "pretrained", or a safetensors file. image_size: pixels a side; None: that of arrays; for
        files 224 with pretrained weights, else 64. validation: share of each class, and of B, held out to measure with.
        mirror: whether a mirrored image still is of its class. epochs: of every state, or of the first and of the later
        ones. keep: of a frozen network, the "features" of every learned image, so that images can be taken back, or
        their "moments" only. int8: run it in whole numbers of 8 bits, on a CPU: twice as fast. precision: the number
        format of a training; "auto": bf16-mixed where the device is quick at it, else 32-true.
        """
        self.memory, self.method, self.backbone, self.recipe = memory, method, backbone, recipe
        self.backbone_weights, self.image_size, self.validation = backbone_weights, image_size, validation
        self.mirror, self.epochs, self.seed, self.accelerator, self.verbose = mirror, epochs, seed, accelerator, verbose
        self.keep: Keep = keep
        self.precision, self.int8 = precision, int8

    @property
    def has_learned(self) -> bool:
        """Whether anything was learned yet."""
        return self.__sklearn_is_fitted__()

    @property
    def states_(self) -> tuple[tuple[str | int, ...], ...]:
        """The classes that were new in each state."""
        return tuple(tuple(labels_of(names)) for names in self._learned().states())

    @property
    def model_(self) -> Model:
        """All that it is: settings, network, evidence, exemplars, history."""
        return self._learned()

    # Learning

    def learn(self, images: Any, labels: Any = None) -> Self:
        """Learn these images: new classes, and perhaps more of known ones.

        `images`: an array or tensor, or a list of arrays, tensors, paths or PIL images, with one label each; or a torch
        or Hugging Face data set with its own labels. If anything fails, the classifier is as it was.
        """
        self._learn(*labelled(images, labels))
        return self

    def learn_and_save(
        self,
        folder: str | Path,
        images: Any,
        labels: Any = None,
        report: Callable[[Progress], None] = lambda progress: None,
    ) -> Self:
        """Learn, and put the result into this folder in place of what was there; hold its lock meanwhile.

        A training that is interrupted is kept in the folder and goes on when the same images are learned again.
        """
        from scail.classifier.folder import sweep, unfinished
        from scail.classifier.folder.files import clear_errors

        root, loaded = Path(folder), self._model is not None and self._is_in(folder)
        self._learn(*labelled(images, labels), unfinished(root), report, self._last_lesson(root) if loaded else "")
        if not (loaded and self._model is self._saved):
            self._write(root, was_read=loaded)
        else:
            with clear_errors(root):
                sweep(root)  # with what is unfinished: it may be of a learn that was killed when all was done
        return self

    def _last_lesson(self, root: Path) -> str:
        """The key of the lesson that was the last change of the model in this folder, if nothing was done since."""
        from scail.classifier.folder import look

        return look(root).manifest.lesson if self._model is self._saved else ""

    def _is_in(self, folder: str | Path) -> bool:
        """Whether this is what the folder holds, but for what was done to it since it was read."""
        from scail.classifier.folder import look

        return self._origin == (Path(folder).resolve(), look(Path(folder)).stamp)

    def _write(self, root: Path, was_read: bool = False) -> None:
        from scail.classifier.folder import write_model

        stamp = write_model(root, self._learned(), self._change or "save", self._before, was_read)
        self._origin, self._saved = (root.resolve(), stamp), self._model

    def _learn(self, images: Any, names: list[str], checkpoint: Callable[[str], Checkpoint] | None = None,
               report: Callable[[Progress], None] = lambda progress: None, last: str = "") -> None:  # fmt: skip
        assert self.network_name  # an error without a backbone
        if self._model is None:
            check_method(self.method, self.memory)
        elif len(self._model.exemplars.images) < len(self._model.exemplars.memory):
            raise ValueError("it was read without its pictures, and can classify but not learn; load it with them")
        pixels = as_pixels(images, self._model.settings.shape if self._model else None, self.first_size)
        if self._model is None:
            accelerated = self._device().type != "cpu"
            settings = first_settings(self._wishes(), Shape(*pixels.shape[1:]), len(pixels), accelerated, self._say)
        else:
            settings = self._model.settings
            if self.epochs is not None and settings.pretrained:
                raise ValueError(f"epochs {self.epochs}: method {settings.method} trains nothing; leave epochs out")
            settings = replace(settings, experiment=settings.experiment.with_epochs(self.epochs))
        before, key = self._model, key_of_lesson(settings, pixels, names)
        if key == last:  # a learn that was killed at its very end is repeated
            self._say("these images are learned: the last learn was this very one")
            return
        fresh = first_seen(before, pixels, names)
        before, pixels, names = fresh.model, fresh.images, fresh.names
        for text in fresh.notes:
            self._say(text)
        if not names:
            self._say("nothing is new: the model stays as it is")
            return
        fabric = self._fabric(settings, before)
        lesson = lesson_of(before, settings, pixels, names)
        check_lesson(lesson, settings)
        start = self._start(settings)
        for text in notes_on(lesson, settings):
            self._say(text)
        if self.verbose and settings.training().epochs(self._model.calls if self._model else 0, 1):
            self._say(estimate(self._model, settings, lesson, fabric.device.type, self._precision(settings)))
        where = Circumstances(fabric, report, checkpoint, start, self._say, self._precision(settings), key)
        after = next_state(before, settings, lesson, where)
        self._changed("learn", after)
        if self.verbose and after.accuracy is not None:
            found = after.accuracy
            self._say(f"on {found['images']} held-out images: top-1 {found['top1']:.1f} %, top-5 {found['top5']:.1f} %")
        if self.verbose:
            for text in how_good(after):
                self._say(text)

    def _fabric(self, settings: Settings, before: Model | None) -> Fabric:
        check_int8(settings, self.accelerator)
        trains = settings.training().epochs(before.calls if before else 0, 1) > 0
        if not trains and self.accelerator in ("auto", "cpu") and self._device().type == "cpu":
            return cast("Fabric", PlainCpu())
        return make_fabric(self.accelerator, self._precision(settings))

    def _precision(self, settings: Settings) -> str:
        return used_precision(settings.experiment.machine.precision, self.accelerator)

    def _wishes(self) -> Wishes:
        return Wishes(
            self.memory, self.method, self.network_name, self.backbone_weights, self.recipe, self.validation,
            self.mirror, self.epochs, self.seed, self.keep, self.precision, self.image_size, self.int8,
        )  # fmt: skip

    def _start(self, settings: Settings) -> Network | None:
        recipe = settings.experiment.recipe
        if self._model is not None or recipe.weights is None:
            return None
        return start_network(recipe.network, self.backbone_weights or recipe.weights, settings.shape.channels)

    @property
    def first_size(self) -> Size:
        """How large the first images are to be."""
        return first_size(self._wishes())

    # Using it

    def strangeness(self, images: Any) -> NDArray[np.float32]:
        """N numbers: 0 for a usual image of a class that was learned, above 1 for what is unknown."""
        found: NDArray[np.float32] = self._measure().measure(self._features(images)).numpy()
        return found

    def _measure(self) -> Strangeness:
        measure = self._learned().strangeness()
        if measure is None:
            raise ValueError("it cannot tell the unknown from the known: it has learned too few images of each class")
        return measure

    def top_k(self, images: Any, k: int = 5) -> list[list[tuple[str | int, float]]]:
        """For each image its k best classes (fewer where fewer can be predicted) with their probabilities."""
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        scores = self._scores(images)
        classes = labels_of(self._learned().classes)
        best = scores.topk(min(k, len(classes)), dim=1)
        chances = self._learned().odds.of(scores).gather(1, best.indices)  # 0 for some that can be predicted
        return [
            [(classes[c], p) for c, p, score in zip(*of_image, strict=True) if score > -math.inf]
            for of_image in zip(best.indices.tolist(), chances.tolist(), best.values.tolist(), strict=True)
        ]

    def accuracy(self, images: Any, labels: Any = None) -> dict[str, float]:
        """Top-1 and top-5 in percent, and how many images there were."""
        images, names = labelled(images, labels)
        classes = self._learned().classes
        strange = sorted(set(names) - set(classes))
        if strange:
            raise ValueError(f"class {strange[0]!r} was never learned ({len(strange)} such); leave its images out")
        number = {name: c for c, name in enumerate(classes)}
        scores, truth = self._scores(images), torch.tensor([number[name] for name in names])
        return {
            "top1": top_k_accuracy(scores, truth, 1), "top5": top_k_accuracy(scores, truth, 5), "images": len(names),
        }  # fmt: skip

    def use(self, method: str) -> Self:
        """Classify with the head of another method on the same trajectory: nothing is trained."""
        used = self._learned().use(method)
        if used.settings != self._learned().settings:
            self._model = calibrated(used)
        self.method = method
        return self

    def embed_again(self, backbone: str) -> Self:
        """Put another pretrained network under a frozen model; it then knows what its exemplars show."""
        from scail.classifier.embedding import embedded_again

        self._unchanged = self._unchanged or self._learned()
        self._model = embedded_again(self._learned(), backbone, self._say)
        self.backbone = backbone
        return self

    # Putting it right

    def undo(self) -> Self:
        """Take back the last change: a learn, a relabel or a rename. Not a forget: nothing of it is kept.

        A classifier that was loaded asks its folder what was before.
        """
        from scail.classifier.undoing import taken_back

        before, change = self._before, self._change
        if change is None and self._origin is not None:
            from scail.classifier.folder import FolderError, look, read_before

            root, stamp = self._origin
            if look(root).stamp != stamp:
                raise FolderError(f"{root}: was changed since it was read; load it again")
            before, change = read_before(root)
        self._correct("undo", taken_back(self._learned(), before, change))
        self.memory = self._learned().settings.memory
        return self

    def relabel(self, images: Any, name: Any) -> Self:
        """Move pictures that were learned under another name to this class."""
        from scail.classifier.correcting import relabelled, told

        model = self._learned()
        (name,) = class_names_of([name])
        pixels = as_pixels(images, model.settings.shape)
        return self._correct("relabel", relabelled(model, pixels, name, told(images)))

    def rename(self, old: Any, new: Any) -> Self:
        """Give a class another name."""
        from scail.classifier.correcting import renamed

        return self._correct("rename", renamed(self._learned(), *class_names_of([old, new])))

    def resize(self, memory: int) -> Self:
        """Another B: of a smaller one, each class keeps its best images; a larger one fills as it learns."""
        from scail.classifier.resizing import resized

        self._correct("resize", resized(self._learned(), memory))
        self.memory = memory
        return self

    def forget(self, name: Any, images: Any = None) -> Self:
        """Take a class out, or these pictures of it. Weights that were trained carry traces of them until retrained."""
        from scail.classifier.correcting import Corrected, told, without_pictures
        from scail.classifier.forgetting import what_is_left, without_class

        model, (name,) = self._learned(), class_names_of([name])
        if images is None:
            after = without_class(model, name)
            return self._correct("forget", Corrected(after, what_is_left(after)))
        pixels = as_pixels(images, model.settings.shape)
        return self._correct("forget", without_pictures(model, name, pixels, told(images)))

    def _correct(self, change: Change, found: Corrected) -> Self:
        self._changed(change, found.model)
        self._say(found.said)
        return self

    def _changed(self, change: Change, after: Model) -> None:
        """This is the model now; what is needed to take that back is kept."""
        from scail.classifier.undoing import before_of

        keeps = change in ("learn", "relabel", "rename", "resize")
        self._before = before_of(self._unchanged or self._model, after) if keeps else None
        self._model, self._change, self._unchanged = after, change, None

    # Keeping it

    def save(self, folder: str | Path, overwrite: bool = False) -> Self:
        """Write it into a folder, in one step for everyone who reads there.

        A model that is there already is replaced only if this is the same one, one or more states later.
        """
        from scail.classifier.folder import FolderError, locked

        root = Path(folder)
        self._learned()
        with locked(root, say=self._say):
            if (root / "manifest.json").exists() and not overwrite and not self._is_in(root):
                raise FolderError(
                    f"{root}: holds another model, or was changed since it was read; save elsewhere, "
                    "or with overwrite=True"
                )
            self._write(root)
        return self

    @classmethod
    def load(
        cls, folder: str | Path, *, accelerator: str = "auto", verbose: bool = True, pictures: bool = True
    ) -> Self:
        """Read it from its folder. Without `pictures` it is read quicker, and can classify but not learn."""
        from scail.classifier.folder import read_model

        model, stamp = read_model(Path(folder), pictures)
        settings = model.settings
        made = cls(
            settings.memory, settings.method, settings.experiment.recipe.network, settings.experiment, verbose=verbose,
            image_size=settings.shape.height if settings.shape.height == settings.shape.width else None,
            validation=settings.validation, mirror=settings.mirror, seed=settings.experiment.seed, keep=settings.keep,
            int8=settings.int8, precision=settings.experiment.machine.precision, accelerator=accelerator,
        )  # fmt: skip
        made._model, made._saved, made._origin = model, model, (Path(folder).resolve(), stamp)
        return made

    def _features(self, images: Any) -> Tensor:
        """N x D features, a few hundred images at a time: files need not fit into memory."""
        model = self._learned()
        images = images_of(images)
        trainer, network = model.settings.training(), model.learned.network
        found = [torch.empty(0, network.feature_size)]
        network.to(self._device())
        for i in range(0, len(images), _BATCH):
            pixels = as_pixels(images[i : i + _BATCH], model.settings.shape)
            found.append(trainer.extract(network, pixels))
        network.cpu()
        return torch.cat(found)

    def _device(self) -> torch.device:
        """Where images are classified."""
        if self.accelerator == "cpu" or not torch.accelerator.is_available():
            return torch.device("cpu")
        return torch.accelerator.current_accelerator() or torch.device("cpu")

    def _say(self, text: str) -> None:
        if self.verbose:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
