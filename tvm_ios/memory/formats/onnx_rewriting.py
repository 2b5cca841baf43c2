"""SERENITY's identity rewriting of ONNX models: convolutions of parts, not of a concatenation.

As :mod:`tvm_ios.memory.published.identity_rewriting`, but in models that are written and run.
Element-wise operators and normalisations between both are applied to each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_ir.passes import common as passes

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.rewrites.steps import Steps
from tvm_ios.onnx.shape_inference import infer_shapes

#: Operators of one input that compute each element from that at the same place.
UNARY = frozenset(
    {
        *("Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
        *("LeakyRelu", "Mish", "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt"),
        "Tanh",
    }
)
_NORM = "BatchNormalization"


def split_concatenations(model: Any) -> tuple[int, list[Any]]:
    """Rewrite convolutions that alone read a concatenation of channels, in place.

    ``model`` is of ``onnx_ir``, with the shapes of its values. A convolution without groups becomes
    a sum of convolutions of the parts, whose rounding can differ from that of the whole; a
    depthwise one becomes a concatenation of depthwise ones, exactly. Return how many were
    rewritten, and the sums.
    """
    opset, rewritten, sums = model.opset_imports.get("", 0), 0, list[Any]()
    while (found := next(_places(model.graph), None)) is not None:
        sums += _rewrite(model.graph, *found, opset)
        rewritten += 1
        passes.RemoveUnusedNodesPass()(model)
        infer_shapes(model)
    return rewritten, sums


def _places(graph: Any) -> Iterator[tuple[Any, list[Any], Any]]:
    """Yield convolutions, the operators before them from the last on, and the concatenation."""
    for node in graph:
        if node.op_type != "Conv" or not is_of_onnx(node) or constant(node.inputs[1]) is None:
            continue
        between: list[Any] = []
        value = node.inputs[0]
        while (maker := _only_for_reader(value)) is not None:
            if maker.op_type == "Concat":
                if _divides(node, maker):
                    yield node, between, maker
                break
            if not _is_of_channels(maker):
                break
            between.append(maker)
            value = maker.inputs[0]


def _only_for_reader(value: Any) -> Any:
    """Return the operator that makes a value if one operator alone reads it, else None."""
    alone = len(value.uses()) == 1 and not value.is_graph_output()
    maker = value.producer()
    return maker if alone and maker is not None and is_of_onnx(maker) else None


def _is_of_channels(node: Any) -> bool:
    if node.op_type == _NORM:
        trains = node.attributes.get_int("training_mode", 0)
        return not trains and all(constant(value) is not None for value in node.inputs[1:])
    return node.op_type in UNARY


def _divides(node: Any, concat: Any) -> bool:
    channels = [_channels(value) for value in concat.inputs]
    rank, axis = len(node.inputs[1].shape), concat.attributes.get_int("axis", 1)
    weights = [value for value in node.inputs[1:] if value is not None]
    return (
        len(channels) > 1
        and 0 not in channels
        and axis in (1, 1 - rank)
        and node.attributes.get_int("group", 1) in (1, sum(channels))
        and all(constant(value) is not None for value in weights)
    )


def _channels(value: Any) -> int:
    """Return the extent of a value's second axis, or 0 if it is not known."""
    if value.shape is None or len(value.shape) < 3:
        return 0
    extent: object = value.shape[1]
    return extent if isinstance(extent, int) else 0


def _rewrite(graph: Any, node: Any, between: list[Any], concat: Any, opset: int) -> list[Any]:
    """Rewrite a convolution, and return the sums that take its place."""
    steps = Steps(graph, node, opset)
    weight, *bias = (_rows(value) for value in node.inputs[1:] if value is not None)
    depthwise = node.attributes.get_int("group", 1) > 1
    results: list[Any] = []
    end = 0
    for value in concat.inputs:
        extent = _channels(value)
        begin, end = end, end + extent
        for each in reversed(between):
            rows = [steps.number(_rows(norm)[begin:end]) for norm in each.inputs[1:]]
            own = {name: attribute.value for name, attribute in each.attributes.items()}
            value = steps.op(each.op_type, value, *rows, **own)
        if depthwise:
            times = len(weight) // sum(map(_channels, concat.inputs))
            outputs = slice(begin * times, end * times)
            weights = [steps.number(rows[outputs]) for rows in (weight, *bias)]
            results.append(
                steps.op("Conv", value, *weights, **steps.attributes | {"group": extent})
            )
        else:
            # The bias is added once.
            weights = [steps.number(weight[:, begin:end])]
            weights += [] if results else map(steps.number, bias)
            results.append(steps.op("Conv", value, *weights, **steps.attributes))
    if depthwise:
        steps.stand_for(steps.op("Concat", *results, axis=1))
        return []
    sums = [results[0]]
    for part in results[1:]:
        sums.append(steps.op("Add", sums[-1], part))
    steps.stand_for(sums[-1])
    return sums[1:]


def _rows(value: Any) -> Array:
    array = constant(value)
    assert array is not None
    return array
