"""LSTMs that ONNX Runtime's quantiser writes, as cells of operators that ONNX has for integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.quantised.onnxruntime import CONTRIB_DOMAIN
from tvm_ios.onnx.rewrites.recurrent import Direction, Unroller

#: Where a layer has the scales and zero points of the weights of the input, and of the state.
_OF_INPUT, _OF_STATE = (8, 9), (10, 11)


def unroll_quantised(graph: Any, opset: int, infer: Callable[[], object]) -> bool:
    """Write every ``DynamicQuantizeLSTM`` whose input's shape is known as its cells.

    Parameters
    ----------
    graph, opset
        A graph whose constants are folded.
    infer
        Infers the shapes of what is after such a layer, which ONNX knows nothing about.

    Returns
    -------
    bool
        Whether there was any.

    Raises
    ------
    GraphError
        As :func:`tvm_ios.onnx.rewrites.recurrent.unroll_recurrent`.
    """
    layers = [node for node in graph if _is_quantised_lstm(node)]
    for layer in layers:
        source = layer.inputs[0]
        if source.shape is None or not source.shape.is_static():
            return False
        length, batch, _ = source.shape
        hidden, directions = layer.attributes["hidden_size"].value, layer.inputs[1].shape[0]
        ends = [directions, batch, hidden]
        shapes = [[length, directions, batch, hidden], ends, ends]
        for result, shape in zip(layer.outputs, shapes, strict=False):
            result.shape, result.dtype = ir.Shape(shape), ir.DataType.FLOAT
        infer()
    for layer in layers:
        _QuantisedUnroller(graph, layer, opset, "LSTM").write()
    return bool(layers)


def _is_quantised_lstm(node: Any) -> bool:
    return (node.domain, node.op_type) == (CONTRIB_DOMAIN, "DynamicQuantizeLSTM")


class _QuantisedUnroller(Unroller):
    """Rounds the input as a whole and the state of each step to 8 bits, each by its own scale.

    As in ONNX Runtime a sum of integers is scaled at once, and the bias comes last.
    """

    def _weights(self, place: int) -> Array:
        """Those of products lie as right operands."""
        array = super()._weights(place)
        return array.transpose(0, 2, 1) if place in (1, 2) else array

    def _of_input(self, source: Any, direction: Direction, bias: Array) -> Any:
        return self._product(source, direction.w, _OF_INPUT, direction)

    def _with(self, gates: Any, state: Any, weight: Any, direction: Direction) -> Any:
        op = self.steps.op
        if state is not None:
            gates = op("Add", gates, self._product(state, direction.r, _OF_STATE, direction))
        bias = direction.bias_w + direction.bias_r
        return op("Add", gates, self.steps.number(bias)) if bias.any() else gates

    def _product(
        self, left: Any, weight: Array, places: tuple[int, int], direction: Direction
    ) -> Any:
        scale, zero_point = (self._of_direction(place, direction) for place in places)
        # Those of columns are all the same.
        zero_point = np.asarray(zero_point.reshape(-1)[0], weight.dtype)
        op, number = self.steps.op, self.steps.number
        rounded, of_data, origin = op("DynamicQuantizeLinear", left, outputs=3)
        zero = number(zero_point)
        sums = op("MatMulInteger", rounded, number(np.ascontiguousarray(weight)), origin, zero)
        factor = op("Mul", of_data, number(scale))
        return op("Mul", op("Cast", sums, to=int(ir.DataType.FLOAT)), factor)

    def _of_direction(self, place: int, direction: Direction) -> Array:
        array = constant(self._input(place))
        if array is None:
            raise self._refusal("has weights that are computed: export the model with constants")
        return array[direction.number]
