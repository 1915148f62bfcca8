"""A network that does not move any more, run by onnxruntime: the same features to 1e-4, in less time on a CPU."""

from __future__ import annotations

import hashlib
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from scail.datasets.dataset import Images
from scail.datasets.images.batches import centre_batches
from scail.networks.network import Network, extract_features
from scail.networks.packed import Packed
from scail.runtime.onnx_session import onnx_session
from scail.runtime.ranks import ALONE, Ranks
from scail.runtime.seeds import generator_for
from scail.storage.cache import cache_dir, keep, kept

_BATCH = 8  # large enough to be quick, small enough to stay in a cache
_TOLERANCE = 1e-4
_KEPT = 4  # sessions
_GRAPH_VERSION = 1  # raise it when a change makes other graphs


def exported_graph(module: nn.Module, images: Tensor, output: str) -> bytes:
    """The module as an ONNX graph: `images` like these in, any number of them; `output` out."""
    file = BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own remarks on what it folds, and that a newer one exists
        torch.onnx.export(
            module.eval(), (images,), file, dynamo=False,  # type: ignore[arg-type]
            opset_version=18,
            input_names=["images"], output_names=[output],
            dynamic_axes={"images": {0: "n"}, output: {0: "n"}},
        )  # fmt: skip
    return file.getvalue()


def kept_graph(network: Network, height: int, width: int) -> bytes:
    """The graph of `features_graph`, from the cache where it is there: to make it takes longer than to use it.

    Of a network in 8 bits it is the one that it has.
    """
    if network.int8 is not None:
        return network.int8
    return kept(_place(network, height, width)) or features_graph(network, height, width)


def _place(network: Network, height: int, width: int) -> Path:
    """By all that decides the graph."""
    versions = f"{torch.__version__}-{version('onnxruntime')}-{_GRAPH_VERSION}"
    return cache_dir() / "graphs" / f"{features_digest(network)[:32]}-{height}x{width}-{versions}.onnx"


def features_graph(network: Network, height: int, width: int) -> bytes:
    """An ONNX graph: N x channels x height x width uint8 images in, N x D features out."""
    frozen = _frozen_copy(network).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    if isinstance(frozen.backbone, Packed):  # the exporter follows no exchange of weights
        frozen.backbone = frozen.backbone.unpacked().eval()
    # Two images, so that nothing takes the first axis for a one.
    images = torch.zeros(2, network.channels, height, width, dtype=torch.uint8)
    return exported_graph(_FeaturesOnly(frozen), images, "features")


class _FeaturesOnly(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.features(images)


def _frozen_copy(network: Network) -> Network:
    return network.clone().cpu().eval()


class FrozenFeatures:
    """Features of images of one size, as `extract_features` gives them, from the network as it is now.

    Without onnxruntime, torch computes them.
    """

    def __init__(self, network: Network, height: int, width: int, threads: int = 1) -> None:
        self.shape, self.feature_size = (network.channels, height, width), network.feature_size
        self._network = _frozen_copy(network)
        self._session, self._threads = None, threads
        if network.int8 is not None:
            self._session = _int8_session(network.int8)
        elif find_spec("onnxruntime"):
            place = _place(network, height, width)
            if (graph := kept(place)) is not None:  # it was checked when it was made
                self._session = onnx_session(graph, 1)
            else:
                graph = features_graph(network, height, width)
                self._session = onnx_session(graph, 1)
                self._check()
                keep(place, graph)

    def of(self, images: Images) -> Tensor:
        """N x D features of N images, float32, on the CPU; not a bit depends on how many there are."""
        if tuple(images.shape[1:]) != self.shape:
            raise ValueError(f"images of {tuple(images.shape[1:])}, expected {self.shape}: channels, height, width")
        if self._session is None:
            return extract_features(self._network, images)
        # Batches side by side, each on one core, are a fifth faster than one batch after the other on all cores.
        with ThreadPoolExecutor(self._threads) as threads:
            running, chunks = deque[Future[Tensor]](), list[Tensor]()
            for batch in centre_batches(images, _BATCH):
                running.append(threads.submit(self._run, batch))
                if len(running) > 2 * self._threads:  # no more in memory than is needed to keep all busy
                    chunks.append(running.popleft().result())
            chunks += [one.result() for one in running]
        return torch.cat(chunks) if chunks else torch.empty(0, self.feature_size)

    def _run(self, batch: Tensor) -> Tensor:
        assert self._session is not None
        (features,) = self._session.run(["features"], {"images": batch.cpu().contiguous().numpy()})
        return torch.from_numpy(features)

    def _check(self) -> None:
        """Two random images: a runtime that computes something else is not used."""
        images = torch.randint(0, 256, (2, *self.shape), dtype=torch.uint8, generator=generator_for(0, "images"))
        found, expected = self.of(images), extract_features(self._network, images)
        scale = max(1.0, float(expected.abs().max()))
        if not torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE * scale):
            raise RuntimeError(
                f"onnxruntime computes other features of {self._network.name} than torch: they differ by up to "
                f"{(found - expected).abs().max():.2g}"
            )


def _int8_session(graph: bytes) -> Any:
    try:
        return onnx_session(graph, 1)
    except Exception as error:  # onnxruntime has a dozen kinds of its own; ImportError
        raise ValueError(f"onnxruntime cannot read the network in 8 bits ({str(error)[:200]})") from error


def onnx_features(network: Network, images: Images, ranks: Ranks = ALONE) -> Tensor:
    """N x D features of N images, by a network that does not move; ranks share them out."""
    height, width = images.shape[2:]
    frozen = frozen_features(network, height, width, torch.get_num_threads())
    parts = [range(part.start, part.stop) for part in ranks.parts(len(images))]
    if ranks.count > 1:
        images = images[torch.arange(parts[ranks.rank].start, parts[ranks.rank].stop)]
    return ranks.gathered_rows(frozen.of(images), [len(part) for part in parts])


_made: dict[tuple[object, ...], FrozenFeatures] = {}
_making = Lock()


def frozen_features(network: Network, height: int, width: int, threads: int = 1) -> FrozenFeatures:
    """The features of this network, made once for each set of weights and image size; the latest few are kept."""
    key = (features_digest(network), height, width, threads)
    with _making:
        found = _made.pop(key, None) or FrozenFeatures(network, height, width, threads)
        _made[key] = found  # now the latest
        while len(_made) > _KEPT:
            del _made[next(iter(_made))]
    return found


def features_digest(network: Network) -> str:
    """Of all that features depend on: its name, which says how images are scaled, weights, and the graph in 8 bits.

    The layer may change.
    """
    digest = hashlib.sha256(network.name.encode())
    for key, tensor in network.state_dict().items():
        if not key.startswith("linear."):
            digest.update(f"{key} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    digest.update(network.int8 or b"")
    return digest.hexdigest()
