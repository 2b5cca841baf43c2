"""LSTMs that ONNX Runtime's quantiser writes, as cells of operators that ONNX has for integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.other_domains.deferred import array_of, input_of, shape_of
from tvm_ios.onnx.rewrites.other_domains.integers import dynamic_product
from tvm_ios.onnx.rewrites.recurrent import Direction, Unroller
from tvm_ios.onnx.rewrites.steps import Steps

#: Where a layer has the scales and zero points of the weights of the input, and of the state.
_OF_INPUT, _OF_STATE = (8, 9), (10, 11)
#: All that has to be constant: weights, biases, peepholes, scales and zero points.
_WEIGHTS = (1, 2, 3, 7, *_OF_INPUT, *_OF_STATE)


def _unroll(steps: Steps) -> None:
    """``DynamicQuantizeLSTM``: cells like those of any LSTM, whose products are of integers."""
    shape_of(steps.node.inputs[0])
    for place in _WEIGHTS:
        if (value := input_of(steps, place)) is not None:
            array_of(value)
    _QuantisedUnroller(steps.graph, steps.node, steps.opset, "LSTM").write()


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
        scale, zero_point = (array_of(self._input(place))[direction.number] for place in places)
        # Those of columns are all the same.
        zero_point = np.asarray(zero_point.reshape(-1)[0], weight.dtype)
        number = self.steps.number
        constants = (number(np.ascontiguousarray(weight)), number(scale), number(zero_point))
        return dynamic_product(self.steps, left, constants, None)


#: By the operator's name.
RECURRENT: Mapping[str, Callable[[Steps], None]] = {"DynamicQuantizeLSTM": _unroll}
