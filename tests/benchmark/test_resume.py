"""Runs that are killed, stopped or started twice, in real processes; the others run in this one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scail.cli.main import main
from scail.config import Schedule
from scail.datasets.images.batches import Augmentation
from scail.networks.precision import FULL, HALF, quick_bf16
from scail.runtime.devices import make_fabric
from scail.storage.store import Store
from scail.training import (
    Der,
    DerPruned,
    EndToEnd,
    FineTune,
    GrowingBrain,
    Interrupted,
    Joint,
    Lucir,
    LwfSoftmax,
    M2kd,
    Packnet,
    Podnet,
    Progressive,
    Task,
    ThresholdMoving,
    Trained,
    Wa,
)
from tests.forked import Forked
from tests.storage.stored import read_only, without_privileges, writable

RUN = (
    *("run", "--dataset", "digits", "--states", "3", "--epochs", "8,6"),
    *("--methods", "ft,ft_nem,scail", "--select", "herding"),
)

pytestmark = pytest.mark.usefixtures("undrawn")


def start(folder: Path, store: Path, *options: str) -> Forked:
    return Forked(*RUN, "--out", str(folder), "--store", str(store), *options)


def run(folder: Path, store: Path, *options: str) -> str:
    """To its end, in this process; gives what it said."""
    said = io.StringIO()
    with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        main([*RUN, "--out", str(folder), "--store", str(store), "--jobs", "1", *options])
    assert not end.value.code, said.getvalue()
    return said.getvalue()


def wait_for(process: Forked, text: str) -> str:
    """Read lines until one holds `text`."""
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"ended without {text!r}:\n{said}")


def measured(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "trained_epochs"} for row in rows]


def tensors(store: Path) -> dict[str, bytes]:
    return {f.parent.name: f.read_bytes() for f in sorted((store / "states").glob("*/tensors.safetensors"))}


@pytest.fixture(scope="module", params=["auto", pytest.param("32-true", marks=pytest.mark.soak)])
def precision(request):
    """Both number formats, where the machine is quick at both: `auto` is then bfloat16."""
    if request.param != "auto" and not quick_bf16("cpu"):
        pytest.skip("this processor has no quick bfloat16: auto is 32-true")
    return ("--precision", request.param, "--accelerator", "cpu")


@pytest.fixture(scope="module")
def undisturbed(precision, tmp_path_factory):
    """One run that nothing disturbs."""
    place = tmp_path_factory.mktemp("undisturbed")
    run(place / "run", place / "store", *precision)
    return place


@pytest.mark.parametrize("tries", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_at_random_moments_it_ends_with_the_same_bits(undisturbed, precision, tmp_path, tries):
    moments = random.Random(os.environ.get("SCAIL_KILL_SEED", "1"))
    kills = 0
    for _ in range(tries + 25):
        with start(tmp_path / "run", tmp_path / "store", *precision, "--jobs", "1") as process:
            if kills < tries:
                wait_for(process, "state 0")
                time.sleep(moments.uniform(0.0, 0.9))
                process.kill()
            process.communicate()
        if process.returncode == 0:
            break
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 2, "the run was over before it could be killed twice"
    assert process.returncode == 0
    assert measured(tmp_path / "run") == measured(undisturbed / "run")
    assert tensors(tmp_path / "store") == tensors(undisturbed / "store")
    assert not list((tmp_path / "store" / "unfinished").iterdir())


@pytest.mark.parametrize(
    ("number", "jobs"),
    [(signal.SIGINT, "1"), (signal.SIGTERM, "1"), pytest.param(signal.SIGINT, "2", marks=pytest.mark.soak)],
)
def test_asked_to_stop_it_saves_and_says_so_and_goes_on(undisturbed, precision, tmp_path, number, jobs):
    extra = ("--methods", "ft,ft_nem,scail,full", "--jobs", jobs) if jobs == "2" else ("--jobs", jobs)
    with start(tmp_path / "run", tmp_path / "store", *precision, *extra) as process:
        wait_for(process, "state 0: training")
        time.sleep(0.3)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Nothing is lost" in said
    assert "Traceback" not in said
    run(tmp_path / "run", tmp_path / "store", *precision)
    assert measured(tmp_path / "run") == measured(undisturbed / "run")


def test_a_second_run_trains_nothing_and_says_so(undisturbed, precision, tmp_path):
    said = run(tmp_path / "again", undisturbed / "store", *precision)
    assert "state 0: from the store" in said
    assert ": training" not in said
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["trained_epochs"] == 0
    assert measured(tmp_path / "again") == measured(undisturbed / "run")


def test_two_at_once_train_each_state_once(undisturbed, precision, tmp_path):
    both = [start(tmp_path / name, tmp_path / "store", *precision, "--jobs", "1") for name in ("one", "two")]
    for process in both:
        with process:
            process.communicate()
        assert process.returncode == 0
    epochs = [json.loads((tmp_path / n / "summary.json").read_text())["trained_epochs"] for n in ("one", "two")]
    assert sum(epochs) == 8 + 6 + 6
    assert measured(tmp_path / "one") == measured(tmp_path / "two") == measured(undisturbed / "run")


def test_a_damaged_state_is_named_and_made_again(undisturbed, precision, tmp_path):
    import shutil

    shutil.copytree(undisturbed / "store", tmp_path / "store")
    key = next(
        item.key for item in Store(tmp_path / "store").listing() if item.facts["state"] == 1 and "losses" in item.facts
    )
    path = tmp_path / "store" / "states" / key / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    said = run(tmp_path / "run", tmp_path / "store", *precision)
    assert f"state 1: damaged in the store, made again ({path}" in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trained_epochs"] == 6
    assert measured(tmp_path / "run") == measured(undisturbed / "run")


def test_whoever_makes_room_meanwhile_disturbs_nobody(undisturbed, precision, tmp_path):
    """All the time, and with zero days: what a run that lives has saved or is just writing stays."""
    store = Store(tmp_path / "store")
    with start(tmp_path / "run", tmp_path / "store", *precision, "--jobs", "1") as process:
        wait_for(process, "state 0: training")
        rounds = 0
        while process.returncode is None:
            store.sweep(0)
            time.sleep(0.002)
            rounds += 1
        said, _ = process.communicate()
    assert process.returncode == 0 and rounds > 20, said
    assert measured(tmp_path / "run") == measured(undisturbed / "run")


def run_as_a_user() -> None:
    without_privileges()
    main()


def test_a_read_only_store_serves_a_run_whose_states_are_all_there(tmp_path):
    """Completions and test features too, and the checkpoint of one who was killed right after the state was saved."""
    options = ("--methods", "ft,bic,deesil", "--states", "2", "--epochs", "1", "--keep-features")
    run(tmp_path / "one", tmp_path / "store", *options)
    store = Store(tmp_path / "store")
    kinds = {item.facts.get("kind") for item in store.listing()}
    assert kinds == {None, "completion", "test features"}
    for item in store.listing():
        store.checkpoint(item.key).stage("training").save(store.load(item.key))
    before = sorted((tmp_path / "store").rglob("*"))
    read_only(tmp_path / "store")
    arguments = (*RUN, "--out", str(tmp_path / "two"), "--store", str(tmp_path / "store"), "--jobs", "1", *options)
    try:
        with Forked(*arguments, run=run_as_a_user) as process:
            said, _ = process.communicate()
    finally:
        writable(tmp_path / "store")
    assert process.returncode == 0, said
    assert measured(tmp_path / "two") == measured(tmp_path / "one")
    assert sorted((tmp_path / "store").rglob("*")) == before


def test_another_memory_size_trains_the_later_states_only(undisturbed, precision, tmp_path):
    said = run(tmp_path / "run", undisturbed / "store", *precision, "--memory", "10")
    assert "state 0: from the store" in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trained_epochs"] == 6 + 6


OTHERS = {
    "e2e": EndToEnd, "lucir": Lucir, "wa": Wa, "podnet": Podnet, "threshold_moving": ThresholdMoving, "der": Der,
    "der_pruned": DerPruned, "packnet": Packnet, "progressive": Progressive, "growing_brain": GrowingBrain,
    "m2kd": M2kd, "lwf_softmax": LwfSoftmax,
}  # fmt: skip
STOPS = dict.fromkeys(("e2e", "podnet", "der", "der_pruned", "m2kd"), (2, 16, 17, 20))
STOPS |= dict.fromkeys(("packnet", "progressive"), (3, 8, 9, 14))


TRAININGS = [("fine_tune", "cosine"), ("fine_tune", "plateau"), ("fine_tune", "summed"), ("fine_tune", "adam")]
TRAININGS += [(name, "cosine") for name in OTHERS]
IN_HALF = {("fine_tune", "cosine"), ("e2e", "cosine")}  # of all the others in `make soak`


@pytest.mark.parametrize(
    ("name", "decay", "precision"),
    [(*training, FULL) for training in TRAININGS]
    + [pytest.param(*of, HALF, marks=() if of in IN_HALF else pytest.mark.soak) for of in TRAININGS],
)
def test_a_training_stopped_after_any_batch_ends_with_the_same_bits(store_dir, name, decay, precision):
    if precision == HALF and not quick_bf16("cpu"):
        pytest.skip("this processor has no quick bfloat16")
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (50, 1, 8, 8), dtype=torch.uint8, generator=draw)
    labels = torch.arange(50) % 2
    summed = {"micro_batch": 4, "sum_micro_batches": True} if decay == "summed" else {}
    way = {"optimizer": "adam", "lr": 0.01} if decay == "adam" else {"lr": 0.5}
    decay = "plateau" if decay in ("summed", "adam") else decay
    schedule = Schedule(epochs=4, batch_size=16, decay=decay, patience=0, **way, **summed)
    trainer = FineTune(Joint("resnet8", schedule), schedule)
    fabric = make_fabric("cpu", precision)
    previous, carried = None, {}
    if name in OTHERS:  # with a teacher; some have two stages
        short = replace(schedule, epochs=2)
        two = {"e2e": (trainer, short), **dict.fromkeys(("der", "der_pruned"), (trainer.first, schedule, short))}
        two |= {"packnet": (trainer.first, schedule, short), "progressive": (trainer.first, schedule)}
        two |= dict.fromkeys(("growing_brain", "lwf_softmax"), (trainer.first, schedule))
        two |= dict.fromkeys(("podnet", "m2kd"), ("resnet8", schedule, short))
        given = two.get(name, ("resnet8", schedule))
        other = OTHERS[name](*given)
        first = Task(0, images[:20], 0 * labels[:20], 1, None, Augmentation(1), 5, fabric)
        previous, trainer = (trainer if name == "e2e" else other).train(first), other
        none = torch.empty(0, dtype=torch.int64)
        carried = other.complete(Trained(previous, none, none, none, none, none), first) if name == "m2kd" else {}

    def train(stop_after: int | None, checkpoint):
        batches = 0

        def stop_asked() -> bool:
            nonlocal batches
            batches += 1
            return batches == stop_after

        state = 0 if previous is None else 1
        task = Task(
            state, images, labels, 2, previous, Augmentation(1), 5, fabric,
            stop_asked=stop_asked, checkpoint=checkpoint, past_classes=state, budget=25,
            carried=carried,
        )  # fmt: skip
        return trainer.train(task).state_dict()

    whole = train(None, None)
    # Four batches an epoch (three, where micro-batches are summed): within epochs and at their ends; a second stage
    # begins after batch 16. Where new classes and past ones are trained apart an epoch has two, and it begins after 8.
    for stop_after in STOPS.get(name, (1, 3, 4, 6, 11)):
        checkpoint = Store(store_dir).checkpoint(f"{stop_after}")
        with pytest.raises(Interrupted):
            train(stop_after, checkpoint)
        resumed = train(None, checkpoint)
        assert all(torch.equal(resumed[name], value) for name, value in whole.items())
