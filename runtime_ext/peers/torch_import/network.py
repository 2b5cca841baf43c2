"""Write a simplified ONNX model as a torch module, as one would write the network in torch."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from torch import fx

from runtime_ext.peers.torch_import.canonical_kinds import CANONICAL
from runtime_ext.peers.torch_import.onnx_operators import DIRECT
from runtime_ext.peers.torch_import.writer import UnsupportedOperator, Writer
from tvm_ios.onnx.operators import canonical


def torch_network(model: onnx.ModelProto) -> fx.GraphModule:
    """Return a module of the model's inputs, in order, that returns the tuple of its outputs.

    Its weights are buffers, so that ``.to(memory_format=...)`` and ``torch.compile`` treat them as
    those of any module. The model was simplified by :func:`tvm_ios.onnx.simplify.simplify`. Raise
    UnsupportedOperator, which names the operator, if one is not known here.
    """
    source: Any = ir.serde.deserialize_model(model)
    opset = source.opset_imports.get("", 1)
    writer = Writer()
    for value in source.graph.inputs:
        writer.set(value, writer.graph.placeholder(f"input_{len(writer.graph.nodes)}"))
    for node in source.graph:
        written = _write(writer, node, opset)
        results = written if isinstance(written, list) else [written]
        for value, result in zip(node.outputs, results, strict=False):
            writer.set(value, result)
    writer.graph.output(tuple(writer.node(value) for value in source.graph.outputs))
    return writer.module([value.name for value in source.graph.inputs])


def _write(writer: Writer, node: Any, opset: int) -> Any:
    try:
        if node.domain in ("", "ai.onnx") and node.op_type in DIRECT:
            return DIRECT[node.op_type](writer, node)
        first, *rest = canonical(node, opset)
        inputs = [*first.inputs]
        if rest and rest[0].kind == "bias_add":
            # One call does both.
            inputs += rest.pop(0).inputs
        result = CANONICAL[first.kind](writer, first.attrs, *inputs)
        for step in rest:
            result = CANONICAL[step.kind](writer, step.attrs, result, *step.inputs)
        return result
    except (KeyError, UnsupportedOperator) as error:
        reason = f": {error}" if isinstance(error, UnsupportedOperator) else ""
        raise UnsupportedOperator(
            f"the operator {node.op_type} (node {node.name!r}) has no torch function here{reason}; "
            "compare without torch"
        ) from error
    except (TypeError, RuntimeError) as error:
        raise UnsupportedOperator(
            f"the operator {node.op_type} (node {node.name!r}) cannot be written in torch: {error}"
        ) from error
