"""Recognise operators that Relay's ONNX importer writes as several calls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from relay_passes.relay.expressions import children, constant_value, operator_name, static_shape
from relay_passes.same_attributes import ints
from tvm_ios.graph.elements import AttrValue


@dataclass(frozen=True)
class Spelling:
    """Several calls that together are one operator."""

    #: As in :mod:`tvm_ios.graph.operators`.
    kind: str
    attrs: Mapping[str, AttrValue]
    #: The expressions that are its inputs.
    reads: tuple[Any, ...]
    #: The calls, in order; only the last one is read by others.
    calls: tuple[relay.Call, ...]


def spellings(order: Sequence[Any], uses: Mapping[Any, int]) -> dict[Any, Spelling]:
    """Return each operator that is written as several calls, by its last call.

    ``order`` has all expressions, each after those that it reads; ``uses`` counts their reads.
    """
    by_last_call: dict[Any, Spelling] = {}
    spelled: set[Any] = set()
    # From the end, so that an operator is recognised with all that belongs to it.
    for last in reversed(order):
        if last in spelled or not isinstance(last, relay.Call):
            continue
        for recognise in _RECOGNISERS:
            match = recognise(last)
            if match is None:
                continue
            kind, attrs, reads = match
            calls = _between(reads, last)
            inside = Counter(child for call in calls for child in children(call))
            if all(inside[call] == uses[call] for call in calls[:-1]):
                by_last_call[last] = Spelling(kind, attrs, reads, calls)
                spelled.update(calls)
                break
    return by_last_call


_Match = tuple[str, Mapping[str, AttrValue], tuple[Any, ...]]


def _between(reads: Sequence[Any], last: relay.Call) -> tuple[relay.Call, ...]:
    """Return the calls that lead from some expressions to another one, in order."""
    calls: list[relay.Call] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relay.Call) and expression not in (*reads, *calls):
            for child in children(expression):
                visit(child)
            calls.append(expression)

    visit(last)
    return tuple(calls)


def _parts(expression: Any, name: str) -> Sequence[Any] | None:
    """Return the arguments of a call of the named operator; None for anything else."""
    return tuple(expression.args) if operator_name(expression) == name else None


def _unshaped(expression: Any, last_axes: int) -> Any:
    """Return the input of a reshape that keeps the last axes; other expressions unchanged."""
    if operator_name(expression) == "reshape":
        before = expression.args[0]
        if static_shape(before)[-last_axes:] == static_shape(expression)[-last_axes:]:
            return before
    return expression


def _dense(last: Any) -> _Match | None:
    """Match a product with a constant weight, which Relay reshapes to rows if of another rank."""
    if (product := _parts(_unshaped(last, 1), "nn.dense")) is None:
        return None
    data, weight = _unshaped(product[0], 1), product[1]
    if static_shape(data)[:-1] != static_shape(last)[:-1] or constant_value(weight) is None:
        return None
    return "dense", {}, (data, weight)


def _matmul(last: Any) -> _Match | None:
    """Match a product of data, or of data and a constant of several matrices.

    Relay's operator takes three dimensions, and the second operand transposed.
    """
    inner = _unshaped(last, 2)
    if (product := _parts(inner, "nn.batch_matmul")) is not None:
        left, right = product
        if inner.attrs.transpose_a:
            return None
        if inner.attrs.transpose_b and not isinstance(right, relay.Constant):
            right = _transposed(right)
    elif (product := _parts(inner, "nn.dense")) is not None:
        left, right = product[0], _transposed(product[1])
        if isinstance(right, relay.Constant):
            return None
    else:
        return None
    if right is None:
        return None
    left, right = _unshaped(left, 2), _unshaped(right, 2)
    batch, matrices = static_shape(last)[:-2], static_shape(right)[:-2]
    # A constant was reshaped when it was folded.
    if isinstance(right, relay.Constant) and matrices == (math.prod(batch),):
        matrices = batch
    alike = static_shape(left)[:-2] == matrices == batch
    return ("matmul", {}, (left, right)) if alike else None


def _transposed(expression: Any) -> Any:
    """Return the input of a transpose of the last two dimensions, or None."""
    if operator_name(expression) != "transpose" or expression.attrs.axes is None:
        return None
    axes = ints(expression.attrs.axes)
    rank = len(axes)
    last_two_swapped = (*range(rank - 2), rank - 1, rank - 2)
    return expression.args[0] if axes == last_two_swapped else None


def _layer_norm(last: Any) -> _Match | None:
    """Match ``(x - mean) * (1 / sqrt(variance + epsilon)) * scale + bias``."""
    for scaled, bias in _pairs(last, "add"):
        for normal, scale in _pairs(scaled, "multiply"):
            for centred, inverse in _pairs(normal, "multiply"):
                normalised = _normalisation(centred, inverse)
                if normalised is not None:
                    data, attrs = normalised
                    return "layer_norm", attrs, (data, scale, bias)
    return None


def _normalisation(centred: Any, inverse: Any) -> tuple[Any, Mapping[str, AttrValue]] | None:
    """Match ``_layer_norm`` without scale and bias; return the data and attributes, or None."""
    difference, quotient = _parts(centred, "subtract"), _parts(inverse, "divide")
    if difference is None or quotient is None or constant_value(quotient[0]) != 1:
        return None
    root = _parts(quotient[1], "sqrt")
    shifted = None if root is None else _parts(root[0], "add")
    spread = None if shifted is None else _parts(shifted[0], "variance")
    data, mean = difference
    if shifted is None or spread is None or tuple(spread) != (data, mean):
        return None
    epsilon = constant_value(shifted[1])
    rank = len(static_shape(data))
    if _parts(mean, "mean") != (data,) or epsilon is None or epsilon.size != 1:
        return None
    for call in (mean, shifted[0]):
        axes = tuple(sorted(axis % rank for axis in ints(call.attrs.axis)))
        if axes != tuple(range(axes[0], rank)) or not call.attrs.keepdims or call.attrs.exclude:
            return None
    if shifted[0].attrs.unbiased:
        return None
    return data, {"axes": axes, "epsilon": float(np.float32(epsilon.reshape(())))}


def _pairs(expression: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments of a commutative operator in both orders."""
    if (parts := _parts(expression, name)) is not None:
        yield parts[0], parts[1]
        yield parts[1], parts[0]


def _gather(last: Any) -> _Match | None:
    """Match a take whose negative indices count from the end."""
    take_arguments = _parts(last, "take")
    if take_arguments is None or last.attrs.axis is None or int(last.attrs.batch_dims) != 0:
        return None
    data, chosen = take_arguments
    shape = static_shape(data)
    axis = int(last.attrs.axis) % len(shape)
    if (choice := _parts(chosen, "where")) is None:
        return None
    negative, moved, indices = choice
    tested, sum_ = _parts(negative, "less"), _parts(moved, "add")
    if tested is None or sum_ is None or tested[0] != indices or sum_[0] != indices:
        return None
    if constant_value(tested[1]) != 0 or constant_value(sum_[1]) != shape[axis]:
        return None
    return "gather", {"axis": axis}, (data, indices)


_RECOGNISERS: tuple[Callable[[Any], _Match | None], ...] = (_layer_norm, _dense, _matmul, _gather)
