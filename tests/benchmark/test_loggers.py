"""Loggers: what is sent, to whom, and what happens where it cannot be sent."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from scail.benchmark import loggers
from scail.benchmark.loggers import RunLog, check_logger, logging_to, metrics_of
from scail.benchmark.runner import run_experiment
from scail.cli.main import main
from scail.results.run_directory import RunDirectory

TINY = ["run", "--dataset", "digits", "--classes", "6", "--images-per-class", "20", "--states", "3", "--epochs", "2",
        "--memory", "12", "--methods", "ft,scail", "--select", "random", "--jobs", "1"]  # fmt: skip


def scail(tmp_path, *arguments):
    command = [
        sys.executable,
        "-m",
        "scail",
        *TINY,
        "--out",
        tmp_path / "run",
        "--store",
        tmp_path / "store",
        *arguments,
    ]
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, check=False)


class Recorder:
    """Stands in for a logger of Fabric's, and keeps what it is told."""

    def __init__(self, run):
        self.run, self.metrics, self.settings, self.status = run, [], {}, None

    def log_metrics(self, metrics, step):
        self.metrics.append((step, metrics))

    def log_hyperparams(self, settings):
        self.settings = settings

    def finalize(self, status):
        self.status = status


@pytest.fixture
def recorders(monkeypatch):
    made = []

    def create(name, folder, run):
        made.append(Recorder(run))
        return made[-1]

    monkeypatch.setattr(loggers, "create_logger", create)
    return made


QUIET = SimpleNamespace(begin=lambda jobs: None, receive=lambda update: None, end=lambda: None)


def test_every_loss_and_every_measurement_is_sent(tiny, tmp_path, recorders):
    experiment = tiny.but(methods=("ft", "scail"), select=("random",))
    with logging_to("wandb", tmp_path / "logs", QUIET) as (begin, receive):
        results = run_experiment(
            experiment, tmp_path / "run", store=tmp_path / "s", jobs=1, begin=begin, receive=receive
        )
    (log,) = recorders
    assert log.run == "FT-random-exemplars" and log.status == "success"
    assert log.settings["later_schedule.epochs"] == 1 and log.settings["trainer"] == "fine_tune"
    losses = [(step, metrics) for step, metrics in log.metrics if "loss" in metrics]
    assert [(step, metrics["state"]) for step, metrics in losses] == [(1, 0), (2, 0), (3, 1), (4, 2)]
    sent = {(step, name): value for step, metrics in log.metrics for name, value in metrics.items()}
    for row in results.rows:
        assert sent[row.state, f"top1/{row.method}"] == row.top1 and sent[row.state, f"top5/{row.method}"] == row.top5
    assert (0, "past_top1/ft") not in sent and (1, "past_top1/ft") in sent


def test_past_and_new_accuracy_follow_from_the_counts():
    errors = {"c(p)": 1, "e(p,p)": 1, "e(p,n)": 2, "c(n)": 3, "e(n,n)": 1, "e(n,p)": 0}
    row = SimpleNamespace(
        method="ft", top1=50.0, top5=90.0, classes=4, exemplars=8, errors=errors, scores={"past": None, "new": 2.0}
    )
    assert metrics_of(row) == {
        "classes": 4.0, "exemplars": 8.0, "top1/ft": 50.0, "top5/ft": 90.0, "past_top1/ft": 25.0, "new_top1/ft": 75.0,
        "new_score/ft": 2.0,
    }  # fmt: skip


def test_what_was_interrupted_is_closed_as_failed(tiny, tmp_path, recorders):
    def stop(update):
        if update.measured is not None:
            raise KeyboardInterrupt

    told = SimpleNamespace(begin=lambda jobs: None, receive=stop, end=lambda: None)
    with pytest.raises(KeyboardInterrupt), logging_to("mlflow", tmp_path, told) as (begin, receive):
        run_experiment(tiny, tmp_path / "run", store=tmp_path / "s", jobs=1, begin=begin, receive=receive)
    assert recorders[0].status == "failed"


def test_after_an_interruption_steps_go_on(tiny, tmp_path, recorders):
    experiment = tiny.but(methods=("ft",), select=("random",))

    def stop(update):
        if update.measured is not None:
            raise KeyboardInterrupt

    interrupted = SimpleNamespace(begin=lambda jobs: None, receive=stop, end=lambda: None)
    for told in (interrupted, QUIET):
        with contextlib.suppress(KeyboardInterrupt), logging_to("wandb", tmp_path, told) as (begin, receive):
            run_experiment(experiment, tmp_path / "run", store=tmp_path / "s", jobs=1, begin=begin, receive=receive)
    first, second = ([step for step, metrics in log.metrics if "loss" in metrics] for log in recorders)
    assert (first, second) == ([1, 2], [3, 4])
    assert [step for step, metrics in recorders[1].metrics if "top1/ft" in metrics] == [0, 1, 2]


def test_epochs_of_several_stages_are_counted_on(tiny, tmp_path, recorders):
    experiment = tiny.but(methods=("ft_bal",), memory=12)
    with logging_to("wandb", tmp_path, QUIET) as (begin, receive):
        run_experiment(experiment, tmp_path / "run", store=tmp_path / "s", jobs=1, begin=begin, receive=receive)
    steps = [step for step, metrics in recorders[0].metrics if "loss" in metrics]
    assert steps == [1, 2, 3, 4, 5, 6]  # two epochs in state 0, then one of each of two stages in two states


def test_a_run_that_goes_on_keeps_its_log_and_another_one_does_not(tmp_path):
    run, logs = RunDirectory(tmp_path / "run"), tmp_path / "run" / "logs"
    run.begin({"experiment": {"seed": 1}})
    (logs / "run").mkdir(parents=True)
    (logs / "run" / "events.out.tfevents.1").touch()
    run.end()
    run.begin({"experiment": {"seed": 1}})
    run.end()
    assert logs.exists()
    run.begin({"experiment": {"seed": 2}})
    run.end()
    assert not logs.exists()


def test_without_a_logger_nothing_is_made(tmp_path):
    with logging_to(None, tmp_path / "logs", QUIET):
        pass
    assert not (tmp_path / "logs").exists()


def test_a_package_that_is_missing_is_an_error_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        main([*TINY, "--logger", "mlflow", "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert end.value.code == 2 and "pip install 'scail[mlflow]'" in said and not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="wandb needs wandb and pytorch_lightning"):
        check_logger("wandb")


def test_a_logger_that_cannot_be_started_stops_the_run_before_it_trains(monkeypatch, tmp_path):
    def create(name, folder, run):
        raise RuntimeError("no such server")

    monkeypatch.setattr(loggers, "create_logger", create)
    job = SimpleNamespace(title="FT", line=None, setup=None)
    with pytest.raises(ValueError, match="--logger wandb: cannot be started: no such server"):
        RunLog("wandb", tmp_path).begin([job])


@pytest.mark.filterwarnings("ignore")  # of the packages, not ours
@pytest.mark.soak
def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = scail(tmp_path, "--logger", "tensorboard")
    assert done.returncode == 0, done.stderr
    found = EventAccumulator(str(tmp_path / "run" / "logs" / "FT-random-exemplars")).Reload()
    assert {"loss", "top1/ft", "top1/scail", "top5/scail", "past_top1/scail"} <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("loss")] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in found.Scalars("top1/scail")] == [0, 1, 2]


def test_wandb(tmp_path):
    for package in ("wandb", "pytorch_lightning"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    done = scail(tmp_path, "--logger", "wandb")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "run" / "logs" / "wandb").glob("offline-run-*/*.wandb"))) == 1


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path):
    for package in ("mlflow", "sqlalchemy", "pytorch_lightning"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from mlflow import MlflowClient

    done = scail(tmp_path, "--logger", "mlflow")
    assert done.returncode == 0, done.stderr
    client = MlflowClient(f"sqlite:///{tmp_path / 'run' / 'logs' / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'run'")
    (one,) = client.search_runs([experiment.experiment_id])
    assert one.info.run_name == "FT-random-exemplars" and one.info.status == "FINISHED"
    assert one.data.metrics["top5/scail"] > 0
