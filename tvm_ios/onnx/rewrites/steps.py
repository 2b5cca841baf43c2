"""Insert operators before a node and let them replace it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant, new_constant, redirect


def static_shape(value: Any) -> list[int] | None:
    """Return the extents of a value, or None if they are not all known."""
    return list(value.shape) if value.shape is not None and value.shape.is_static() else None


@dataclass
class Steps:
    """A writer of operators that replace a node.

    Operators are inserted into ``graph`` before ``node``, with names that begin with the node's.
    The replacement gets the node's shape and type; those of intermediate values are left to
    inference. ``opset`` is the model's: older ones have attributes where newer ones have inputs.
    """

    graph: Any
    node: Any
    opset: int
    _nodes: list[Any] = field(default_factory=list[Any])

    @property
    def name(self) -> str:
        """The prefix of the names of inserted operators and values."""
        return self.node.name or self.node.outputs[0].name or self.node.op_type

    def op(
        self, kind: str, *inputs: Any, outputs: int = 1, like: Any = None, **attributes: Any
    ) -> Any:
        """Insert an operator; return its result, or the list of its ``outputs`` results.

        ``like`` is a value of the result's shape and type, for steps that read these before
        inference.
        """
        name = f"{self.name}.{kind.lower()}{len(self._nodes)}"
        node: Any = ir.node(kind, inputs, attributes, num_outputs=outputs, name=name)
        for number, value in enumerate(node.outputs):
            value.name = name if outputs == 1 else f"{name}.{number}"
            if like is not None:
                value.shape, value.dtype = like.shape, like.dtype
        self._nodes.append(node)
        self.graph.insert_before(self.node, node)
        return node.outputs[0] if outputs == 1 else list(node.outputs)

    def number(self, value: float | Sequence[int] | Array) -> Any:
        """Add a constant: integers as int64, an array as it is, a number of the node's type."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
        elif isinstance(value, Sequence):
            array = np.array(value, np.int64)
        else:
            array = np.asarray(value, self.node.outputs[0].dtype.numpy())
        return new_constant(self.graph, f"{self.name}.number", array)

    @property
    def attributes(self) -> dict[str, Any]:
        """The node's attributes by name, for the operators that replace it."""
        return {name: attribute.value for name, attribute in self.node.attributes.items()}

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute of the node, or the default."""
        return self.node.attributes.get_int(name, default)

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute of several integers of the node, or the default."""
        return list(self.node.attributes.get_ints(name, default))

    def cast(self, value: Any, dtype: Any) -> Any:
        """Return the value cast to a type of ``onnx_ir``."""
        if value.dtype == dtype:
            return value
        result = self.op("Cast", value, to=int(dtype))
        result.dtype, result.shape = dtype, value.shape
        return result

    def transposed(self, value: Any, perm: Sequence[int]) -> Any:
        """Return the value transposed; a constant is transposed at once."""
        if list(perm) == sorted(perm):
            return value
        array = constant(value)
        if array is not None:
            return self.number(np.transpose(array, perm))
        return self.op("Transpose", value, perm=list(perm))

    def reshaped(self, value: Any, old: Sequence[int], new: Sequence[int]) -> Any:
        """Return the value reshaped from ``old`` to ``new``; a constant is reshaped at once."""
        if list(old) == list(new):
            return value
        array = constant(value)
        if array is not None:
            return self.number(array.reshape(new))
        return self.op("Reshape", value, self.number(list(new)))

    def summed(self, value: Any, axes: Sequence[int]) -> Any:
        """Return the value summed over some axes, which are dropped."""
        return self.reduced("ReduceSum", value, axes, keepdims=0) if axes else value

    def reduced(self, kind: str, value: Any, axes: Sequence[int], keepdims: int) -> Any:
        """Return the value reduced over some axes, at least one."""
        if self.opset >= (13 if kind == "ReduceSum" else 18):
            return self.op(kind, value, self.number(list(axes)), keepdims=keepdims)
        return self.op(kind, value, axes=list(axes), keepdims=keepdims)

    def unsqueezed(self, value: Any, axis: int) -> Any:
        """Return the value with a new axis of extent 1."""
        if self.opset >= 13:
            return self.op("Unsqueeze", value, self.number([axis]))
        return self.op("Unsqueeze", value, axes=[axis])

    def squeezed(self, value: Any, axis: int) -> Any:
        """Return the value without an axis of extent 1."""
        if self.opset >= 13:
            return self.op("Squeeze", value, self.number([axis]))
        return self.op("Squeeze", value, axes=[axis])

    def split(self, value: Any, sizes: Sequence[int], axis: int) -> list[Any]:
        """Return the parts of an axis with these sizes; a constant is split at once."""
        if len(sizes) == 1:
            return [value]
        array = constant(value)
        if array is not None:
            return [self.number(part) for part in np.split(array, np.cumsum(sizes)[:-1], axis)]
        if self.opset >= 13:
            number = self.number(list(sizes))
            return self.op("Split", value, number, outputs=len(sizes), axis=axis)
        return self.op("Split", value, outputs=len(sizes), axis=axis, split=list(sizes))

    def clipped(self, value: Any, least: float, most: float) -> Any:
        """Return the value clipped to two limits."""
        if self.opset >= 11:
            return self.op("Clip", value, self.number(least), self.number(most))
        return self.op("Clip", value, min=least, max=most)

    def withdraw(self) -> None:
        """Remove the operators that were inserted."""
        self.graph.remove(self._nodes, safe=True)
        self._nodes.clear()

    def stand_for(self, *results: Any) -> None:
        """Let readers of the node's results read these values instead, and remove the node."""
        for old, new in zip(self.node.outputs, results, strict=False):
            if new.producer() not in self._nodes:
                new = self.op("Identity", new)
            if new.shape is None:
                new.shape = old.shape
            if new.dtype is None and old.dtype is not None:
                new.dtype = old.dtype
            redirect(self.graph, old, new)
            if old.name:
                # A tail that is cut off finds this value by its name in the model.
                new.name, old.name = old.name, None
        self.graph.remove(self.node, safe=True)
