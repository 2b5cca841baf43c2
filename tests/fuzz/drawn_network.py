"""An ONNX model that grows operator by operator, at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .mutators import Random

#: The one that most models have, and one with newer operators.
_OPSETS = (18, 18, 23)
#: Elements of a tensor: larger ones take time and show nothing else.
_LARGEST = 6000


@dataclass(frozen=True)
class Value:
    """A tensor of float32 in a network."""

    #: As in the model.
    name: str
    shape: tuple[int, ...]
    #: Whether every correct program computes the same bits: only then may it be rounded, compared
    #: or sorted.
    exact: bool


#: Adds an operator that reads a value; None if the value does not suit it.
Draw = Callable[["Network", Value], "str | Sequence[str] | None"]


class Network:
    """An ONNX model under construction: every step reads one of the values before it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.opset: int = self.pick(*_OPSETS)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.values: list[Value] = []
        rank = int(random.choice([4, 4, 4, 3, 2]))
        shape = (self.pick(1, 1, 2, 3), self.pick(1, 2, 3, 4, 8, 17), self.pick(*range(1, 10)))
        shapes = [(*shape, self.pick(*range(1, 10)))[:rank], (*shape, 5)[:rank]]
        self.inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
            for name, extents in zip("xy", shapes, strict=True)
        ]
        self.inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, (2, 3)))
        for value in self.inputs:
            self.types[value.name] = value.type
        self.values = [Value(n, s, True) for n, s in zip("xy", shapes, strict=True)]

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return options[int(self.random.integers(len(options)))]

    def const(self, array: Any) -> str:
        """A constant's name; numbers that are no integers become float32."""
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(array, name)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(kind, array.shape)
        return name

    def weight(self, *shape: int) -> str:
        """Normal numbers that keep the size of what is summed with them."""
        return self.const(self.random.standard_normal(shape) / np.sqrt(prod(shape[1:]) or 1))

    def positive(self, *shape: int) -> str:
        """Numbers between 0.5 and 1.5."""
        return self.const(self.random.uniform(0.5, 1.5, shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; the name of its output, or the names."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, **attributes)
        types = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(kind, self.opset),
            node,
            {name: self.types[name] for name in inputs if name},
            {name: self.constants[name] for name in inputs if name in self.constants},
            opset_imports=[helper.make_opsetid("", self.opset)],
        )
        if not types:  # as an older ONNX says it
            raise onnx.shape_inference.InferenceError(f"the outputs of {kind} are not known")
        self.types.update(types)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Of a tensor; None if it is not known."""
        tensor = self.types[name].tensor_type
        if not tensor.HasField("shape"):
            return None
        extents = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        return None if -1 in extents else tuple(extents)

    def state_shape(self, name: str, shape: Sequence[int]) -> None:
        """Say a shape that inference does not find."""
        self.types[name] = helper.make_tensor_type_proto(TensorProto.FLOAT, shape)

    def axis(self, value: Value) -> int:
        """One of the axes of a value, counted from the front or from the end."""
        return int(self.random.integers(-len(value.shape), len(value.shape)))

    def axes(self, value: Value) -> list[int]:
        """Some different axes of a value, in any order."""
        count = int(self.random.integers(1, len(value.shape) + 1))
        chosen = self.random.permutation(len(value.shape))[:count]
        return [int(axis) - self.pick(0, len(value.shape)) for axis in chosen]

    def step(self, moves: Sequence[Draw], computes: Sequence[Draw]) -> None:
        """Try to add one operator, of those that only move data or of the others.

        One that makes nothing that others could read is taken back: it may be unsound.
        """
        late = self.values[-4:]
        value = self.pick(*late, *late, *self.values)
        moving = bool(self.random.integers(3)) is False
        drawn = self.pick(*(moves if moving else computes))
        nodes, values = len(self.nodes), len(self.values)
        try:
            names = drawn(self, value)
        except onnx.shape_inference.InferenceError:
            names = None
        for name in [names] if isinstance(names, str) else names or ():
            shape = self.shape(name)
            if shape is not None and 0 < prod(shape) <= _LARGEST and len(shape) <= 6:
                self.values.append(Value(name, shape, moving and value.exact))
        if len(self.values) == values:
            del self.nodes[nodes:]

    def model(self) -> onnx.ModelProto:
        """The model of what was added; some of the last values are its outputs."""
        added = [value for value in self.values if value.name not in ("x", "y")]
        last = added[-6:] or self.values
        chosen = {added[-1].name: added[-1]} if added else {}
        for _ in range(self.pick(0, 1, 2)):
            value = self.pick(*last, *self.values[:1])
            chosen[value.name] = value
        tensor = helper.make_tensor_value_info
        outputs = [tensor(v.name, TensorProto.FLOAT, v.shape) for v in chosen.values()]
        graph = helper.make_graph(
            self.nodes, "random", self.inputs, outputs, list(self.constants.values())
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)
