"""Every reader of files that scail has, with sound files for it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.hostile.trial import Reader


def colours(width: int = 12, height: int = 9) -> np.ndarray:
    """A picture that is no single colour."""
    values = np.arange(width * height * 3) * 37 % 251
    return values.reshape(height, width, 3).astype(np.uint8)


# Pictures


def make_pictures(folder: Path) -> list[Path]:
    from scail.datasets.images.decode import FORMATS

    image, grey = Image.fromarray(colours()), colours()[..., 0].astype(np.uint16) * 200
    for kind in FORMATS:
        image.save(folder / f"a.{kind.lower()}", kind)
    Image.fromarray(grey).save(folder / "sixteen.png")
    Image.fromarray(grey).save(folder / "sixteen.tiff")
    Image.fromarray((grey / 65535).astype(np.float32)).save(folder / "float.tiff")
    image.save(folder / "packed.tiff", compression="tiff_lzw")
    image.quantize(8).save(folder / "palette.png", transparency=b"\0\x80\xff")
    turned = Image.Exif()
    turned[0x0112] = 6
    image.save(folder / "turned.jpg", exif=turned)
    return sorted(folder.iterdir())


def read_pictures(folder: Path) -> Any:
    from scail.classifier.answering import read_picture
    from scail.datasets.images.decode import middle_square, read_region

    found = []
    for path in sorted(folder.iterdir()):
        found += [read_picture(path).tobytes(), read_region(path, middle_square, 8).tobytes()]
    return found


def read_sent(folder: Path) -> Any:
    from scail.server.limits import Limits
    from scail.server.pictures import decoded, reduced

    return [reduced(decoded(path.read_bytes(), Limits())) for path in sorted(folder.iterdir())]


def make_archive_of_pictures(folder: Path) -> list[Path]:
    import zipfile

    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("cat/1.png", "dog/2.png", "__MACOSX/x"):
            archive.writestr(name, b"picture" * 50)
    return [folder / "a.zip"]


def read_archive_of_pictures(folder: Path) -> Any:
    from scail.server.archives import pictures_in
    from scail.server.limits import Limits
    from scail.server.refusals import Refused

    try:
        return pictures_in((folder / "a.zip").read_bytes(), Limits())
    except Refused as refused:
        raise ValueError(str(refused)) from None


# Data sets


def make_idx(folder: Path) -> list[Path]:
    images = bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4, "big") for n in (6, 5, 4)) + bytes(range(120))
    labels = bytes((0, 0, 8, 1)) + (6).to_bytes(4, "big") + bytes((0, 1, 2, 3, 4, 9))
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    return sorted(folder.iterdir())


def read_idx(folder: Path) -> Any:
    from scail.datasets.sources.mnist import _split

    splits = [split for part in ("train", "t10k") if (split := _split(folder, part))]
    return [(split.images.tolist(), split.labels.tolist()) for split in splits]


def cifar_files() -> dict[str, bytes]:
    files: dict[str, dict[bytes, Any]] = {"meta": {b"fine_label_names": [b"apple", b"baby"]}}
    for part, labels in (("train", [1, 0, 1, 0]), ("test", [0, 1])):
        data = np.arange(len(labels) * 3072).reshape(-1, 3072) % 251
        files[part] = {b"fine_labels": labels, b"data": data.astype(np.uint8)}
    return {name: pickle.dumps(content, protocol=2 + 2 * (name == "test")) for name, content in files.items()}


def make_cifar(folder: Path) -> list[Path]:
    for name, content in cifar_files().items():
        (folder / name).write_bytes(content)
    return sorted(folder.iterdir())


def make_cifar_archive(folder: Path) -> list[Path]:
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name, content in cifar_files().items():
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return [folder / "cifar-100-python.tar.gz"]


def read_cifar(folder: Path) -> Any:
    from scail.config import DataSettings
    from scail.datasets.images.on_disk import ImageTable
    from scail.datasets.sources.cifar100 import load

    os.environ["SCAIL_DATA"] = str(folder / "none")
    found = load(folder, DataSettings())
    assert found is not None and found.test is not None
    tables = [split.images for split in (found.train, found.test)]
    assert all(isinstance(table, ImageTable) for table in tables)
    pixels = [table.in_memory().tolist() for table in tables]  # type: ignore[union-attr]
    return found.class_names, pixels, found.train.labels.tolist(), found.test.labels.tolist()


def make_devkit(folder: Path) -> list[Path]:
    from scipy.io import savemat

    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    synsets = np.array([(1, "n03", "shark", 0), (2, "n01", "tench", 0), (3, "n02", "all", 2)], dtype=kinds)
    content = io.BytesIO()
    savemat(content, {"synsets": synsets[:2].reshape(-1, 1)})
    kit = folder / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    (kit / "meta.mat").write_bytes(content.getvalue())
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n2\n")
    return sorted(kit.iterdir())


def read_devkit(folder: Path) -> Any:
    from scail.datasets.sources.devkit import find_devkit

    found = find_devkit([folder])
    assert found is not None
    return found.wnids, found.validation_wnids()


def make_parquet(folder: Path) -> list[Path]:
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    (folder / "data").mkdir()
    for part in ("train", "test"):
        rows = {"image": [Image.fromarray(colours())] * 4, "label": [0, 1, 1, 0]}
        datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "data" / f"{part}.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: data/*.parquet\n---\nRead.\n"
    )
    (folder / "README.md").write_text("---\nlicense: mit\n---\nPictures.\n")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_parquet(folder: Path) -> Any:
    import datasets

    from scail.datasets.sources.hub import load_hub_folder

    datasets.disable_progress_bars()
    os.environ["SCAIL_CACHE"] = str(folder.with_name(f"{folder.name}-cache"))
    try:
        found = load_hub_folder(folder, str(folder), 8, 1)
        return [found.class_names, *(_content(split) for split in (found.train, found.test) if split)]
    finally:
        shutil.rmtree(os.environ["SCAIL_CACHE"], ignore_errors=True)


def _content(split: Any) -> Any:
    return split.images.in_memory().tolist(), split.labels.tolist()


def make_packed(folder: Path) -> list[Path]:
    from scail.config import DataSettings
    from scail.datasets import load_dataset
    from scail.datasets.images.packed import pack

    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for n in range(3):
            Image.fromarray(colours()).rotate(30 * n).save(folder / "photos" / name / f"{n}.png")
    dataset = load_dataset(str(folder / "photos"), DataSettings(on_disk=True, held_out=0.4))
    pack(dataset, folder / "packed", 16, 90)
    return sorted((folder / "packed").iterdir())


def read_packed(folder: Path) -> Any:
    from scail.datasets.images.packed import load_packed

    found = load_packed(folder / "packed", 8, 1)
    assert found.test is not None
    return found.class_names, _content(found.train), _content(found.test)


def make_listing(folder: Path) -> list[Path]:
    from scail.datasets.listing import Listing, Part, write_manifest

    images = folder / "images"
    images.mkdir()
    for n in range(4):
        Image.fromarray(colours()).save(images / f"{n}.png")
    parts = [Part([str(images / f"{n}.png") for n in of], [0, 1]) for of in ((0, 1), (2, 3))]
    write_manifest(Listing("pets", ("cat", "dog"), *parts, "by hand"), folder / "manifest.csv")
    (folder / "train.lst").write_text("".join(f"images/{n}.png {'cat' if n % 2 else 'dog'}\n" for n in range(4)))
    return [folder / "manifest.csv", folder / "train.lst"]


def read_listing(folder: Path) -> Any:
    from scail.datasets.listing import found_of, read_manifest
    from scail.datasets.sources.files import load_files

    found = found_of(read_manifest(folder / "manifest.csv"), 8, 1)
    other = load_files(folder / "train.lst", 8, 1)
    return found.class_names, len(found.train), other.class_names, other.train.labels.tolist()


def make_tables(folder: Path) -> list[Path]:
    """Landmarks' table, and Kaggle's of ILSVRC."""
    (folder / "train.csv").write_text("id,url,landmark_id\n" + "".join(f"{n:x}0,http://x,{n % 2}\n" for n in range(6)))
    for n in range(6):
        (folder / f"{n:x}0.jpg").touch()
    for name in ("n01", "n02"):
        (folder / "train" / name).mkdir(parents=True)
        for n in range(3):
            (folder / "train" / name / f"{n}.JPEG").touch()
    (folder / "val").mkdir()
    rows = [f"ILSVRC2012_val_{n:08},n0{n} 1 2 3 4\n" for n in (1, 2)]
    for n in (1, 2):
        (folder / "val" / f"ILSVRC2012_val_{n:08}.JPEG").touch()
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "".join(rows))
    return [folder / "train.csv", folder / "LOC_val_solution.csv"]


def read_tables(folder: Path) -> Any:
    from scail.datasets.sources.ilsvrc import list_ilsvrc
    from scail.datasets.sources.landmarks import list_landmarks

    return list_landmarks(folder, classes=2, test_images=1), list_ilsvrc(folder, "official")


# Grids, tables, runs


GRID = """\
dataset: digits
methods: [[ft, scail], icarl]
states: [2, 5]
memory: [2%, "10/class"]
seed: &seeds [1, 2]
epochs: "2,1"
lr: 0.05
first-state: half
"""


def make_yaml(folder: Path) -> list[Path]:
    (folder / "own.yaml").write_text(GRID)
    return [folder / "own.yaml"]


def read_yaml(folder: Path) -> Any:
    from scail.benchmark.grid_file import file_grid

    return [point.experiment for point in file_grid(folder / "own.yaml", {})]


def make_published(folder: Path) -> list[Path]:
    from scail.results.papers import COLUMNS

    row = "Paper,scail,herding,cifar100,100,seed,10,,2000,,,top5,,84.6,Table 1"
    (folder / "own.csv").write_text(f"{','.join(COLUMNS)}\n{row}\n{row.replace('top5,,', 'top1,3,')}\n")
    return [folder / "own.csv"]


def read_published(folder: Path) -> Any:
    from scail.results.papers import paper_numbers

    return paper_numbers([folder / "own.csv"])


def make_runs(folder: Path) -> list[Path]:
    from tests.report.report_runs import make_run

    picture = io.BytesIO()
    Image.fromarray(colours()).save(picture, "PNG")
    for n in (1, 2):
        make_run(folder / f"run-{n}", seed=n, thumbnail=picture.getvalue(), methods=("ft", "scail", "ft_wa"))
    cells = [{"folder": f"run-{n}", "dataset": "made", "configuration": "Z=3", "seed": n} for n in (1, 2)]
    (folder / "grid.json").write_text(json.dumps({"grid": "own", "command": [], "cells": cells}))
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


def read_runs(folder: Path) -> Any:
    """The page, tables and texts, as `scail report` and `scail paper` write them."""
    from scail.report.grid import read_grid, rich_grid
    from scail.report.page_html import write_page
    from scail.report.paper import compare as compare_cells
    from scail.report.paper import differences, how_trained, nearest, read_run
    from scail.report.protocol import compare
    from scail.report.runs import read_runs
    from scail.report.table import markdown_table, rich_table
    from scail.report.tabular import FORMS
    from scail.report.write import tables_of, unfinished
    from scail.results.papers import beside_papers, paper_numbers

    comparisons = compare(read_runs([folder]))
    page = write_page(comparisons, unfinished([folder]))
    texts = [form(table) for table in tables_of(comparisons) for form in FORMS.values()]
    for run in (folder / "run-1", folder / "run-2"):
        config, summary = read_run(run)
        cells = compare_cells(config, summary)
        texts += [nearest(config, summary), *how_trained(config, run), markdown_table(summary)]
        texts += differences(config) if cells else []
        texts += map(str, (*cells, *beside_papers(config, summary, paper_numbers())))
        rich_table(summary)
    for dataset, columns in read_grid(folder).items():
        rich_grid(dataset, columns)
    return page, texts


def make_drawn_run(folder: Path) -> list[Path]:
    from tests.report.report_runs import make_run

    make_run(folder / "run", sizes=(2, 2), selects=("herding",), features=8, confusions=2)
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


def read_drawn_run(folder: Path) -> Any:
    """Its figures, made and not painted; those alone whose numbers are not those of the run before."""
    from scail.report.figures import FIGURES
    from scail.report.runs import read_report_run

    run = read_report_run(folder / "run")
    for name, figure in FIGURES.items():
        of = {"weights": run.weights, "memory": run.memory, "timing": run.timing}.get(name, (run.rows, run.summary))
        if name == "confusion" or _drawn.get(name) != (folder, of):
            figure(run)
            _drawn[name] = folder, of
    return repr(run)


_drawn = dict[str, Any]()


KEPT = Path(__file__).parents[1] / "data" / "version_0_1" / "results"


def make_kept(folder: Path) -> list[Path]:
    for path in sorted(KEPT.glob("*.jsonl")):
        shutil.copy(path, folder)
    return sorted(folder.iterdir())


def read_kept(folder: Path) -> Any:
    from scail.report.document import document
    from scail.report.settings import group_by_settings
    from scail.results.archive import Archive

    return document(group_by_settings(Archive(folder).all()), "x.png", ["scail"])


# Weights, states, models


def make_weights(folder: Path) -> list[Path]:
    from safetensors.torch import save

    from scail.networks.network import blank_network

    tensors = {name: of.contiguous() for name, of in blank_network("resnet8-half", 1).state_dict().items()}
    (folder / "w.safetensors").write_bytes(save(tensors))
    return [folder / "w.safetensors"]


def read_weights(folder: Path) -> Any:
    from scail.networks.pretrained import start_network, weights_id

    weights_id("resnet8-half", folder / "w.safetensors")
    network = start_network("resnet8-half", folder / "w.safetensors", 1)
    return {name: hashlib.sha256(tensor.numpy().tobytes()).digest() for name, tensor in network.state_dict().items()}


def _entry() -> Any:
    from scail.storage.entry import Entry

    facts = {"kind": "state", "state": 1, "made_from": {"a": 1}}
    return Entry({"weight": torch.arange(12.0).reshape(3, 4), "label": torch.arange(3)}, facts)


def make_store(folder: Path) -> list[Path]:
    from scail.storage.store import Store

    Store(folder).save(_entry())
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def read_store(folder: Path) -> Any:
    from scail.storage.store import Store

    store = Store(folder)
    store.listing()
    entry = store.load(_entry().key)
    return entry and ({name: tensor.tolist() for name, tensor in entry.tensors.items()}, entry.facts)


def make_checkpoint(folder: Path) -> list[Path]:
    from scail.storage.checkpoint import Checkpoint

    Checkpoint(folder / "a.safetensors").save(_entry())
    return [folder / "a.safetensors"]


def read_checkpoint(folder: Path) -> Any:
    from scail.storage.checkpoint import Checkpoint

    entry = Checkpoint(folder / "a.safetensors").load()
    return entry and ({name: tensor.tolist() for name, tensor in entry.tensors.items()}, entry.facts)


def make_model(folder: Path) -> list[Path]:
    from scail import IncrementalClassifier
    from tests.classifier.little import little_images

    made = IncrementalClassifier(memory=6, method="slda", backbone="resnet8-half", image_size=8, verbose=False)
    made.learn(*little_images("cat", "dog")).save(folder)
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("learn.lock", "README.md"))


def read_model(folder: Path) -> Any:
    from scail.classifier.answering import Answerer
    from scail.classifier.folder import look
    from scail.classifier.folder import read_model as read
    from scail.server.current import read_served

    model, stamp = read(folder)
    answer = Answerer.open(folder, threads=1).answer(colours())
    read_served(folder)
    look(folder)
    return stamp, model.classes, answer.odds.tolist(), model.exemplars.images.tolist()


def sign(path: Path) -> None:
    """A manifest that was changed, with the checksum of what it says now."""
    from scail.classifier.folder.record import digest_of_record

    try:
        record = json.loads(path.read_bytes())
        path.write_bytes(json.dumps({**record, "sha256": digest_of_record(record)}).encode())
    except (ValueError, TypeError, RecursionError):
        pass


def make_manifest(folder: Path) -> list[Path]:
    return [path for path in make_model(folder) if path.name == "manifest.json"]


def rename(path: Path) -> None:
    """Another file of the model, under the name and with the checksum that the manifest has for it then."""
    record = json.loads((path.parent / "manifest.json").read_bytes())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"{path.name.partition('-')[0]}-{digest[:32]}{path.suffix}"
    text = json.dumps(record).replace(record[path.name.partition("-")[0]]["sha256"], digest)
    (path.parent / name).write_bytes(path.read_bytes())
    (path.parent / "manifest.json").write_text(text.replace(path.name, name))
    sign(path.parent / "manifest.json")


def read_renamed(folder: Path) -> Any:
    """What `rename` made; the manifest and the names are then as before."""
    sound = (folder / "sound").read_bytes()
    try:
        return read_model(folder)
    finally:
        known = json.loads(sound)
        named = {file["name"] for file in (known["network"], known["evidence"], known["answer"], *known["features"])}
        for path in folder.glob("*-*"):
            if path.name not in named:
                path.unlink()
        (folder / "manifest.json").write_bytes(sound)


def make_renamed(folder: Path) -> list[Path]:
    files = make_model(folder)
    shutil.copy(folder / "manifest.json", folder / "sound")
    return [path for path in files if path.name.startswith(("network", "evidence", "answer"))]


def _taught_server(folder: Path) -> Path:
    """A model beside what is changed, and the folder of its server."""
    from scail.server.desk import Desk, desk_of

    model = folder.with_name(f"{folder.name}-model")
    model.mkdir()
    make_model(model)
    desk = Desk(desk_of(model))
    desk.make()
    return desk.root


def _answers(folder: Path, *routes: str) -> list[Any]:
    """What the server answers; nothing that lies on its desk is a reason not to."""
    from starlette.testclient import TestClient

    from scail.server.app import make_app
    from scail.server.settings import ServerSettings

    model = folder.with_name(f"{folder.name}-model")
    if model not in _clients:
        app = make_app(ServerSettings(model, inbox=9))  # no tutor: nothing is begun, and nobody asks for a change
        _clients[model] = TestClient(app, base_url="http://127.0.0.1:8000")
    found = [_clients[model].get(route) for route in routes]
    assert all(one.status_code in (200, 404) for one in found), [one.text[:200] for one in found]
    return [one.content for one in found]


_clients = dict[Path, Any]()


def make_desk(folder: Path) -> list[Path]:
    from scail.server.desk import Desk, new_job

    desk = Desk(folder)
    desk.make()
    for kind in ("learn", "rename"):
        job = new_job(kind, classes=("cat",), to="dog")
        desk.add(job, [b"picture"])
        desk.say(job, {"said": "half"})
        desk.say(job, {"done": 1, "of": 2, "unit": "image"})
    desk.keep_report("0" * 64, {"accuracy": {"top1": 50.0}, "classes": {"cat": [4, 2]}})
    return sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl"))


def read_desk(folder: Path) -> Any:
    """As the server's routes and its tutor do."""
    from types import SimpleNamespace

    from starlette.responses import JSONResponse

    from scail.server.desk import Desk
    from scail.server.job_routes import told

    desk = Desk(folder)
    jobs, service = desk.all_jobs(), SimpleNamespace(desk=desk)
    shown = [JSONResponse(told(service, job)).body for job in jobs]  # type: ignore[arg-type]
    report = desk.report("0" * 64)
    accuracy = ((report or {}).get("accuracy") or {}).get("top1")
    counts = [(name, images, right) for name, (images, right) in (report or {"classes": {}})["classes"].items()]
    desk.sweep()
    return [asdict(job) for job in jobs], shown, accuracy, counts


def make_inbox(folder: Path) -> list[Path]:
    from scail.server.current import read_served
    from scail.server.inbox import Inbox

    model, desk = read_served(_taught_server(folder).with_name(f"{folder.name}-model")), folder
    inbox = Inbox(desk, 9, 30)
    for n in range(3):
        inbox.put(f"{n:032x}", colours(), model.answerer.answer(colours() // (n + 1)), model)
    inbox.close()
    return sorted(path for path in folder.iterdir())


def read_inbox(folder: Path) -> Any:
    """In a copy: what is damaged is written anew."""
    inbox = folder.with_name(f"{folder.name}-model.serve") / "inbox"
    shutil.rmtree(inbox, ignore_errors=True)
    shutil.copytree(folder, inbox)
    found = json.loads(_answers(folder, "/v1/inbox")[0])
    shown = _answers(folder, *(one["url"] for group in found["groups"] for one in group["images"]))
    return found, [hashlib.sha256(one).digest() for one in shown]


READERS = {
    one.name: one
    for one in (
        Reader("pictures", make_pictures, read_pictures),
        Reader("pictures sent", make_pictures, read_sent, whole=False),
        Reader("archives sent", make_archive_of_pictures, read_archive_of_pictures, whole=False),
        Reader("idx", make_idx, read_idx),
        Reader("cifar pickles", make_cifar, read_cifar),
        Reader("cifar archive", make_cifar_archive, read_cifar),
        Reader("ilsvrc devkit", make_devkit, read_devkit),
        Reader("parquet", make_parquet, read_parquet),
        Reader("packed copy", make_packed, read_packed, json=True),
        Reader("listings", make_listing, read_listing),
        Reader("tables of data sets", make_tables, read_tables),
        Reader("yaml grids", make_yaml, read_yaml),
        Reader("published tables", make_published, read_published),
        Reader("run folders", make_runs, read_runs, json=True),
        Reader("figures of a run", make_drawn_run, read_drawn_run, json=True),
        Reader("kept numbers", make_kept, read_kept, json=True),
        Reader("weights", make_weights, read_weights),
        Reader("stored states", make_store, read_store, sealed=True, json=True),
        Reader("checkpoints", make_checkpoint, read_checkpoint, sealed=True),
        Reader("model folders", make_model, read_model, sealed=True, json=True),
        Reader("signed manifests", make_manifest, read_model, json=True, after=sign),
        Reader("signed numbers", make_renamed, read_renamed, after=rename),
        Reader("server desk", make_desk, read_desk, json=True),
        Reader("server inbox", make_inbox, read_inbox, json=True),
    )
}
