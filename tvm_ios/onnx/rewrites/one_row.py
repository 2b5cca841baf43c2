"""Rewrite 1-D convolutions and pools as 2-D ones on images of one row, which have kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant, is_of_onnx, new_constant
from tvm_ios.onnx.rewrites.steps import Steps

#: Attributes of windows, and what each is along the new axis.
_ALONG_ROWS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
#: Element-wise operators whose other inputs, if they have any, are numbers or one a channel.
_OF_ONE = frozenset(
    {
        *("Abs", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Elu", "Erf", "Exp"),
        *("Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg"),
        *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt"),
        *("Tanh", "ThresholdedRelu"),
    }
)
_BROADCASTING = frozenset({"Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum"})


def one_row_images(model: Any) -> None:
    """Reshape (N, C, W) data of convolutions and pools to (N, C, 1, W), in place.

    The row axis stays through element-wise operators and concatenations, so that no reshapes stand
    between convolutions.
    """
    _Rows(model.graph, model.opset_imports.get("", 0)).write()


class _Rows:
    def __init__(self, graph: Any, opset: int) -> None:
        self.graph, self.opset = graph, opset
        #: By a value (N, C, W) what is the same as (N, C, 1, W), and comes before what is visited.
        self.images: dict[Any, Any] = {}

    def write(self) -> None:
        """Rewrite all operators of the graph, in order."""
        for node in list(self.graph):
            if not is_of_onnx(node) or not node.inputs or not _is_alone(node):
                continue
            data = node.inputs[0]
            if node.op_type in _CONVOLUTIONS:
                weight = constant(node.inputs[1])
                if weight is None or weight.ndim != 3:
                    continue
                self._widen(node, [data])
                self._replace(node, 1, np.expand_dims(weight, 2))
            elif node.op_type in _POOLS:
                if _rank(data) == 3:
                    self._widen(node, [data])
            elif node.op_type in _OF_ONE:
                if data in self.images:
                    self._widen(node, [data])
            elif node.op_type in _BROADCASTING:
                self._broadcast(node)
            elif node.op_type == "Concat" and all(value in self.images for value in node.inputs):
                axis = node.attributes.get_int("axis", 1) % 3
                self._widen(node, node.inputs)
                node.attributes["axis"] = ir.AttrInt64("axis", axis + (axis == 2))

    def _broadcast(self, node: Any) -> None:
        """Rewrite element-wise arithmetic of one-row images and constants."""
        arrays = {value: constant(value) for value in node.inputs}
        computed = [value for value in node.inputs if arrays[value] is None]
        ranks = [array.ndim for array in arrays.values() if array is not None]
        if not computed or max(ranks, default=0) > 3:
            return
        if not all(value in self.images for value in computed):
            return
        self._widen(node, computed)
        for place, value in enumerate(node.inputs):
            array = arrays.get(value)
            if array is not None and array.ndim > 1:
                self._replace(node, place, np.expand_dims(array, -2))

    def _widen(self, node: Any, data: Iterable[Any]) -> None:
        """Let a node read the one-row images of ``data``, and its readers the squeezed result."""
        steps = Steps(self.graph, node, self.opset)
        for value in data:
            if value not in self.images:
                self.images[value] = steps.unsqueezed(value, 2)
        for place, value in enumerate(node.inputs):
            if value in self.images and constant(value) is None:
                node.replace_input_with(place, self.images[value])
        for name, along_rows in _ALONG_ROWS.items():
            if name in node.attributes:
                extents = [along_rows, *node.attributes.get_ints(name)]
                node.attributes[name] = ir.AttrInt64s(name, extents)
        if "pads" in node.attributes:
            begin, end = node.attributes.get_ints("pads")
            node.attributes["pads"] = ir.AttrInt64s("pads", [0, begin, 0, end])
        self._squeeze(node)

    def _squeeze(self, node: Any) -> None:
        image = node.outputs[0]
        axes = new_constant(self.graph, f"{node.name}.row", np.array([2], np.int64))
        squeezed: Any = (
            ir.node("Squeeze", [image, axes], name=f"{node.name}.squeeze")
            if self.opset >= 13
            else ir.node("Squeeze", [image], {"axes": [2]}, name=f"{node.name}.squeeze")
        )
        row = squeezed.outputs[0]
        row.shape, row.dtype = image.shape, image.dtype
        for use in list(image.uses()):
            if use.node is not squeezed:
                use.node.replace_input_with(use.idx, row)
        if image.is_graph_output():
            self.graph.outputs[list(self.graph.outputs).index(image)] = row
        image.name, row.name = f"{image.name}.image", image.name
        if image.shape is not None:
            batch, channels, width = image.shape
            image.shape = ir.Shape([batch, channels, 1, width])
        self.graph.insert_after(node, squeezed)
        self.images[row] = image

    def _replace(self, node: Any, place: int, array: Any) -> None:
        """Let a node read another constant, with a name derived from the old one."""
        name = node.inputs[place].name
        node.replace_input_with(place, new_constant(self.graph, f"{name}.image", array))


def _is_alone(node: Any) -> bool:
    """Return whether only the first result of an operator is read."""
    return not any(value.uses() or value.is_graph_output() for value in node.outputs[1:])


def _rank(value: Any) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)
