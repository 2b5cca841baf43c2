"""The names of an ONNX model's nodes, for the operators of the module that was imported from it.

TVM's importers number values instead (``lv7``). A module attribute keeps the names unit by unit:
units, and the operators in them, have the same numbers in both importers. Tensors are named after
the operators that make them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
import tvm

from runtime_ext.ir_form import NODE_NAMES, attribute_text
from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx


def node_names(model: onnx.ModelProto) -> str:
    """Return the module attribute (JSON) with the operator names of a simplified ONNX model."""
    names: dict[str, Any] = {}
    # A model without a graph has no schedule that is made without TVM, whose names could differ.
    with contextlib.suppress(UserError):
        graph = graph_from_onnx(model, already_simplified=True)
        units = form_units(graph)
        names["fingerprint"] = units.fingerprint
        names["units"] = [[graph.operators[m].name for m in op.members] for op in units.operators]
    return json.dumps(names)


def with_node_names(graph: OpGraph, module: tvm.IRModule) -> OpGraph:
    """Rename the operators of a module's graph as its attribute says.

    If other passes have changed the module since, operators are named by kind and number. A module
    without the attribute keeps the names of its values.
    """
    if not module.attrs or NODE_NAMES not in module.attrs:
        return graph
    names = _by_operator(graph, json.loads(attribute_text(module.attrs[NODE_NAMES])))
    kinds = enumerate(operator.kind for operator in graph.operators)
    return renamed(graph, [names.get(number, f"{kind}_{number}") for number, kind in kinds])


def renamed(graph: OpGraph, names: Sequence[str]) -> OpGraph:
    """Return the graph with other operator names; an operator's results are called ``name:0``, ...

    Operators may share a name; names of tensors stay unique.
    """
    computed = {tensor for operator in graph.operators for tensor in operator.outputs}
    taken = {tensor.name for n, tensor in enumerate(graph.tensors) if n not in computed}
    tensors = list(graph.tensors)
    for operator, name in zip(graph.operators, names, strict=True):
        for place, tensor in enumerate(operator.outputs):
            result = f"{name}:{place}"
            while result in taken:
                result += "'"
            taken.add(result)
            tensors[tensor] = replace(tensors[tensor], name=result)
    operators = map(lambda operator, name: replace(operator, name=name), graph.operators, names)
    return replace(graph, operators=tuple(operators), tensors=tuple(tensors))


def _by_operator(graph: OpGraph, attribute: Mapping[str, Any]) -> dict[int, str]:
    if "fingerprint" not in attribute:
        return {}
    units = form_units(graph)
    if units.fingerprint != attribute["fingerprint"]:
        return {}
    return {
        member: name
        for unit, names in zip(units.operators, attribute["units"], strict=True)
        for member, name in zip(unit.members, names, strict=True)
    }
