"""Every entry of METHODS goes through the same checks."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.runner import run_experiment
from scail.benchmark.trajectory import trajectories_in
from scail.heads.evidence import TENSORS
from scail.methods import METHODS, choose_methods, head_of
from scail.storage.store import Store

NAMES = list(METHODS)


@pytest.fixture(scope="module")
def measured(tiny, tmp_path_factory):
    """All methods, both selections; run once for the whole module."""
    place = tmp_path_factory.mktemp("conformance")
    return run_experiment(tiny, place / "run", store=place / "store", jobs=1)


@pytest.fixture(scope="module")
def shared_store(measured):
    """Where that run has put its states."""
    return measured.directory.parent / "store"


def evidences(experiment, store):
    """The evidence after each state, for each trajectory of the experiment."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    for trajectory in trajectories_in(settle(experiment)):
        for step in steps_of(trajectory, Store(store), fabric, Watch()):
            yield trajectory, step


def tensors_of(evidence):
    """All that a head may see; of a frozen network the moments too."""
    return {name: getattr(evidence, name) for name in TENSORS} | (vars(evidence.moments) if evidence.moments else {})


def expected_selections(name):
    method = METHODS[name]
    if method.trainer == "joint" or method.without_memory or method.ignores_memory:
        return {None}
    return {method.select} if method.select else {"random", "herding"}


@pytest.mark.parametrize("name", NAMES)
def test_every_state_is_measured_within_bounds(name, measured, tiny):
    rows = [row for row in measured.rows if row.method == name]
    assert {row.select for row in rows} == expected_selections(name)
    for row in rows:
        assert 0 <= row.top1 <= row.top5 <= 100
        assert sum(row.errors.values()) == row.test_images
        assert sum(row.past_errors_by_origin) == row.errors["e(p,p)"]
        assert row.exemplars <= row.memory
        assert row.memory == (0 if row.select is None else tiny.exemplars.memory)
    for select in expected_selections(name):
        states = [row.state for row in rows if row.select == select]
        assert states == ([0] if name == "full" else [0, 1, 2])


@pytest.mark.parametrize("name", NAMES)
def test_a_head_is_pure_and_covers_all_classes(name, tiny, shared_store):
    for trajectory, step in evidences(tiny, shared_store):
        if name not in trajectory.methods:
            continue
        evidence = step.learned.evidence
        before = {name: tensor.clone() for name, tensor in tensors_of(evidence).items()}
        size = evidence.new_features_MD.shape[1]
        features = torch.randn(7, size, generator=torch.Generator().manual_seed(0)).abs()
        once, again = (head_of(name, tiny.heads, step.learned).scores(features) for _ in range(2))
        assert torch.equal(once, again)
        assert once.shape == (7, step.state.num_classes)
        assert not once.isnan().any()
        assert (once > -torch.inf).any(1).all()  # every image can be given some class
        assert all(torch.equal(tensors_of(evidence)[n], value) for n, value in before.items())


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_an_image_do_not_depend_on_the_others(name, tiny, shared_store):
    for trajectory, step in evidences(tiny, shared_store):
        if name in trajectory.methods:
            evidence = step.learned.evidence
            features = torch.rand(5, evidence.new_features_MD.shape[1], generator=torch.Generator().manual_seed(1))
            head = head_of(name, tiny.heads, step.learned)
            alone = torch.cat([head.scores(one[None]) for one in features])
            torch.testing.assert_close(head.scores(features), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_named_alone_it_gives_what_it_gives_among_all(name, tiny, shared_store, measured, tmp_path):
    alone = run_experiment(tiny.but(methods=(name,)), tmp_path / "alone", store=shared_store, jobs=1)
    among = {(r.select, r.state): (r.top1, r.top5) for r in measured.rows if r.method == name}
    assert {(r.select, r.state): (r.top1, r.top5) for r in alone.rows} == among
    assert alone.summary["trained_epochs"] == 0  # nothing is trained twice


@pytest.mark.parametrize("name", [name for name in NAMES if METHODS[name].needs_exemplars])
def test_without_a_memory_it_is_left_out_of_all_and_an_error_when_named(name):
    chosen, notes = choose_methods(("all",), memory=0)
    assert name not in chosen
    assert any(METHODS[name].label in note for note in notes)
    with pytest.raises(ValueError, match="needs exemplars"):
        choose_methods((name,), memory=0)


def test_measures_follow_from_the_confusion_matrices(measured, tiny):
    """By the definitions, from what was predicted, not from the counts that rows have."""
    folder = measured.directory / "confusion"
    for record in measured.summary["methods"]:
        with np.load(folder / f"{record['method']}{'-' + record['select'] if record['select'] else ''}.npz") as archive:
            matrices = [archive[f"state_{k}"] for k in range(3)]
        right = [[100 * m[a : a + 2].trace(a) / m[a : a + 2].sum() for a in range(0, len(m), 2)] for m in matrices]
        fell = [max(right[0][0], right[1][0]) - right[2][0], right[1][1] - right[2][1]]
        assert record["forgetting"] == pytest.approx(np.mean(fell))
        moved = [right[2][0] - right[0][0], right[2][1] - right[1][1]]
        assert record["backward_transfer"] == pytest.approx(np.mean(moved))
        assert [state["by_state"] for state in record["per_state"]] == [pytest.approx(of) for of in right]
        top1 = [100 * m.trace() / m.sum() for m in matrices]
        assert record["last_top1"] == pytest.approx(top1[-1])
        assert record["mean_all_top1"] == pytest.approx(np.mean(top1))
        with np.load(folder / "full.npz") as archive:
            full = archive["state_0"]
        reference = 100 * full[4:, 4:].trace() / full[4:].sum()
        assert record["intransigence"] == pytest.approx(reference - right[2][2])


def test_what_is_counted_as_cost_follows_from_the_method(measured, tiny):
    cost = {(r["method"], r["select"]): r["cost"] for r in measured.summary["methods"]}
    ft, scail, icarl = cost["ft", "random"], cost["scail", "random"], cost["icarl", "herding"]
    assert ft["bytes_kept"] == 12 * 64  # twelve exemplars of 8 x 8 grey pixels
    assert scail["bytes_kept"] == ft["bytes_kept"] + 6 * 4 * (64 + 1) + 6 * 8  # rows, biases, and each class's state
    assert ft["image_passes"] == scail["image_passes"] < cost["ft_bal", "random"]["image_passes"]
    assert ft["seconds"] == scail["seconds"] > 0
    assert icarl["parameters"] == ft["parameters"]
    assert cost["ft_nomem", None]["bytes_kept"] == 0
    gram, sums, counts = 64 * 64 * 8, 6 * 64 * 8, 6 * 8
    assert cost["ncm", None]["bytes_kept"] == sums + counts  # it reads no Gram matrix
    assert cost["ridge", None]["bytes_kept"] == gram + sums + counts
    assert measured.summary["full"]["cost"]["bytes_kept"] == 6 * 20 * 64
    assert cost["der", "herding"]["flops"] > 2.9 * ft["flops"]
    (der,) = (record for record in measured.summary["methods"] if record["method"] == "der")
    grown, extractor = [of["parameters"] for of in der["per_state"]], ft["parameters"] - 6 * 65
    weights, norms = (
        extractor - 2 * 240,
        4 * 240,
    )  # 240 channels are normalised: two parameters each, and two statistics
    rows, inner = 6 * 4 * (64 + 1), 6 * 4 * (32 + 1)
    models = weights + 3 * norms * 4 + 6 * 8 + rows + inner  # a byte a weight; each model's norms; each class's rows
    assert cost["m2kd", "herding"]["bytes_kept"] == ft["bytes_kept"] + models + inner
    assert cost["m2kd", "herding"]["parameters"] == ft["parameters"]
    weights = 64 * 128 + 2 * 128 + 16 * (32 * 16 + 16 * 1) + 2 * 2 * (32 + 16)  # two bytes each
    others = 4 * (16 + 1 + 2 * (32 + 16)) + 2 * 8  # biases and statistics
    of_classes = 6 * (8 + 8 + 4)
    made_up = 3 * (2 * weights + others) + of_classes + 4 * 8
    assert cost["generative_replay", "herding"]["bytes_kept"] == ft["bytes_kept"] + made_up
    assert cost["generative_replay", "herding"]["parameters"] == ft["parameters"]
    decoder = (130 + 1) * 140 + (140 + 1) * 64
    assert cost["fearnet", None]["bytes_kept"] == 4 * (4 * (130 + 130 * 130) + decoder)
    recent = 2 * 20 * (64 + 1)
    memories = 2 * (64 + 1) * 140 + (140 + 1) * (130 + 1) + (130 + 1) * 4 + recent
    assert cost["fearnet", None]["parameters"] == extractor + memories + 6 * 7
    assert grown == [(k + 1) * extractor + (2 * k + 2) * (64 * (k + 1) + 1) for k in range(3)]
    packnet, columns, brain = cost["packnet", None], cost["progressive", None], cost["growing_brain", "random"]
    assert packnet["parameters"] == ft["parameters"] and packnet["flops"] > 2.9 * ft["flops"]
    assert columns["parameters"] > 3 * ft["parameters"] and 1 < brain["parameters"] / ft["parameters"] < 2


def test_given_the_state_of_an_image_only_classes_of_that_state_compete(measured):
    for row in measured.rows:
        assert row.task_given >= row.top1
        if row.method == "full":
            assert row.task_given == row.top1


@pytest.mark.parametrize("memory", [12, "3/class"])
def test_the_images_of_a_training_are_counted_before_it(tiny, tmp_path, memory):
    """What a trainer says that it goes through, against what its loop reports."""
    from lightning_fabric import Fabric

    for trajectory in trajectories_in(settle(tiny.but(memory=memory, select=("random",)))):
        seen = defaultdict(int)

        def count(state, progress, seen=seen):
            seen[state.index] += progress.images if progress.unit == "epoch" else 0

        steps = list(steps_of(trajectory, Store(tmp_path / trajectory.name), Fabric(accelerator="cpu", devices=1),
                              Watch(progress=count)))  # fmt: skip
        trained = [passes if epochs else 0 for passes, epochs in zip(trajectory.passes, trajectory.epochs, strict=True)]
        assert [seen[step.state.index] for step in steps] == trained, trajectory.name
        if memory != 12 and trajectory.memory:
            kept = [[len(rows) for rows in step.learned.memory.exemplars] for step in steps]
            assert kept == [[3] * 2, [3] * 4, [3] * 6], trajectory.name


def comparable(results):
    """Rows without what may differ between two runs of the same configuration."""
    return [replace(row, trained_epochs=0, provenance={}) for row in results.rows]


def test_same_seed_same_bits_other_seed_other_bits(tiny, measured, shared_store, tmp_path):
    one, two = measured, run_experiment(tiny, tmp_path / "b", store=tmp_path / "s2", jobs=1)
    assert comparable(one) == comparable(two)
    files = [sorted((s / "states").glob("*/tensors.safetensors")) for s in (shared_store, tmp_path / "s2")]
    assert files[0]
    assert [f.parent.name for f in files[0]] == [f.parent.name for f in files[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))
    other = run_experiment(tiny.but(seed=2), tmp_path / "c", store=tmp_path / "s3", jobs=1)
    assert [row.scores for row in other.rows] != [row.scores for row in one.rows]


@pytest.mark.soak
def test_the_number_of_processes_changes_nothing(tiny, measured, tmp_path):
    one, two = measured, run_experiment(tiny, tmp_path / "two", store=tmp_path / "store", jobs=2)
    assert comparable(one) == comparable(two)
    # Which of two trajectories trains the state 0 that they share is a matter of chance; nothing else is.
    texts = [(results.directory / "results.jsonl").read_text() for results in (one, two)]
    lines = [[json.loads(line) for line in text.splitlines()] for text in texts]
    for row in lines[0] + lines[1]:
        del row["trained_epochs"]
    assert lines[0] == lines[1]
    assert (one.directory / "weights.jsonl").read_text() == (two.directory / "weights.jsonl").read_text()
    for record in one.summary["methods"] + two.summary["methods"]:
        assert record["cost"].pop("seconds") >= 0  # a time is measured: it alone may differ
    assert one.summary["methods"] == two.summary["methods"]
    assert one.summary["trained_epochs"] == two.summary["trained_epochs"] > 0


def test_the_table_can_be_recomputed_from_the_directory(measured):
    from scail.results.run_directory import RunDirectory
    from scail.results.summary import summarise

    written = json.loads((measured.directory / "summary.json").read_text())
    recomputed = summarise(RunDirectory(measured.directory).rows(), RunDirectory(measured.directory).timing())
    assert {k: v for k, v in written.items() if k not in ("seconds", "world_size")} == recomputed


def test_a_state_from_the_store_serves_a_data_set_with_more_classes(tiny, tmp_path):
    """The same classes stand in other rows there: exemplars must be the same images, not the same row numbers."""
    few = tiny.but(classes=4, states=2, class_order="given", methods=("ft", "scail"), select=("random",), memory=8)
    more = few.but(classes=8, states=4)
    run_experiment(few, tmp_path / "few", store=tmp_path / "shared", jobs=1)
    reused = run_experiment(more, tmp_path / "a", store=tmp_path / "shared", jobs=1)
    fresh = run_experiment(more, tmp_path / "b", store=tmp_path / "fresh", jobs=1)
    assert reused.summary["trained_epochs"] < fresh.summary["trained_epochs"]
    strip = lambda results: [replace(row, trained_epochs=0) for row in results.rows]  # noqa: E731
    assert strip(reused) == strip(fresh)
