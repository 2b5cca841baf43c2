"""Write ``DynamicQuantizeLSTM`` as cells of ONNX's integer operators, or one of all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.other_domains.deferred import array_of, input_of, shape_of
from tvm_ios.onnx.rewrites.other_domains.integers import (
    as_float_product,
    dynamic_product,
    quantised,
)
from tvm_ios.onnx.rewrites.recurrence.cells import Direction, Unroller
from tvm_ios.onnx.rewrites.recurrence.loops import Looper
from tvm_ios.onnx.rewrites.steps import Steps

#: Input positions of the (scale, zero point) of the weights for the input and for the state.
_OF_INPUT, _OF_STATE = (8, 9), (10, 11)
#: All that has to be constant: weights, biases, peepholes, scales and zero points.
_WEIGHTS = (1, 2, 3, 7, *_OF_INPUT, *_OF_STATE)


def _unroll(steps: Steps) -> None:
    """Rewrite ``DynamicQuantizeLSTM`` as cells with integer products."""
    _require_known(steps)
    _QuantisedUnroller(steps.graph, steps.node, steps.opset, "LSTM").write()


def _loop(steps: Steps) -> None:
    """Rewrite ``DynamicQuantizeLSTM`` as an operator of all steps, or as cells."""
    _require_known(steps)
    looper = _QuantisedLooper(steps.graph, steps.node, steps.opset, "LSTM")
    if looper.fits():
        looper.write()
    else:
        _unroll(steps)


def _require_known(steps: Steps) -> None:
    """Raise Deferred if the input's shape or a constant is not known yet."""
    shape_of(steps.node.inputs[0])
    for place in _WEIGHTS:
        if (value := input_of(steps, place)) is not None:
            array_of(value)


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
        return dynamic_product(self.steps, left, self._right(weight, places, direction), None)

    def _right(
        self, weight: Array, places: tuple[int, int], direction: Direction
    ) -> tuple[Any, Any, Any]:
        """Return the right operand of a product, with its scales and zero point."""
        scale, zero_point = self._quantisation(places, direction.number)
        number = self.steps.number
        zero = number(np.asarray(zero_point, weight.dtype))
        return number(np.ascontiguousarray(weight)), number(scale), zero

    def _quantisation(self, places: tuple[int, int], direction: int) -> tuple[Array, int]:
        """Return the scales and the zero point of weights."""
        scale, zero_point = (array_of(self._input(place))[direction] for place in places)
        # Those of columns are all the same.
        return scale, int(zero_point.reshape(-1)[0])


class _QuantisedLooper(_QuantisedUnroller, Looper):
    """A writer of operators of all steps, each of which quantises the state of one row."""

    _rows: tuple[Any, Any, Any] | None = None

    def fits(self) -> bool:
        """Return whether there is an operator that computes the layer."""
        centred = (self._centred(d) for d in range(self.directions))
        return self.batch == 1 and super().fits() and all(r is not None for r in centred)

    def _centred(self, direction: int) -> Array | None:
        """Return R less its zero point as int8, as a right operand, or None if it does not fit."""
        _, zero_point = self._quantisation(_OF_STATE, direction)
        moved = self.r[direction].T.astype(np.int32) - zero_point
        kept = moved.astype(np.int8)
        return kept if np.array_equal(kept, moved) else None

    def _quantised(self, source: Any) -> tuple[Any, Any, Any]:
        """Return all rows of the input in 8 bits, which all directions read."""
        if self._rows is None:
            op = self.steps.op
            rows = op("Reshape", source, self.steps.number([self.length, self.features]))
            rows.dtype = source.dtype
            self._rows = quantised(self.steps, rows)
        return self._rows

    def _products(
        self, source: Any, direction: Direction, given: dict[str, Any]
    ) -> tuple[Any, Array]:
        op, number, width = self.steps.op, self.steps.number, self.gates * self.hidden
        bias = direction.bias_w + direction.bias_r
        right = self._right(direction.w, _OF_INPUT, direction)
        gates = as_float_product(self.steps, self._quantised(source), right, None)
        scale, _ = self._quantisation(_OF_STATE, direction.number)
        given["scale"] = number(np.broadcast_to(scale, (1, width)))
        if bias.any():
            given["bias"] = number(bias[None])
        weight = self._centred(direction.number)
        assert weight is not None, "it fits"
        return op("Reshape", gates, number([self.length, 1, width])), weight


#: By the operator's name.
RECURRENT: Mapping[str, Callable[[Steps], None]] = {"DynamicQuantizeLSTM": _unroll}
#: The same, where operators of all steps are wanted.
LOOPED: Mapping[str, Callable[[Steps], None]] = {"DynamicQuantizeLSTM": _loop}
