"""Concatenations of Relay programs that need not run, because their fields lie in the result.

Kernels of ``relay.build`` take contiguous tensors. A range of a tensor's outermost axis is
contiguous, so it can be passed as such a tensor: the kernel's *slices* say where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
import tvm
from tvm import relay

from runtime_ext.relay.executor_graph import UnitGraph
from runtime_ext.relay.library import ArgumentSlice, Sliced
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.joins import Join, Place, Places, join_priority, place_joined
from tvm_ios.program.program import ALIGNMENT, BufferType, Part, PhaseCall, UnitCode


@dataclass(frozen=True)
class Concatenation:
    """A unit that only concatenates."""

    #: The axis of the result along which it joins.
    axis: int
    #: The number of tensors that the unit reads, constants included.
    inputs: int
    #: The inputs that it joins, in order.
    fields: tuple[int, ...]


@dataclass(frozen=True)
class TensorRange:
    """A tensor that is a range of another one."""

    #: The type of the other tensor.
    whole: BufferType
    #: The axis of the range; all extents before it are 1.
    axis: int
    #: The extent of the range along the axis.
    extent: int
    #: The byte at which it begins.
    offset: int


@dataclass(frozen=True)
class SlicedTensors:
    """The arrangement of a graph's tensors in memory."""

    #: For each tensor that lies in another one, its range there.
    cuts: Mapping[int, TensorRange]
    #: The same in the form that programs take.
    parts: Mapping[int, Part]
    #: Concatenations that write nothing, because all their fields lie in the result.
    silent: frozenset[int]

    def of(self, tensors: Iterable[int]) -> TensorRanges:
        """Return the cuts of some tensors, None for those that do not lie in another."""
        return tuple(map(self.cuts.get, tensors))


#: For each tensor of a unit, data and then outputs, its range in another one, if it has one.
TensorRanges = tuple[TensorRange | None, ...]


@dataclass(frozen=True)
class InPlace:
    """Units whose concatenations do not copy fields that lie in their result already."""

    #: The code of each unit, for tensors that lie in others.
    code: tuple[UnitCode, ...]
    #: For each tensor that lies in another one, its part of that.
    parts: Mapping[int, Part]
    #: For each new symbol in the code the symbol that it calls, and the slices of its arguments.
    sliced: Sliced


def concatenations(main: relay.Function, calls: Sequence[Any]) -> list[Concatenation | None]:
    """Return the concatenation that each unit of a scheduled ``main`` is; None for other units.

    ``calls`` are the units of the calls: equal ones in a row are one unit. If a later pass has
    changed the form of the calls, all are None.
    """
    bindings: list[Any] = []
    body = main.body
    while isinstance(body, relay.Let):
        bindings.append(body.value)
        body = body.body
    if len(bindings) != len(calls):
        return [None for _ in groupby(calls)]
    units = groupby(zip(calls, bindings, strict=True), itemgetter(0))
    values_by_unit = [[value for _, value in members] for _, members in units]
    return [concatenation(values[0]) if len(values) == 1 else None for values in values_by_unit]


def concatenation(call: Any) -> Concatenation | None:
    """Return the concatenation that a call of one kernel is, or None.

    Nested concatenations along one axis count as one.
    """
    kernel = call.op if isinstance(call, relay.Call) else None
    if not isinstance(kernel, relay.Function) or not isinstance(kernel.body, relay.Call):
        return None
    number = {parameter: place for place, parameter in enumerate(kernel.params)}
    axes: set[int] = set()
    fields: list[int] = []
    pending: list[Any] = [kernel.body]
    while pending:
        value = pending.pop()
        if value in number:
            fields.append(number[value])
        elif isinstance(value, relay.Tuple):
            pending += reversed(value.fields)
        elif isinstance(value, relay.Call) and value.op == tvm.ir.Op.get("concatenate"):
            axes.add(int(value.attrs.axis) % len(value.checked_type.shape))
            pending += value.args
        else:
            return None
    if len(axes) != 1:
        return None
    return Concatenation(axes.pop(), len(number), tuple(fields))


def arrange(graph: OpGraph, joined: Sequence[Concatenation | None]) -> SlicedTensors:
    """Place tensors inside the results of concatenations, where all fields of one can lie there.

    ``joined`` is the concatenation of each unit that does nothing else; tensors of the graph have
    the shapes that kernels see.
    """
    candidates = (
        _join(graph, unit, concatenation)
        for unit, concatenation in enumerate(joined)
        if concatenation is not None
    )

    def may_lie(tensor: int, join: Join) -> bool:
        produced = graph.producer[tensor] is not None and tensor not in graph.outputs
        return produced and graph.tensors[tensor].dtype == graph.tensors[join.output].dtype

    def works(join: Join, places: Places) -> bool:
        in_place = join.in_place(places)
        return len(in_place) == len(join.fields) and all(
            _cut(graph, places[tensor]).offset % ALIGNMENT == 0 for tensor in in_place
        )

    joins = [join for join in candidates if join is not None]
    places, joins = place_joined(joins, may_lie, works)
    return SlicedTensors(
        {tensor: _cut(graph, place) for tensor, place in places.items()},
        {t: Part(p.of, p.axis, p.begin, p.end) for t, p in places.items()},
        frozenset(unit for join in joins if (unit := graph.producer[join.output]) is not None),
    )


def lay_in_place(unit_graph: UnitGraph, joined: Sequence[Concatenation | None]) -> InPlace:
    """Return the code of units for tensors placed as :func:`arrange` does."""
    arrangement = arrange(unit_graph.graph, joined)
    sliced: Sliced = {}
    code = [
        code_in_place(
            unit_code,
            arrangement.of((*op.inputs, *op.outputs)),
            sliced,
            runs=unit not in arrangement.silent,
        )
        for unit, (op, unit_code) in enumerate(
            zip(unit_graph.graph.operators, unit_graph.code, strict=True)
        )
    ]
    return InPlace(tuple(code), arrangement.parts, sliced)


def code_in_place(code: UnitCode, cuts: TensorRanges, sliced: Sliced, *, runs: bool) -> UnitCode:
    """Return a unit's code for tensors that are ranges of others; add new symbols to ``sliced``.

    With ``runs`` False the code has no calls.
    """
    data = len(cuts) - code.outputs
    first = len(code.parameters) - code.outputs
    places = (*range(data), *range(first, len(code.parameters)))
    cut_by_parameter = {at: cut for at, cut in zip(places, cuts, strict=True) if cut is not None}
    parameters = list(code.parameters)
    for at, cut in cut_by_parameter.items():
        parameters[at] = cut.whole

    def rewritten(call: PhaseCall) -> PhaseCall:
        slices = tuple(
            ArgumentSlice(argument, cut.axis, cut.extent, cut.offset)
            for argument, at in enumerate(call.arguments)
            if (cut := cut_by_parameter.get(at)) is not None
        )
        if not slices:
            return call
        content = (call.symbol, slices)
        symbol_of_equal = next(
            (symbol for symbol, other in sliced.items() if other == content), None
        )
        symbol = symbol_of_equal or f"{call.symbol}__in_place_{len(sliced)}"
        sliced[symbol] = content
        return replace(call, symbol=symbol)

    if not runs:
        return replace(code, parameters=tuple(parameters), scratch=(), calls=())
    calls = tuple(rewritten(call) for call in code.calls)
    return replace(code, parameters=tuple(parameters), calls=calls)


def _join(graph: OpGraph, unit: int, concatenation: Concatenation) -> Join | None:
    """Return a unit's concatenation if its fields can lie side by side in its result, else None."""
    op = graph.operators[unit]
    if len(op.inputs) != concatenation.inputs or len(op.outputs) != 1:
        return None  # It joins constants, or a tensor twice.
    (output,) = op.outputs
    shape = graph.tensors[output].shape
    if prod(shape[: concatenation.axis]) != 1 or not prod(shape):
        return None
    tensors = [op.inputs[field] for field in concatenation.fields]
    fields = tuple((tensor, graph.tensors[tensor].shape[concatenation.axis]) for tensor in tensors)
    return Join(output, concatenation.axis, fields, join_priority(graph, unit, prod(shape), fields))


def _cut(graph: OpGraph, place: Place) -> TensorRange:
    """Return a place in a tensor as a byte range."""
    whole = graph.tensors[place.of]
    row = prod(whole.shape[place.axis + 1 :]) * np.dtype(whole.dtype).itemsize
    whole_type = BufferType(whole.shape, whole.dtype)
    return TensorRange(whole_type, place.axis, place.end - place.begin, place.begin * row)
