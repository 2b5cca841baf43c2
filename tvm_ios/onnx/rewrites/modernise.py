"""Upgrade models whose ``Resize`` or ``Slice`` is of an old form, or that lack ``Round``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, version_converter

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.quantised.dequantised import PRODUCTS
from tvm_ios.onnx.rewrites.quantised.operators import QUANTISED

#: The first version whose ``Resize`` says how it maps coordinates, and that rounds numbers.
_MODERN = 11
#: Operators that cannot be read in an older version.
_RESIZES = frozenset({"Upsample", "Resize"})
_QUANTISED = frozenset(QUANTISED["ai.onnx"]).difference(PRODUCTS)
#: The first version whose ``Slice`` has its bounds as inputs, which TVM's importer wants.
_SLICE_OF_INPUTS = 10

#: The library's own types are incomplete.
_onnx: Any = onnx
_converter: Any = version_converter


def modernise(model: Any) -> Any:
    """Return the model in opset 11 if it is older and has operators that changed until then.

    Raise GraphError if it resizes or quantises and cannot be converted.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    kinds = {node.op_type for node in model.graph.node}
    needed = "resizes" if kinds & _RESIZES else "quantises" if kinds & _QUANTISED else ""
    wanted = needed or kinds.intersection(PRODUCTS)
    if opset >= _MODERN or not (wanted or (opset < _SLICE_OF_INPUTS and "Slice" in kinds)):
        return model
    try:
        converted = _converter.convert_version(model, _MODERN)
    except Exception as error:  # the converter's own error types are private
        if not needed:
            return model  # whoever reads it next may know it as it is
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise GraphError(
            f"the model {needed} by the rules of opset {opset}, and converting it "
            f"fails ({reason}); export it with opset {_MODERN} or later"
        ) from error
    nodes: list[Any] = []
    for node in converted.graph.node:
        nodes += _as_meant(converted.graph, node) if node.op_type == "Resize" else [node]
    del converted.graph.node[:]
    converted.graph.node.extend(nodes)
    return converted


def _as_meant(graph: Any, node: Any) -> list[Any]:
    """State the rounding of a nearest-pixel resize of an old opset, which the converter leaves out.

    As in ONNX Runtime, the nearest pixel is rounded up along an axis that becomes shorter, and down
    along one that becomes longer. A resize that does both becomes two.
    """
    modes = [attribute for attribute in node.attribute if attribute.name == "mode"]
    is_nearest = not modes or modes[0].s == b"nearest"
    scales: Any = _constant(graph, node.input[2])
    if scales is None or not is_nearest or np.all(scales >= 1):
        _state(node, modes, "floor")
        return [node]
    _state(node, modes, "ceil")
    if np.all(scales <= 1):
        return [node]
    up: Any = onnx.NodeProto()
    up.CopyFrom(node)
    _state(up, modes, "floor")
    between = f"{node.output[0]}.shorter"
    node.output[0], up.input[0] = between, between
    parts: Sequence[tuple[Any, Any]] = ((node, np.minimum(scales, 1)), (up, np.maximum(scales, 1)))
    for part, factors in parts:
        name = f"{part.output[0]}.scales"
        graph.initializer.append(numpy_helper.from_array(factors, name))
        part.input[2] = name
        if up.name:
            part.name = f"{up.name}.{'shorter' if part is node else 'longer'}"
    return [node, up]


def _state(node: Any, modes: Sequence[Any], nearest: str) -> None:
    del node.attribute[:]
    node.attribute.extend(modes)
    for name, value in (
        ("coordinate_transformation_mode", "asymmetric"),
        ("nearest_mode", nearest),
    ):
        node.attribute.append(_onnx.helper.make_attribute(name, value))


def _constant(graph: Any, name: str) -> Any:
    """Return the array of a constant value of a graph, or None."""
    made = (a.t for n in graph.node if name in n.output for a in n.attribute if a.name == "value")
    tensors = (*(tensor for tensor in graph.initializer if tensor.name == name), *made)
    return numpy_helper.to_array(tensors[0]) if tensors else None
