"""One network on several devices: real processes over gloo, on the CPU."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning_fabric import Fabric

from scail.datasets.images.batches import Augmentation, batch_sizes, training_batches
from scail.networks.network import extract_features
from scail.runtime.ranks import ALONE, Ranks
from scail.runtime.seeds import generator_for
from tests.forked import Forked
from tests.runtime.ranks_worker import (
    LOSSES,
    STILL,
    images_of,
    main,
    network_for,
    plain_network,
    trained,
    with_batch_norm,
)

COUNT = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ranks(place: Path, count: int) -> list[Forked]:
    """As torchrun would."""
    around = os.environ | {
        "TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0",
    }  # fmt: skip
    run = partial(main, place, count)
    return [Forked(run=run, env=around | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What three ranks found."""
    place = tmp_path_factory.mktemp("ranks")
    running = start_ranks(place, COUNT)
    said = [process.communicate(timeout=600)[0] for process in running]
    assert [process.returncode for process in running] == [0] * COUNT, "\n".join(said)
    return [torch.load(place / f"rank-{rank}.pt", weights_only=False) for rank in range(COUNT)]


@given(st.integers(0, 50), st.integers(1, 9))
def test_parts_are_disjoint_complete_in_order_and_even(count, ranks):
    parts = Ranks(0, ranks).parts(count)
    assert [row for part in parts for row in part] == list(range(count))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert [Ranks(rank, ranks).part(count) for rank in range(ranks)] == parts


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("count", [34, 33, 32, 7])
def test_together_ranks_see_the_batches_of_one_process(ranks, count):
    """Every image once, with the very same crops; also in a last batch with fewer images than ranks."""
    images, labels, draw = images_of(count), torch.arange(count), partial(generator_for, 1, "epoch")
    whole = list(training_batches(images, labels, 16, Augmentation(2), draw))
    parts = [
        list(training_batches(images, labels, 16, Augmentation(2), draw, ranks=Ranks(rank, ranks)))
        for rank in range(ranks)
    ]
    assert [len(batch) for batch, _ in whole] == batch_sizes(count, 16)
    for n, (batch, of) in enumerate(whole):
        assert torch.equal(torch.cat([part[n][0] for part in parts]), batch)
        assert torch.equal(torch.cat([part[n][1] for part in parts]), of)


def test_images_on_disk_are_shared_out_alike(tmp_path):
    from PIL import Image

    from scail.datasets.images.on_disk import table_of_files

    paths = []
    for n in range(11):
        paths.append(str(tmp_path / f"{n}.png"))
        Image.fromarray(images_of(11)[n, 0].numpy()).convert("RGB").save(paths[-1])
    table, labels, draw = table_of_files(paths, 8, 2), torch.arange(11), partial(generator_for, 1, "epoch")
    whole = list(training_batches(table, labels, 4, Augmentation(), draw))
    parts = [list(training_batches(table, labels, 4, Augmentation(), draw, ranks=Ranks(r, 4))) for r in range(4)]
    for n, (batch, of) in enumerate(whole):
        assert torch.equal(torch.cat([part[n][0] for part in parts]), batch)
        assert torch.equal(torch.cat([part[n][1] for part in parts]), of)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_whole_batch_for_every_loss(found, loss):
    """Without batch norm three ranks end where one process does, up to rounding: unequal and empty parts included."""
    alone = trained(Fabric(accelerator="cpu", devices=1), ALONE, loss, network_for(loss))
    begin = network_for(loss).state_dict()
    for name, value in alone.items():
        torch.testing.assert_close(found[0][loss][name], value, rtol=1e-4, atol=1e-6)
        if any(part in name for part in ("parts.0.", ".held.", ".free.")):
            assert torch.equal(found[0][loss][name], begin[name])  # it is held
        elif "weight" in name:
            assert (value - begin[name]).abs().max() > 1e-2  # it was trained


@pytest.mark.parametrize("what", [*LOSSES, "batch_norm", "statistics", "micro", "summed", "fearnet", "generated"])
def test_all_ranks_hold_the_same_network(found, what):
    """Weights and running statistics, to the bit."""
    for other in found[1:]:
        for name, value in found[0][what].items():
            if "num_batches_tracked" not in name:
                assert torch.equal(other[what][name], value), name


def test_micro_batches_on_ranks_are_the_whole_batch_too(found):
    """Also in the last batch, of which one rank has no image and the others one each."""
    alone = trained(Fabric(accelerator="cpu", devices=1), ALONE, "cross_entropy", plain_network(4))
    for name, value in alone.items():
        torch.testing.assert_close(found[0]["micro"][name], value, rtol=1e-4, atol=1e-6)


def test_running_statistics_come_from_the_images_of_all_ranks(found):
    """In the first layer, the mean over the parts of a batch is that of the batch."""
    alone = trained(Fabric(accelerator="cpu", devices=1), ALONE, "cross_entropy", with_batch_norm(), STILL)
    name = "backbone.bn1.running_mean"
    torch.testing.assert_close(found[0]["statistics"][name], alone[name], rtol=1e-3, atol=1e-3)


def test_features_are_gathered_to_the_bit(found):
    for count in (0, 1, 300, 1500):
        expected = extract_features(with_batch_norm(), images_of(count))
        assert len(expected) == count
        for of_rank in found:
            assert torch.equal(of_rank["features"][count], expected)


def test_words_between_ranks(found):
    for rank, of_rank in enumerate(found):
        assert of_rank["any"] == (True, False)
        assert of_rank["gathered"] == [0, 10, 20]
        assert of_rank["decided"] == "by 0"
        assert of_rank["on_first"] == ("made" if rank == 0 else None)


def test_an_error_of_one_is_an_error_of_all_and_one_says_it(found):
    for rank, of_rank in enumerate(found):
        trouble = of_rank["trouble"]
        assert trouble["differ"].startswith("RanksDiffer: state 1: exemplars differ between ranks (rank 0 def, rank 1")
        assert trouble["first"] == ("ValueError" if rank == 0 else "Told") + ": the disk is full"
        assert trouble["second"] == ("ValueError" if rank == 0 else "Told") + ": rank 1: the disk is full"
        assert trouble["stop"] == "KeyboardInterrupt"


def test_ranks_hold_the_same_exemplars_and_never_more_than_the_memory(found):
    kept = found[0]["memories"]["kept"]
    assert [len(state) for state in kept] == [2, 4, 6]
    for state in kept:
        assert sum(map(len, state)) <= 7
    assert sum(map(len, kept[-1])) == 7
    for other in found[1:]:
        assert other["memories"]["kept"] == kept


def test_a_rank_with_other_data_stops_all_before_they_train(found):
    for of_rank in found:
        said = of_rank["memories"]["other data"]
        assert said.startswith("state 1: data, settings or versions differ between ranks")


def test_ranks_wait_for_rank_0_longer_than_their_timeout(found):
    assert [of_rank["long"] for of_rank in found] == ["done"] * COUNT
