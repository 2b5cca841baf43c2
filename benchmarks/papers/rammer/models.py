"""The parameters of the models, counted in the zoo's graphs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.models.load import load_operators

ZOO: Mapping[str, str] = MappingProxyType(
    {
        "ResNeXt": "resnext29_branches",
        "NASNet": "nasnet_a_cifar",
        "DeepSpeech2": "deepspeech2",
        "LSTM-TC": "lstm_tc_gates",
        "Seq2Seq": "seq2seq",
    }
)
#: Operators that have weights.
_LAYERS = ("conv2d", "dense", "matmul")


def parameters(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The parameters of each model (Rammer, table 1)."""
    for model, values in published.items():
        counted = steps.once(parameters_of, model)
        for quantity, value in values.items():
            yield Row(f"{model}, {quantity}", value, counted[quantity], "", How.COUNTED)


def parameters_of(model: str) -> dict[str, int]:
    """What the graph of a model says of its parameters."""
    graph = load_operators(ZOO[model])
    return _COUNTS[model](graph)


def _resnext(graph: OpGraph) -> dict[str, int]:
    readers = Counter(op.inputs[0] for op in graph.operators if op.kind == "conv2d")
    value, cardinality = readers.most_common(1)[0]
    branch = next(op for op in graph.operators if op.kind == "conv2d" and op.inputs[0] == value)
    return {
        "layers": _depth(graph),
        "cardinality": cardinality,
        "bottleneck width": graph.tensors[branch.outputs[0]].shape[1],
    }


def _nasnet(graph: OpGraph) -> dict[str, int]:
    last = next(op for op in reversed(graph.operators) if op.kind == "dense")
    # Three stages of equal cells, with a reduction between two.
    return {
        "repeated cells": len(_parts(graph, r"cell\d+")) // 3,
        "filters": graph.tensors[last.inputs[0]].shape[1],
    }


def _deepspeech2(graph: OpGraph) -> dict[str, int]:
    shapes = _recurrent_weights(graph)
    return {
        "CNN layers": sum(op.kind == "conv2d" for op in graph.operators),
        "LSTM layers": len(shapes),
        "hidden size": shapes[-1][1] // 4,
    }


def _lstm(graph: OpGraph) -> dict[str, int]:
    shapes = _recurrent_weights(graph)
    # Two products for each of four gates.
    return {
        "input length": _input_length(graph),
        "hidden size": shapes[0][1],
        "layers": len(shapes) // 8,
    }


def _seq2seq(graph: OpGraph) -> dict[str, int]:
    return {
        "encoder input length": _input_length(graph),
        "encoder layers": len(_parts(graph, r"encoder\d+/step0")),
        "hidden size": _recurrent_weights(graph)[0][1] // 4,
        "decoder output length": len(_parts(graph, r"decoder/step\d+")),
        "decoder layers": len(_parts(graph, r"decoder/step0/layer\d+")),
    }


_COUNTS: Mapping[str, Callable[[OpGraph], dict[str, int]]] = {
    "ResNeXt": _resnext,
    "NASNet": _nasnet,
    "DeepSpeech2": _deepspeech2,
    "LSTM-TC": _lstm,
    "Seq2Seq": _seq2seq,
}


def _depth(graph: OpGraph) -> int:
    """The most layers with weights that follow one another."""
    depths: list[int] = []
    for op, before in zip(graph.operators, graph.predecessors, strict=True):
        reached = max((depths[unit] for unit in bits(before)), default=0)
        depths.append(reached + (op.kind in _LAYERS))
    return max(depths)


def _recurrent_weights(graph: OpGraph) -> list[tuple[int, ...]]:
    """The shapes of the matrices that more than one product reads."""
    readers = Counter(
        tensor
        for op in graph.operators
        if op.kind in ("dense", "matmul")
        for tensor in op.inputs
        if graph.tensors[tensor].constant
    )
    return [graph.tensors[tensor].shape for tensor, number in readers.items() if number > 1]


def _input_length(graph: OpGraph) -> int:
    return graph.tensors[graph.inputs[0]].shape[0]


def _parts(graph: OpGraph, pattern: str) -> set[str]:
    """The beginnings of operators' names that fit a pattern."""
    found = (re.match(pattern, op.name) for op in graph.operators)
    return {match.group() for match in found if match}
