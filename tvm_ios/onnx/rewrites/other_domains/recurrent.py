"""Unroll ``DynamicQuantizeLSTM`` into cells of ONNX's integer operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.other_domains.deferred import array_of, input_of, shape_of
from tvm_ios.onnx.rewrites.other_domains.integers import dynamic_product
from tvm_ios.onnx.rewrites.recurrent import Direction, Unroller
from tvm_ios.onnx.rewrites.steps import Steps

#: Input positions of the (scale, zero point) of the weights for the input and for the state.
_OF_INPUT, _OF_STATE = (8, 9), (10, 11)
#: All that has to be constant: weights, biases, peepholes, scales and zero points.
_WEIGHTS = (1, 2, 3, 7, *_OF_INPUT, *_OF_STATE)


def _unroll(steps: Steps) -> None:
    """Rewrite ``DynamicQuantizeLSTM`` as cells with integer products."""
    shape_of(steps.node.inputs[0])
    for place in _WEIGHTS:
        if (value := input_of(steps, place)) is not None:
            array_of(value)
    _QuantisedUnroller(steps.graph, steps.node, steps.opset, "LSTM").write()


class _QuantisedUnroller(Unroller):
    """An unroller that quantises the whole input and each step's state to 8 bits.

    As in ONNX Runtime, integer sums are scaled at once, and the bias is added last.
    """

    def _weights(self, place: int) -> Array:
        """Return weights; those of products are transposed to right operands."""
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
        scale, zero_point = (array_of(self._input(place))[direction.number] for place in places)
        # Those of columns are all the same.
        zero_point = np.asarray(zero_point.reshape(-1)[0], weight.dtype)
        number = self.steps.number
        constants = (number(np.ascontiguousarray(weight)), number(scale), number(zero_point))
        return dynamic_product(self.steps, left, constants, None)


#: By the operator's name.
RECURRENT: Mapping[str, Callable[[Steps], None]] = {"DynamicQuantizeLSTM": _unroll}
