"""Operators written in the place of one that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant, new_constant, redirect


def static_shape(value: Any) -> list[int] | None:
    """The extents of a value, if they are all known."""
    return list(value.shape) if value.shape is not None and value.shape.is_static() else None


@dataclass
class Steps:
    """Puts operators before a node.

    What stands for the node has its shape and type; those of what is between are for inference to
    find.

    Attributes
    ----------
    graph, node
        The graph, and the node before which operators are put; names begin with the node's.
    opset
        The opset of the model: older ones have attributes where newer ones have inputs.
    """

    graph: Any
    node: Any
    opset: int
    _nodes: list[Any] = field(default_factory=list[Any])

    @property
    def name(self) -> str:
        """What the names of all that is made begin with."""
        return self.node.name or self.node.outputs[0].name or self.node.op_type

    def op(
        self, kind: str, *inputs: Any, outputs: int = 1, like: Any = None, **attributes: Any
    ) -> Any:
        """The result of an operator, or the list of its results.

        ``like`` is a value of the result's shape and type, which later steps ask for before they
        are inferred.
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
        """A constant: integers as int64, an array as it is, a number of the node's type."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
        elif isinstance(value, Sequence):
            array = np.array(value, np.int64)
        else:
            array = np.asarray(value, self.node.outputs[0].dtype.numpy())
        return new_constant(self.graph, f"{self.name}.number", array)

    @property
    def attributes(self) -> dict[str, Any]:
        """The node's attributes by name, for operators that stand for it."""
        return {name: attribute.value for name, attribute in self.node.attributes.items()}

    def integer(self, name: str, default: int) -> int:
        """A number that the node states, or what it is by default."""
        return self.node.attributes.get_int(name, default)

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Numbers that the node states, or what they are by default."""
        return list(self.node.attributes.get_ints(name, default))

    def cast(self, value: Any, dtype: Any) -> Any:
        """The value in another type of ``onnx_ir``, which it then is known to have."""
        if value.dtype == dtype:
            return value
        result = self.op("Cast", value, to=int(dtype))
        result.dtype, result.shape = dtype, value.shape
        return result

    def transposed(self, value: Any, perm: Sequence[int]) -> Any:
        """The value, a constant one at once, with its axes in another order."""
        if list(perm) == sorted(perm):
            return value
        array = constant(value)
        if array is not None:
            return self.number(np.transpose(array, perm))
        return self.op("Transpose", value, perm=list(perm))

    def reshaped(self, value: Any, old: Sequence[int], new: Sequence[int]) -> Any:
        """The value, a constant one at once, with other extents."""
        if list(old) == list(new):
            return value
        array = constant(value)
        if array is not None:
            return self.number(array.reshape(new))
        return self.op("Reshape", value, self.number(list(new)))

    def summed(self, value: Any, axes: Sequence[int]) -> Any:
        """The value summed over some axes, which are gone then."""
        return self.reduced("ReduceSum", value, axes, keepdims=0) if axes else value

    def reduced(self, kind: str, value: Any, axes: Sequence[int], keepdims: int) -> Any:
        """The value reduced over some axes, at least one."""
        if self.opset >= (13 if kind == "ReduceSum" else 18):
            return self.op(kind, value, self.number(list(axes)), keepdims=keepdims)
        return self.op(kind, value, axes=list(axes), keepdims=keepdims)

    def unsqueezed(self, value: Any, axis: int) -> Any:
        """The value with one more axis."""
        if self.opset >= 13:
            return self.op("Unsqueeze", value, self.number([axis]))
        return self.op("Unsqueeze", value, axes=[axis])

    def squeezed(self, value: Any, axis: int) -> Any:
        """The value without an axis of one."""
        if self.opset >= 13:
            return self.op("Squeeze", value, self.number([axis]))
        return self.op("Squeeze", value, axes=[axis])

    def split(self, value: Any, sizes: Sequence[int], axis: int) -> list[Any]:
        """Ranges of an axis, of a constant at once."""
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
        """The value within two limits."""
        if self.opset >= 11:
            return self.op("Clip", value, self.number(least), self.number(most))
        return self.op("Clip", value, min=least, max=most)

    def withdraw(self) -> None:
        """Take the operators away again that were put before the node."""
        self.graph.remove(self._nodes, safe=True)
        self._nodes.clear()

    def stand_for(self, *results: Any) -> None:
        """Let these be read in the place of the node's results, and remove the node."""
        for old, new in zip(self.node.outputs, results, strict=False):
            if new.producer() not in self._nodes:
                new = self.op("Identity", new)
            if new.shape is None:
                new.shape = old.shape
            if new.dtype is None and old.dtype is not None:
                new.dtype = old.dtype
            redirect(self.graph, old, new)
            if old.name:
                # What reads it may be cut off, and then it is found by its name in the model.
                new.name, old.name = old.name, None
        self.graph.remove(self.node, safe=True)
