"""Small TensorFlow Lite models for tests, and what TensorFlow Lite Micro makes of them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import flatbuffers
import numpy as np
from tflite_micro import runtime
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

from tvm_ios.files.array_files import Array

_TYPES = {
    np.dtype(np.float32): schema.TensorType.FLOAT32,
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.int16): schema.TensorType.INT16,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.bool_): schema.TensorType.BOOL,
}
#: Of all quantised activations, and of probabilities.
_SCALE, _ZERO = 0.05, -3
_PROBABILITY, _LEAST = 1 / 256, -128


class TfliteSketch:
    """A TensorFlow Lite model under construction, of int8 or float32, with random weights.

    Operators are methods that take numbers of tensors and return that of their result. ``graph`` is
    the subgraph that they add to.
    """

    def __init__(self, dtype: Any = np.int8, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = "a sketch"
        self.model.operatorCodes, self.model.subgraphs = [], []
        self.model.buffers = [schema.BufferT()]
        self.subgraph()

    def subgraph(self) -> int:
        """Begin another subgraph and return its number."""
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        self.graph.name = f"graph {len(self.model.subgraphs) - 1}"
        return len(self.model.subgraphs) - 1

    def tensor(
        self,
        shape: Sequence[int],
        dtype: Any = None,
        data: Any = None,
        scales: Sequence[float] | None = None,
        zero: int = _ZERO,
        variable: bool = False,
    ) -> int:
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(shape), _TYPES[dtype]
        tensor.name, tensor.isVariable = f"t{len(self.graph.tensors)}", variable
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.asarray(data, dtype).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if scales is None and dtype in (np.int8, np.int16):
            scales = (_SCALE,)
        if scales is not None and dtype.kind != "f":
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = list(scales)
            tensor.quantization.zeroPoint = [zero] * len(scales)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, *shape: int, dtype: Any = None) -> int:
        self.graph.inputs.append(self.tensor(shape, dtype))
        return self.graph.inputs[-1]

    def shape(self, tensor: int) -> list[int]:
        return list(self.graph.tensors[tensor].shape)

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
    ) -> None:
        operator = schema.OperatorT()
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        operator.opcodeIndex = self._code(getattr(schema.BuiltinOperator, name))
        if options:
            kind = options.pop("kind")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            operator.builtinOptions = getattr(schema, f"{kind}T")()
            for option, value in options.items():
                assert hasattr(operator.builtinOptions, option)
                setattr(operator.builtinOptions, option, value)
        self.graph.operators.append(operator)

    def _code(self, builtin: int) -> int:
        for number, code in enumerate(self.model.operatorCodes):
            if code.builtinCode == builtin:
                return number
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def weights(self, shape: Sequence[int], fan_in: int, channels_at: int) -> int:
        """Return weights by which results are about as large as inputs."""
        if self.dtype.kind == "f":
            return self.tensor(shape, data=self.rng.standard_normal(shape) * (2 / fan_in) ** 0.5)
        scales = (self.rng.uniform(0.7, 1.4, shape[channels_at]) / (50 * fan_in**0.5)).tolist()
        number = self.tensor(shape, data=self.rng.integers(-127, 128, shape), scales=scales, zero=0)
        self.graph.tensors[number].quantization.quantizedDimension = channels_at
        return number

    def bias(self, weights: int, channels: int) -> int:
        if self.dtype.kind == "f":
            return self.tensor([channels], data=self.rng.standard_normal(channels) / 8)
        scales = [_SCALE * scale for scale in self.graph.tensors[weights].quantization.scale]
        return self.tensor(
            [channels], np.int32, self.rng.integers(-99, 99, channels), scales, zero=0
        )

    def conv(self, x: int, channels: int, size: Any = 3, stride: int = 1) -> int:
        n, height, width, depth = self.shape(x)
        rows, columns = (size, size) if isinstance(size, int) else size
        weights = self.weights([channels, rows, columns, depth], rows * columns * depth, 0)
        y = self.tensor([n, -(-height // stride), -(-width // stride), channels])
        self.operator(
            "CONV_2D", [x, weights, self.bias(weights, channels)], [y],
            kind="Conv2DOptions", strideH=stride, strideW=stride, fusedActivationFunction=1,
        )  # fmt: skip
        return y

    def depthwise(self, x: int, size: int = 3, stride: int = 1) -> int:
        n, height, width, depth = self.shape(x)
        weights = self.weights([1, size, size, depth], size * size, 3)
        y = self.tensor([n, -(-height // stride), -(-width // stride), depth])
        self.operator(
            "DEPTHWISE_CONV_2D", [x, weights, self.bias(weights, depth)], [y],
            kind="DepthwiseConv2DOptions", strideH=stride, strideW=stride, depthMultiplier=1,
            fusedActivationFunction=1,
        )  # fmt: skip
        return y

    def separable(self, x: int, channels: int, size: int = 3, stride: int = 1) -> int:
        return self.conv(self.depthwise(x, size, stride), channels, 1)

    def enlarge(self, x: int, channels: int) -> int:
        """Add a transposed convolution that doubles the height and the width."""
        n, height, width, depth = self.shape(x)
        weights = self.weights([channels, 2, 2, depth], depth, 0)
        y = self.tensor([n, 2 * height, 2 * width, channels])
        shape = self.tensor([4], np.int32, self.shape(y))
        self.operator(
            "TRANSPOSE_CONV", [shape, weights, x, self.bias(weights, channels)], [y],
            kind="TransposeConvOptions", strideH=2, strideW=2,
        )  # fmt: skip
        return y

    def pool(self, x: int, size: int = 3, stride: int = 1, kind: str = "MAX") -> int:
        n, height, width, depth = self.shape(x)
        y = self.tensor([n, -(-height // stride), -(-width // stride), depth])
        self.operator(
            f"{kind}_POOL_2D", [x], [y], kind="Pool2DOptions",
            filterHeight=size, filterWidth=size, strideH=stride, strideW=stride,
        )  # fmt: skip
        return y

    def add(self, x: int, other: int, operation: str = "Add") -> int:
        y = self.tensor(self.shape(x))
        self.operator(operation.upper(), [x, other], [y], kind=f"{operation}Options")
        return y

    def unary(self, x: int, operation: str) -> int:
        """Add an element-wise operator without options, such as RELU."""
        probable = {"scales": (_PROBABILITY,), "zero": _LEAST} if operation == "LOGISTIC" else {}
        y = self.tensor(self.shape(x), **probable)
        self.operator(operation, [x], [y])
        return y

    def concat(self, *parts: int) -> int:
        *outer, _ = self.shape(parts[0])
        y = self.tensor([*outer, sum(self.shape(part)[-1] for part in parts)])
        self.operator("CONCATENATION", parts, [y], kind="ConcatenationOptions", axis=len(outer))
        return y

    def mean(self, x: int) -> int:
        n, _, _, depth = self.shape(x)
        y, axes = self.tensor([n, depth]), self.tensor([2], np.int32, [1, 2])
        self.operator("MEAN", [x, axes], [y], kind="ReducerOptions", keepDims=False)
        return y

    def reshape(self, x: int, *shape: int) -> int:
        y, target = self.tensor(shape), self.tensor([len(shape)], np.int32, shape)
        self.operator("RESHAPE", [x, target], [y], kind="ReshapeOptions", newShape=list(shape))
        return y

    def flat(self, x: int) -> int:
        return self.reshape(x, 1, prod(self.shape(x)))

    def dense(self, x: int, units: int, activation: int = 1) -> int:
        n, depth = self.shape(x)
        weights = self.weights([units, depth], depth, 0)
        y = self.tensor([n, units])
        self.operator(
            "FULLY_CONNECTED", [x, weights, self.bias(weights, units)], [y],
            kind="FullyConnectedOptions", fusedActivationFunction=activation,
        )  # fmt: skip
        return y

    def softmax(self, x: int) -> int:
        y = self.tensor(self.shape(x), scales=(_PROBABILITY,), zero=_LEAST)
        self.operator("SOFTMAX", [x], [y], kind="SoftmaxOptions", beta=1.0)
        return y

    def metadata(self, name: str, data: bytes) -> None:
        buffer, entry = schema.BufferT(), schema.MetadataT()
        buffer.data = np.frombuffer(data, np.uint8)
        entry.name, entry.buffer = name, len(self.model.buffers)
        self.model.buffers.append(buffer)
        self.model.metadata = [*(self.model.metadata or []), entry]

    def file(self, *outputs: int) -> bytes:
        """Return the model, whose last subgraph that was begun has these outputs."""
        if outputs:
            self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def opened(data: bytes) -> Any:
    """Return a model as the objects of the schema, as other software reads it."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


@dataclass(frozen=True)
class MicroRun:
    """A run by TensorFlow Lite Micro: outputs, and bytes at both ends of the arena."""

    outputs: tuple[Array, ...]
    head: int
    tail: int


def run_micro(data: bytes, seed: int = 0, arena: int = 1 << 22, times: int = 1) -> MicroRun:
    """Run a model by TensorFlow Lite Micro's interpreter with random inputs, so many times."""
    rng = np.random.default_rng(seed)
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=arena)
    graph = opened(data).subgraphs[0]
    outputs: list[Array] = []
    for _ in range(times):
        for number in range(len(graph.inputs)):
            details = interpreter.get_input_details(number)
            values = rng.normal(0, 60, details["shape"])
            values = (
                values / 20 if np.dtype(details["dtype"]).kind == "f" else values.clip(-120, 120)
            )
            interpreter.set_input(values.astype(details["dtype"]), number)
        interpreter.invoke()
        outputs += [interpreter.get_output(number) for number in range(len(graph.outputs))]
    used = dict(re.findall(r"Arena allocation (\w+) (\d+) bytes", _allocations(interpreter)))
    return MicroRun(tuple(outputs), int(used["head"]), int(used["tail"]))


def _allocations(interpreter: Any) -> str:
    """Return what the interpreter writes to the process's standard error about its arena."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as stream:
        os.dup2(stream.fileno(), 2)
        try:
            interpreter.print_allocations()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        stream.seek(0)
        return stream.read().decode()
