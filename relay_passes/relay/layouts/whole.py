"""Put the bodies of units together as one function that remembers the unit of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.canonical.fold_constants import folded
from relay_passes.relay.expressions import (
    arguments,
    operator_name,
    post_order,
    shape_of_type,
    substitute,
)
from relay_passes.relay.kernels import RelayUnitFunction
from relay_passes.relay.layouts.transforms import Border, transform_of, transformed_back


class Whole:
    """The bodies of units as one function whose calls have numbers in spans, which passes keep.

    Attributes
    ----------
    parameters
        One for each input.
    value
        The expression of each tensor.
    owner
        The unit of each numbered call.
    calls
        The numbered calls.
    """

    def __init__(self, units: Sequence[RelayUnitFunction], inputs: Mapping[int, Border]) -> None:
        self.parameters = [relay.Var(f"x{t}", border.type) for t, border in inputs.items()]
        self.value: dict[int, Any] = {}
        self.owner: list[int] = []
        self.calls: list[relay.Call] = []
        for parameter, (tensor, border) in zip(self.parameters, inputs.items(), strict=True):
            self.value[tensor] = transformed_back(parameter, border.transform)
        for number, unit in enumerate(units):
            results = self._inline(number, unit)
            self.value.update(zip(unit.outputs, results, strict=True))

    def _inline(self, number: int, unit: RelayUnitFunction) -> Sequence[Any]:
        function = _canonical(unit.function)
        operands = [*(self.value[t] for t in unit.data), *unit.constants]
        new: dict[Any, Any] = dict(zip(function.params, operands, strict=True))
        for expression in post_order(function):
            if expression in new:
                continue
            rewritten = substitute(expression, new.__getitem__)
            if isinstance(rewritten, relay.Call):
                rewritten = _split_by_indices(expression, rewritten)
                rewritten = folded(expression, rewritten) or self._numbered(number, rewritten)
            new[expression] = rewritten
        result = new[function.body]
        if len(unit.outputs) == 1:
            return [result]
        if isinstance(result, relay.Tuple):
            return result.fields
        return [relay.TupleGetItem(result, place) for place in range(len(unit.outputs))]

    def renumber(self, main: relay.Function) -> Callable[[Any], relay.Call | None]:
        """Return a function that numbers again the calls of ``main`` whose number a pass dropped.

        Those are calls with several results. It is to be called with each expression of ``main``
        after those that it reads, and returns None for other expressions.
        """
        places = {place_of(expression) for expression in post_order(main)}
        lost: dict[Any, list[int]] = {}
        for number, call in enumerate(self.calls):
            if (number,) not in places:
                lost.setdefault(_what_is_read(call), []).append(number)

        def numbered(expression: Any) -> relay.Call | None:
            if not isinstance(expression, relay.Call) or expression.span is not None:
                return None
            same = lost.get(_what_is_read(expression))
            return _with_number(expression, same.pop(0)) if same else None

        return numbered

    def _numbered(self, unit: int, call: relay.Call) -> relay.Call:
        self.calls.append(_with_number(call, len(self.owner)))
        self.owner.append(unit)
        return self.calls[-1]


def _with_number(call: relay.Call, number: int) -> relay.Call:
    span = tvm.ir.Span(tvm.ir.SourceName(str(number)), 0, 0, 0, 0)
    return relay.Call(call.op, call.args, call.attrs, call.type_args, span)


def _what_is_read(call: relay.Call) -> tuple[Any, ...]:
    """Return the operator of a call and the places of its arguments, whatever their layouts."""
    leaves = [a.args[0] if transform_of(a) else a for a in arguments(call)]
    return (operator_name(call), *map(place_of, leaves))


def place_of(expression: Any) -> tuple[Any, ...] | None:
    """Return a key of an expression that survives passes; None for inserted expressions.

    It is the number of a call, that and the field of its result, or the name of a parameter.
    """
    if isinstance(expression, relay.TupleGetItem):
        inner = place_of(expression.tuple_value)
        return None if inner is None else (*inner, int(expression.index))
    if isinstance(expression, relay.Call) and expression.span is not None:
        return (int(expression.span.source_name.name),)
    return (expression.name_hint,) if isinstance(expression, relay.Var) else None


def _split_by_indices(old: Any, call: relay.Call) -> relay.Call:
    """Return a split into equal sections as one at indices; other calls unchanged.

    TVM would split blocks of channels into that many sections even where they are not divisible.
    """
    sections = getattr(call.attrs, "indices_or_sections", None)
    if operator_name(call) != "split" or not isinstance(sections, int | tvm.tir.IntImm):
        return call
    axis = int(call.attrs.axis)
    extents = [shape_of_type(kind, "a part")[axis] for kind in old.checked_type.fields]
    indices = list(accumulate(extents))[:-1]
    return relay.split(call.args[0], indices, axis=axis).tuple_value


def _canonical(function: relay.Function) -> relay.Function:
    """Return the function with each ``bias_add`` as an addition, through which layouts pass."""
    infer = relay.transform.InferType()
    passes = tvm.transform.Sequential([infer, relay.transform.CanonicalizeOps(), infer])
    with tvm.transform.PassContext(opt_level=3):
        return passes(tvm.IRModule.from_expr(function))["main"]
