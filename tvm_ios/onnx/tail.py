"""Cut off the end of a model that cannot be scheduled, to run it after the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, node_text
from tvm_ios.onnx.rewrites.control.bodies import values_read
from tvm_ios.onnx.shape_inference import inference_error

#: The library's own types are incomplete.
_helper: Any = helper

#: Operators whose results are as large as their data say, whatever a model declares.
SELECT = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
#: Operators that hold graphs, where nothing said beforehand what they run.
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
#: Operators that inputs make as large as they say, and the places of these inputs.
_SIZED = {"Range": slice(0, 3), "TopK": slice(1, 2)}

#: Operators of ONNX's domain for machine learning that ONNX Runtime runs: walks along branches.
_RUN_BY_RUNTIME = frozenset(
    {"SVMClassifier", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}
)
_ML_DOMAIN = "ai.onnx.ml"

#: Operators that do a model's work.
_WORK = frozenset(
    {
        *("Attention", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU"),
        *("Gemm", "LSTM", "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN"),
    }
)

#: The newest format of files that every ONNX Runtime reads; operators have versions of their own.
NEWEST_FORMAT = 10


@dataclass(frozen=True)
class Tail:
    """The end of a model, which runs after its program.

    ``model`` reads inputs of the whole model and outputs of the program. Its outputs are those of
    the whole model, in order; those that the program computes pass through.
    """

    model: onnx.ModelProto

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values that the tail reads."""
        return tuple(value.name for value in self.model.graph.input)

    @property
    def sentence(self) -> str:
        """Return a sentence for users that says which operators run after the program, and why."""
        nodes: Sequence[Any] = self.model.graph.node
        name = f" ({nodes[0].name})" if nodes[0].name else ""
        which = (
            f"the last operator, {nodes[0].op_type}{name}, runs"
            if len(nodes) == 1
            else f"the last {len(nodes)} operators, from {nodes[0].op_type}{name} on, run"
        )
        runtime = (
            "ONNX Runtime"
            if find_spec("onnxruntime") is not None
            else "onnx.reference, since ONNX Runtime is not installed,"
        )
        reason = (
            "TVM has no such operator" if runs_later(nodes[0]) else "the data decide their shapes"
        )
        return f"{which} on {runtime} after the program: {reason}"


def runs_later(node: Any) -> bool:
    """Return whether ONNX Runtime runs a node (of ``onnx_ir`` or a file) after the program."""
    return node.domain == _ML_DOMAIN and node.op_type in _RUN_BY_RUNTIME


def sizes_of(kind: str, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the inputs of an operator whose values decide the shapes of its results."""
    return inputs[_SIZED[kind]] if kind in _SIZED else ()


def cut_tail(model: Any) -> Tail | None:
    """Remove the operators that depend on one that cannot be scheduled, and return them as a tail.

    The model, of ``onnx_ir`` with static inputs, folded constants and inferred shapes, is changed:
    its outputs become the values that the tail reads. Return None if nothing has to be cut. Raise
    GraphError if nothing, or less than half of the work, would be left, or an operator reads
    shapes that do not go together.
    """
    graph = model.graph
    late: dict[Any, None] = {}
    nodes: list[Any] = []
    for node in graph:
        if _depends_on_data(node) or any(value in late for value in values_read(node)):
            nodes.append(node)
            late.update(dict.fromkeys(node.outputs))
    if not nodes:
        return None
    if error := inference_error(nodes[0], model.opset_imports.get("", 0)):
        shapes = " and ".join(_text(value) for value in nodes[0].inputs if value is not None)
        raise GraphError(
            f"{node_text(nodes[0])} reads shapes that do not go together, {shapes} ({error}): give "
            "the inputs other shapes, or export the model again"
        )
    work, late_work = _work(graph), _work(nodes)
    if late_work > work - late_work:
        apart = "run it by itself there, and give its results to the rest as inputs"
        raise GraphError(
            f"{_reason(nodes[0])}, and {late_work} of the model's {work} convolutions and matrix "
            "products come after it: "
            + (apart if runs_later(nodes[0]) else "export the model without it")
        )
    read = (value for node in nodes for value in values_read(node))
    early = [value for value in dict.fromkeys((*graph.outputs, *read)) if value not in late]
    made = [v for v in early if not v.is_graph_input() and v.const_value is None]
    if not made:
        raise GraphError(
            f"{_reason(nodes[0])}, and there is nothing to schedule before it: run the model on "
            "ONNX Runtime"
        )
    tail = Tail(_model_of(model, nodes, early))
    graph.outputs[:] = made
    graph.remove(nodes, safe=True)
    return tail


def _model_of(model: Any, nodes: Sequence[Any], read: Sequence[Any]) -> onnx.ModelProto:
    """Return a model of some nodes at the end of another, with the same outputs.

    ``read`` are the values from before these nodes that become its inputs or initializers.
    """
    serde: Any = ir.serde
    proto = onnx.ModelProto(ir_version=min(model.ir_version, NEWEST_FORMAT))
    proto.opset_import.extend(_helper.make_opsetid(*o) for o in model.opset_imports.items())
    proto.graph.name = "tail"
    proto.graph.node.extend(serde.serialize_node(node) for node in nodes)
    proto.graph.output.extend(serde.serialize_value(value) for value in model.graph.outputs)
    for value in read:
        if value.const_value is None or value.is_graph_input():
            proto.graph.input.append(serde.serialize_value(value))
        else:
            array: Any = constant(value)
            proto.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return proto


def _reason(node: Any) -> str:
    """Return a clause for errors that says why a node is cut off with the tail."""
    if node.op_type == "If":
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        for then, other in zip(*(branch.outputs for branch in branches), strict=True):
            if then.shape != other.shape:
                return (
                    f"{node_text(node)} has branches that the data choose between and whose "
                    f"results differ in shape ({_text(then)} and {_text(other)}): each branch is a "
                    "model of its own, as a decoder is without and with a past"
                )
    if node.op_type in CONTROL_FLOW:
        return f"{node_text(node)} is control flow that only the data decide"
    if runs_later(node):
        return f"{node_text(node)} runs at the end of a model, on ONNX Runtime"
    return f"{node_text(node)} makes results whose shape depends on the data or is unknown"


def _depends_on_data(node: Any) -> bool:
    """Return whether the shapes of a node's results depend on the data or are unknown."""
    if node.op_type in (*CONTROL_FLOW, *SELECT) or runs_later(node):
        return True
    if any(constant(value) is None for value in sizes_of(node.op_type, node.inputs)):
        return True
    return any(
        value.name and (value.shape is None or not value.shape.is_static())
        for value in node.outputs
    )


def _work(nodes: Iterable[Any]) -> int:
    """Count the convolutions and matrix products, also in the subgraphs of operators."""
    return sum(
        (node.op_type in _WORK)
        + sum(
            _work(attribute.as_graph())
            for attribute in node.attributes.values()
            if attribute.type == ir.AttributeType.GRAPH
        )
        for node in nodes
    )


def _text(value: Any) -> str:
    return "?" if value.shape is None else ",".join(map(str, value.shape))
