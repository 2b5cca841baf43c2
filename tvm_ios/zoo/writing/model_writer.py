"""Write an ONNX model operator by operator on onnx_ir's tape: names, seeded weights, scopes."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from tvm_ios.files.array_files import Array

#: Every operator that the zoo needs exists here, and importers know it well.
OPSET = 17


class ModelWriter:
    """A writer of an ONNX graph of this name, with weights from this seed."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._rng = np.random.default_rng(seed)
        self._tape: Any = Tape()
        self._inputs: list[Any] = []
        self._scope: list[str] = []
        self._counts: dict[str, int] = {}

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Prefix the names of operators that are appended inside."""
        self._scope.append(name)
        yield
        self._scope.pop()

    def new_input(self, name: str, shape: Sequence[int], dtype: Any = ir.DataType.FLOAT) -> Any:
        """Add an input to the model, and return its value."""
        value = ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))
        self._inputs.append(value)
        return value

    def finish(self, output: Any, shape: tuple[int, ...]) -> Any:
        """Return the ``onnx.ModelProto``, with one output, ``"output"``, of this shape."""
        return self.finish_all({"output": (output, shape)})

    def finish_all(self, outputs: Mapping[str, tuple[Any, tuple[int, ...]]]) -> Any:
        """Return the ``onnx.ModelProto`` with these outputs: by name the value and its shape."""
        for name, (value, shape) in outputs.items():
            value.name = name
            value.shape = ir.Shape(shape)
            value.type = ir.TensorType(ir.DataType.FLOAT)
        graph = ir.Graph(
            inputs=self._inputs,
            outputs=[value for value, _ in outputs.values()],
            nodes=self._tape.nodes,
            initializers=self._tape.initializers,
            opset_imports={"": OPSET},
            name=self._name,
        )
        model = ir.Model(graph, ir_version=8, producer_name="tvm-ios")
        return ir.serde.serialize_model(model)

    def _op(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        value = self._tape.op(op_type, inputs, attributes, name=name)
        value.name = f"{name}.out"
        return value

    def _parts(self, kind: str, value: Any, names: list[str]) -> list[Any]:
        """Split a value into equal parts along axis 1."""
        parts = self._tape.op_multi_out(
            "Split", [value], {"axis": 1}, num_outputs=len(names), name=self._fresh(kind)
        )
        for part, name in zip(parts, names, strict=True):
            part.name = f"{name}.out"
        return list(parts)

    def _reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        name = self._fresh("reshape")
        target = self._weight(f"{name}.shape", np.array(shape, np.int64))
        return self._op("Reshape", name, [x, target])

    def _weight(self, name: str, array: Array) -> Any:
        return self._tape.initializer(ir.tensor(array, name=name))

    def _normal(self, shape: tuple[int, ...], scale: float) -> Array:
        array = self._rng.standard_normal(shape, dtype=np.float32)
        array *= np.float32(scale)
        return array

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> Array:
        return self._rng.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)

    def _fresh(self, kind: str) -> str:
        name = "/".join((*self._scope, kind))
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return f"{name}_{count}" if count else name
