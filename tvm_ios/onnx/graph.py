"""Read an ONNX model into an operator graph, without TVM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from tvm_ios.graph.elements import AttrValue, GraphError, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import operator_flops
from tvm_ios.onnx.canonical import Canonical, static_shape
from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.operators import canonical
from tvm_ios.onnx.rewrites.node_names import name_by_type
from tvm_ios.onnx.simplify import simplify


def graph_from_onnx(model: Any, *, already_simplified: bool = False) -> OpGraph:
    """Return the operator graph of a model, in the kinds of :mod:`tvm_ios.graph.operators`.

    The model is simplified first unless ``already_simplified``. Raise GraphError or
    InputShapeError if a shape is not static, a data type is unknown, or an operator holds a graph
    of its own.
    """
    if not already_simplified:
        model = simplify(model)
    source: Any = ir.serde.deserialize_model(model)
    name_by_type(source.graph)
    reader = _Reader(source.opset_imports.get("", 0))
    inputs = tuple(reader.data(value) for value in source.graph.inputs)
    for node in source.graph:
        reader.read(node)
    outputs = tuple(reader.number(value) for value in source.graph.outputs)
    return OpGraph(
        name=source.graph.name or "model",
        operators=tuple(reader.operators),
        tensors=tuple(reader.tensors),
        inputs=inputs,
        outputs=outputs,
    )


@dataclass
class _Reader:
    opset: int
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    operators: list[Operator] = field(default_factory=list[Operator])
    numbers: dict[Any, int] = field(default_factory=dict[Any, int])
    names: dict[str, int] = field(default_factory=dict[str, int])

    def data(self, value: Any) -> int:
        """Number a value that is an input or a result, and return its number."""
        return self._new(value, static_shape(value), False)

    def number(self, value: Any) -> int:
        """Return the number of a value that is read. Constants are numbered when first read."""
        if value not in self.numbers:
            if constant(value) is None:
                raise GraphError(f"value {value.name!r} is read but nothing produces it")
            self._new(value, tuple(value.const_value.shape.numpy()), True)
        return self.numbers[value]

    def read(self, node: Any) -> None:
        """Append the canonical operators of a node."""
        for attribute in node.attributes.values():
            if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                raise GraphError(
                    f"operator {node.name!r} ({node.op_type}) holds a graph of its own; "
                    "export the model without control flow"
                )
        if node.op_type == "Identity" and is_of_onnx(node):
            # Left where one value is two outputs, each with a name of its own.
            self.numbers[node.outputs[0]] = self.number(node.inputs[0])
            return
        steps = canonical(node, self.opset)
        sources: Sequence[int] = ()
        for position, step in enumerate(steps):
            read = [self.number(value) for value in step.inputs]
            # Every step but the first reads what the one before it made.
            inputs = (*sources, *read)
            if step.kind == "bias_add":
                row = self.tensors[inputs[1]]
                self.tensors[inputs[1]] = replace(row, shape=(math.prod(row.shape),))
            if position == len(steps) - 1:
                outputs = tuple(self.data(value) for value in node.outputs)
            else:
                output = node.outputs[0]
                tensor = Tensor(f"{output.name}.{step.kind}", static_shape(output), _dtype(output))
                outputs = (self._append(tensor),)
            self._operator(node.name, step, position, inputs, outputs)
            sources = outputs

    def _operator(
        self,
        base: str,
        step: Canonical,
        position: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        attrs: Mapping[str, AttrValue] = MappingProxyType(dict(step.attrs))
        read = [self.tensors[i] for i in inputs]
        results = [self.tensors[i] for i in outputs]
        self.operators.append(
            Operator(
                name=self._unique(base if position == 0 else f"{base}.{step.kind}"),
                kind=step.kind,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                attrs=attrs,
                flops=operator_flops(step.kind, attrs, read, results),
            )
        )

    def _unique(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return self._unique(f"{name}#{count}") if count else name

    def _new(self, value: Any, shape: tuple[int, ...], is_constant: bool) -> int:
        self.numbers[value] = self._append(Tensor(value.name, shape, _dtype(value), is_constant))
        return self.numbers[value]

    def _append(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _dtype(value: Any) -> str:
    dtype = value.const_value.dtype if value.dtype is None and value.const_value else value.dtype
    name = "" if dtype is None else dtype.name.lower()
    name = {"float": "float32", "double": "float64"}.get(name, name)
    try:
        Tensor(value.name, (), name).nbytes  # noqa: B018  (asks whether the type is known)
    except KeyError as error:
        raise GraphError(f"value {value.name!r} is of type {name!r}, which is not known") from error
    return name
