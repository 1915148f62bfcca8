"""What a reader of each page has at the beginning, and what is made smaller: few pictures, tiny scans, one machine."""

from __future__ import annotations

import contextlib
import io
import pickle
import shutil
import socket
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scail.cli.main import main
from tests.docs.reading import Scene, fenced
from tests.storage.hub_stand_in import hub_in_use

SMALL = "--images-per-class 20 --epochs 1"
DIGITS = f"--dataset digits --classes 6 --states 3 {SMALL}"


def scail(line: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 0, line


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Figures of this process are empty files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", lambda figure, path, **_: Path(path).touch())
        yield


@contextlib.contextmanager
def photographs() -> Iterator[None]:
    """Those of the tutorial: `photos/monday` and so on."""
    exec(next(block.code for block in fenced("docs/start/tutorial.md") if block.kind == "python"), {})
    yield


@contextlib.contextmanager
def a_model() -> Iterator[None]:
    """And `pets`, which has learned two kinds of them."""
    with photographs():
        scail("learn pets photos/monday")
        yield


@contextlib.contextmanager
def own_photographs() -> Iterator[None]:
    from sklearn.datasets import load_digits

    with photographs():
        for name, animal in (("temple", "cat"), ("flower", "dog")):
            shutil.copytree(f"photos/test/{name}", f"photos-of-june/{animal}")
            shutil.move(f"photos/monday/{name}", f"photos/{animal}")
        for day in ("monday", "tuesday", "wednesday", "test"):
            shutil.rmtree(f"photos/{day}")
        scans = load_digits()
        for number in range(3):
            Path(f"letters/{number}").mkdir(parents=True)
            for n, scan in enumerate(scans.images[scans.target == number][:20]):
                Image.fromarray((scan * 15).astype(np.uint8)).save(f"letters/{number}/{n}.png")
        yield


@contextlib.contextmanager
def pictures_to_send() -> Iterator[None]:
    with a_model():
        shutil.copy("photos/test/flower/15.jpg", "a.jpg")
        Path("b.jpg").write_text("no picture")
        for n in (1, 2):
            shutil.copy(f"photos/tuesday/portrait/{n}.jpg", f"r{n}.jpg")
        with zipfile.ZipFile("photos.zip", "w") as archive:
            for n in range(3, 8):
                archive.write(f"photos/tuesday/portrait/{n}.jpg", f"admiral/{n}.jpg")
        yield


@contextlib.contextmanager
def shelves() -> Iterator[None]:
    """A hub, and a bucket, in this process."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class Bucket(MemoryFileSystem):
        protocol = "s3"
        store, pseudo_dirs = {}, [""]

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return super()._strip_protocol(path.removeprefix("s3:/"))

    with a_model(), hub_in_use(Path("hub-cache").absolute()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Use 'content=", DeprecationWarning)  # the Hub's own library
        shutil.copy("photos/test/flower/15.jpg", "some.jpg")
        fsspec.register_implementation("s3", Bucket, clobber=True)
        yield


@contextlib.contextmanager
def small_cifar() -> Iterator[None]:
    """All hundred classes, four images of each."""
    folder = Path("data/cifar100/cifar-100-python")
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for part, each in (("train", 4), ("test", 1)):
        labels = [n for n in range(100) for _ in range(each)]
        held = {b"data": draw.integers(0, 256, (len(labels), 3072), np.uint8), b"fine_labels": labels}
        (folder / part).write_bytes(pickle.dumps(held, protocol=2))
    names = [f"class-{n}".encode() for n in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=2))
    with undrawn():
        yield


@contextlib.contextmanager
def three_runs() -> Iterator[None]:
    with undrawn():
        for name, memory in (("first", 12), ("a", 12), ("b", 24)):
            scail(f"run {DIGITS} --methods ft,scail --memory {memory} --out runs/{name}")
    yield


@contextlib.contextmanager
def pictures_and_unknown_ones() -> Iterator[dict[str, Any]]:
    with a_model():
        shutil.copytree("photos/test/portrait", "holiday")
        shutil.copytree("photos/tuesday/portrait", "inbox")
        draw, colours = np.random.default_rng(0), {"cat": (200, 40, 40), "cow": (40, 180, 60), "dog": (40, 60, 200)}
        labels = [*["cat", "cow"] * 4, "cow", "cat", *["dog"] * 4, "cow"]
        for n, name in enumerate(labels):
            pixels = np.array(colours[name]) + draw.normal(0, 25, (48, 48, 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(f"{n}.jpg")
        files = [f"{n}.jpg" for n in range(15)]
        yield {"images": files[:10], "labels": labels[:10], "more_images": files[10:], "more_labels": labels[10:]}


@contextlib.contextmanager
def a_job() -> Iterator[None]:
    """What Slurm tells a job; and a short path, which Ray's sockets need."""
    told = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "one,two"}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short:
        for name, value in (told | {"RAY_TMPDIR": short}).items():
            patch.setenv(name, value)
        yield


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


INSTALLS = ("pip install", "tests/test_package.py installs the package, with what it needs")
SEVERAL_GPUS = "it needs eight GPUs and ILSVRC"
SCENES = {
    "README.md": Scene(
        photographs,
        not_run=(INSTALLS, ("make demo", "it takes minutes"), ("make test", "it would run this very test")),
    ),
    "docs/start/tutorial.md": Scene(),
    "docs/start/table.md": Scene(),
    "docs/how-to/own-photographs.md": Scene(
        own_photographs, smaller=(("--method icarl_duet", "--method icarl_duet --epochs 1"),)
    ),
    "docs/how-to/serve-and-deploy.md": Scene(
        pictures_to_send, smaller=(("curl ", "curl --silent --show-error --fail "),), not_run=(INSTALLS,)
    ),
    "docs/how-to/share-a-model.md": Scene(
        shelves,
        smaller=(("file:///mnt", "file://$PWD/mnt"),),
        not_run=(INSTALLS, ("hf auth login", "it asks for a token of the real hub")),
    ),
    "docs/how-to/reproduce-a-table.md": Scene(
        small_cifar,
        smaller=(
            ("--datasets cifar100", "--datasets cifar100 --epochs 1 --network resnet8-half --select random"),
            ("dataset: digits", "dataset: digits\nclasses: 6\nimages-per-class: 20\nepochs: 1"),
            ("states: [2, 5]", "states: [2, 3]"),
        ),
    ),
    "docs/how-to/read-a-report.md": Scene(three_runs),
    "docs/how-to/own-method.md": Scene(
        undrawn,
        smaller=(
            ("--dataset digits --states 5", DIGITS),
            ("states=5)", "states=2, classes=4, images_per_class=10, memory=8)"),
        )
    ),
    "docs/how-to/own-training-code.md": Scene(undrawn, smaller=(('"full"))', '"full")).with_epochs(1)'),)),
    "docs/how-to/several-devices.md": Scene(
        a_job,
        smaller=(
            ("--devices 2 --accelerator cpu", f"--devices 2 --accelerator cpu {DIGITS} --methods ft"),
            ("--nproc_per_node 8 -m", "--nproc_per_node 2 -m"),
            ("--nproc_per_node 8 --rdzv", "--nproc_per_node 1 --rdzv"),
            ("--nodes 2 --devices 8", "--nodes 2 --devices 1"),
            ("--workers 8 --precision bf16-mixed", "--precision 32-true"),
            ("-m scail run --dataset ilsvrc --recipe paper", f"-m scail run {DIGITS} --accelerator cpu --methods ft"),
            ("--datasets ilsvrc --recipe paper", f"--datasets digits {SMALL} --methods ft"),
            ("--datasets digits --methods ft,scail", f"--datasets digits {SMALL} --methods ft,scail"),
            (":29500", f":{free_port()}"),
            ("/shared/", "$PWD/shared/"),
        ),
        not_run=(
            INSTALLS,
            ("scail run --dataset ilsvrc --recipe paper --devices 8", SEVERAL_GPUS),
            ("scail grid table1 --recipe paper --engine ray --address auto", "it needs a Ray cluster of GPUs"),
        ),
        apart=True,
    ),
    "docs/reference/classifier.md": Scene(
        pictures_and_unknown_ones, smaller=(('backbone="auto"', 'backbone="auto", image_size=48'),)
    ),
    "docs/results/findings.md": Scene(not_run=(("scail grid results/split-mnist", "it needs MNIST"),)),
}  # fmt: skip
"""Every page with a block of Python or of shell."""
