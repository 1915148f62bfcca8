"""The ONNX file that answers: picture of any size in, odds and the measure for unknown out.

Three pieces stand behind each other: the picture scaled, the network, the head. torch's exporter makes the network's
alone. A network that did not change is taken from the file before.

Shapes: C classes, P past ones, D features.
"""

from __future__ import annotations

import json
from importlib.metadata import version

import numpy as np
import torch
from torch import Tensor

from scail.classifier.answering import ANSWER_FORMAT, Answer, Answerer
from scail.classifier.inputs import labels_of
from scail.classifier.model import Model
from scail.classifier.odds import Odds
from scail.classifier.picture_scaling import Piece, picture_graph, scaled_picture, scaling_piece
from scail.heads import LinearHead
from scail.heads.strangeness import UNKNOWN, Strangeness
from scail.networks.onnx_features import features_digest, features_graph, kept_graph

_TOLERANCE = 1e-4
_NETWORK = "network/"  # names in the network's piece begin so
_PIXELS, _FEATURES = f"{_NETWORK}images", f"{_NETWORK}features"


def answer_graph(model: Model, former: bytes | None = None) -> bytes:
    """The file's content. `former`: that of the file before, whose network may be the same."""
    import onnx
    from onnx import TensorProto, helper

    shape, classes = model.settings.shape, len(model.classes)
    told = {
        "scail format": ANSWER_FORMAT, "scail": version("scail"), "method": model.settings.method,
        "classes": json.dumps(labels_of(model.classes), ensure_ascii=False),
        "shape": f"{shape.channels} x {shape.height} x {shape.width}",
        "unknown": "" if model.familiar is None else repr(UNKNOWN),
        "apart": repr(model.familiar.apart if model.familiar else 0.5),
        "network": features_digest(model.learned.network),
    }  # fmt: skip
    head, strangeness = model.head(), model.strangeness()
    network = _former_network(former, told) or _network_piece(model)
    pieces = [scaling_piece(shape, "picture", _PIXELS), network, _head_piece(head, strangeness, model.odds)]
    sizes: dict[str, list[int]] = {"odds": [classes], "scores": [classes], "strangeness": []}
    sizes["features"] = [model.learned.network.feature_size]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    whole = picture_graph("scail", pieces, outputs)
    helper.set_model_props(whole, told)
    onnx.checker.check_model(whole)
    data = bytes(whole.SerializeToString())
    _check(data, model, head)
    return data


def _network_piece(model: Model) -> Piece:
    import onnx
    from onnx.compose import add_prefix

    shape = model.settings.shape
    # A network that does not move has its graph in the cache by now; one that was just trained is new.
    made = kept_graph if model.settings.pretrained else features_graph  # one in 8 bits is kept with the model
    alone = onnx.load_from_string(made(model.learned.network, shape.height, shape.width))
    graph = add_prefix(alone, _NETWORK).graph
    return Piece(_NETWORK, graph.node, graph.initializer)


def _former_network(former: bytes | None, told: dict[str, str]) -> Piece | None:
    """The network of the file before, if it is the same and was made in the same way."""
    if former is None:
        return None
    import onnx

    before = onnx.load_from_string(former)
    props = {entry.key: entry.value for entry in before.metadata_props}
    if any(props.get(key) != told[key] for key in ("scail format", "scail", "shape", "network")):
        return None
    nodes = [node for node in before.graph.node if node.output[0].startswith(_NETWORK) and node.output[0] != _PIXELS]
    return Piece(_NETWORK, nodes, [v for v in before.graph.initializer if v.name.startswith(_NETWORK)])


def _head_piece(head: LinearHead, strangeness: Strangeness | None, odds: Odds) -> Piece:
    """From features to odds, scores and strangeness, as `LinearHead.scores` and `Strangeness.measure` compute them."""
    made = Piece("head/")
    first = made.value([0], np.int64)
    scores = _scores(made, head)
    made.node("Squeeze", _odds(made, scores, odds), first, result="odds")
    made.node("Squeeze", scores, first, result="scores")
    made.node("Squeeze", _FEATURES, first, result="features")
    measure = made.value([0.0], np.float32) if strangeness is None else _measure(made, strangeness)
    made.node("Squeeze", measure, first, result="strangeness")
    return made


def _odds(made: Piece, scores: str, odds: Odds) -> str:
    """1 x C, as `Odds.of` computes them."""
    best = made.node("ReduceMax", scores, made.value([1], np.int64), keepdims=1)
    behind = made.node("Div", made.node("Sub", best, scores), made.value([odds.temperature], np.float32))
    return made.node(
        "Softmax", made.node("Neg", made.node("Pow", behind, made.value([odds.power], np.float32))), axis=1
    )


def _scores(made: Piece, head: LinearHead) -> str:
    """1 x C."""
    classes, past = len(head.bias_C), head.past
    scores = _linear_scores(made, head)
    if head.past_factor_P is not None and past:
        factor_C = torch.cat([head.past_factor_P.cpu(), torch.ones(classes - past)])
        best = made.node("ArgMax", scores, axis=1, keepdims=1)
        new_wins = made.node("GreaterOrEqual", best, made.value([past], np.int64))
        scores = made.node("Where", new_wins, made.node("Mul", scores, _fixed(made, factor_C)), scores)
    if head.candidates is not None and past > head.candidates:
        assert head.raw_weight_CD is not None and head.raw_bias_C is not None
        raw = _linear(made, _FEATURES, head.raw_weight_CD[:past], head.raw_bias_C[:past])
        chosen = _top(made, raw, head.candidates)
        closed = [[-np.inf] * past + [0.0] * (classes - past)]
        opened = made.value(np.zeros((1, head.candidates)), np.float32)
        scores = made.node(
            "Add", scores, made.node("ScatterElements", made.value(closed, np.float32), chosen, opened, axis=1)
        )
    return scores


def _linear_scores(made: Piece, head: LinearHead) -> str:
    """1 x C, as `LinearHead.linear_scores` computes them."""
    features = _unit(made) if head.unit_features else _FEATURES
    if head.proxies == 1:
        return _linear(made, features, head.weight_CD, head.bias_C)
    products = made.node("MatMul", features, _fixed(made, head.weight_CD.T))
    each = made.node("Reshape", products, made.value([1, len(head.bias_C), head.proxies], np.int64))
    weighted = made.node("Mul", each, made.node("Softmax", each, axis=2))
    mean = made.node("ReduceSum", weighted, made.value([2], np.int64), keepdims=0)
    return made.node("Add", made.node("Mul", mean, made.value([head.scale], np.float32)), _fixed(made, head.bias_C))


def _top(made: Piece, scores: str, count: int) -> str:
    from onnx import helper

    names = ["head/best", "head/chosen"]
    made.nodes.append(helper.make_node("TopK", [scores, made.value([count], np.int64)], names, axis=1))
    return names[1]


def _measure(made: Piece, strangeness: Strangeness) -> str:
    """1: how strange, as `Strangeness.measure` computes it."""
    last, familiar = made.value([1], np.int64), strangeness.familiar

    def number(value: float) -> str:
        return made.value([value], np.float32)

    def nearest(features: str, rows_CD: Tensor) -> str:
        return made.node("ReduceMax", made.node("MatMul", features, _fixed(made, rows_CD.T)), last, keepdims=0)

    plain = nearest(_unit(made), strangeness.mean_CD)
    off = made.node("Sub", _FEATURES, _fixed(made, strangeness.middle_D))
    spread = made.node("Mul", made.node("MatMul", off, _fixed(made, strangeness.precision_DD)), off)
    length = made.node("Sqrt", made.node("Max", made.node("ReduceSum", spread, last, keepdims=0), number(1e-12)))
    white = made.node("Div", nearest(off, strangeness.white_CD), length)
    known = made.node(
        "Add", made.node("Mul", plain, number(familiar.plain)), made.node("Mul", white, number(familiar.white))
    )
    return made.node("Sub", number(familiar.offset), known)


def _linear(made: Piece, features: str, weight_CD: Tensor, bias_C: Tensor) -> str:
    return made.node("Gemm", features, _fixed(made, weight_CD), _fixed(made, bias_C), transB=1)


def _unit(made: Piece) -> str:
    """Features of unit length."""
    length = made.node("ReduceL2", _FEATURES, made.value([1], np.int64), keepdims=1)
    return made.node("Div", _FEATURES, made.node("Max", length, made.value([1e-12], np.float32)))


def _fixed(made: Piece, tensor: Tensor) -> str:
    return made.value(tensor.detach().cpu().numpy(), np.float32)


def _check(graph: bytes, model: Model, head: LinearHead) -> None:
    """One random picture: a file that answers something else than the model is not written."""
    shape = model.settings.shape
    picture = np.random.RandomState(0).randint(0, 256, (shape.height + 3, shape.width + 8, 3), dtype=np.uint8)
    found = Answerer(graph, threads=1).answer(picture)
    pixels = torch.from_numpy(scaled_picture(picture, shape).transpose(2, 0, 1).copy())[None]
    scores_C = head.scores(model.settings.training().extract(model.learned.network, pixels))[0]
    _check_odds(found, scores_C, model.odds)


def _check_odds(found: Answer, scores_C: Tensor, odds: Odds) -> None:
    finite = scores_C[scores_C.isfinite()] / odds.temperature
    # Scores in the thousands have no 1e-4 in single precision, and odds follow them.
    scale = max(1.0, float(finite.abs().max()) / 10 if len(finite) else 1.0)
    apart = (torch.from_numpy(found.odds) - odds.of(scores_C[None])[0]).nan_to_num().abs().max()
    if float(apart) > _TOLERANCE * scale:
        raise RuntimeError(
            f"onnxruntime gives other odds than torch, by up to {apart:.2g}: no file that answers can be written; "
            "please report it, with the versions of torch and onnxruntime"
        )
