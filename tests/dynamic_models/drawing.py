"""A model under construction, as exporters write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Drawing(Sketch):
    """A sketch with named inputs of any type, whose shapes may hold names of extents."""

    def __init__(self, opset: int = 17) -> None:
        super().__init__(opset=opset)
        self.inputs = []

    def input(self, name: str, *shape: int | str, dtype: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def scaled(self, *shape: int) -> str:
        """A weight under which numbers neither grow nor fade."""
        return self.const(self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def ints(self, *values: int) -> str:
        return self.const(np.array(values, np.int64))

    def one(self, value: int) -> str:
        return self.const(np.array(value, np.int64))

    def extent(self, x: str, axis: int) -> str:
        """``x.size(axis)``, as PyTorch's exporter writes it: a vector of one."""
        size = self.op("Gather", self.op("Shape", x), self.one(axis), axis=0)
        return self.op("Unsqueeze", size, self.ints(0))

    def view(self, x: str, *extents: str | int) -> str:
        """A reshape to extents of which some are computed."""
        parts = [e if isinstance(e, str) else self.ints(e) for e in extents]
        return self.op("Reshape", x, self.op("Concat", *parts, axis=0))

    def linear(self, x: str, before: int, after: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.scaled(before, after)), self.normal(after))

    def layer_norm(self, x: str, width: int) -> str:
        """As exporters before opset 17 spell it out."""
        mean = self.op("ReduceMean", x, axes=[-1])
        centred = self.op("Sub", x, mean)
        square = self.op("Pow", centred, self.const(np.float32(2)))
        variance = self.op("ReduceMean", square, axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.const(np.float32(1e-5))))
        normal = self.op("Div", centred, deviation)
        return self.op("Add", self.op("Mul", normal, self.positive(width)), self.normal(width))

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.const(np.float32(np.sqrt(2)))))
        twice = self.op("Mul", x, self.op("Add", erf, self.const(np.float32(1))))
        return self.op("Mul", twice, self.const(np.float32(0.5)))

    def conv2(self, x: str, before: int, after: int, kernel: int = 3, stride: int = 1) -> str:
        weight = self.scaled(after, before, kernel, kernel)
        pads = [kernel // 2] * 4
        return self.op("Conv", x, weight, self.normal(after), pads=pads, strides=[stride] * 2)

    def conv_relu(self, *arguments: Any, **options: Any) -> str:
        return self.op("Relu", self.conv2(*arguments, **options))

    def finished(self, outputs: Mapping[str, str], types: Sequence[int] = ()) -> Any:
        """The model; ``outputs`` are names of outputs and the values that they show."""
        kinds = types or [FLOAT] * len(outputs)
        self.nodes += [helper.make_node("Identity", [v], [name]) for name, v in outputs.items()]
        results = [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip(outputs, kinds, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "drawn", self.inputs, results, self.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
