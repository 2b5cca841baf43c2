"""Concatenations of Relay programs that need not run, because their fields lie in the result.

Kernels of ``relay.build`` want tensors by themselves. What a range of a tensor's outermost axis is
lies by itself, so it can be given to them as one: the kernel's *slices* say where.
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
    """A unit that only concatenates.

    Attributes
    ----------
    axis
        Of the result.
    inputs
        How many tensors the unit reads, constants included.
    fields
        What it joins: numbers of these.
    """

    axis: int
    inputs: int
    fields: tuple[int, ...]


@dataclass(frozen=True)
class TensorRange:
    """The range of another tensor that a tensor is.

    Attributes
    ----------
    whole
        The type of the other one.
    axis
        All its extents before it are 1.
    extent
        Of the range.
    offset
        Its first byte.
    """

    whole: BufferType
    axis: int
    extent: int
    offset: int


@dataclass(frozen=True)
class SlicedTensors:
    """How the tensors of a graph of units lie in memory.

    Attributes
    ----------
    cuts
        For each tensor that lies in another one, which range of it.
    parts
        The same for programs.
    silent
        Concatenations that write nothing, because all that they join lies there already.
    """

    cuts: Mapping[int, TensorRange]
    parts: Mapping[int, Part]
    silent: frozenset[int]

    def of(self, tensors: Iterable[int]) -> TensorRanges:
        """The cuts of some tensors."""
        return tuple(map(self.cuts.get, tensors))


#: For each tensor of a unit, data and then outputs, which range of another one it is, if it is.
TensorRanges = tuple[TensorRange | None, ...]


@dataclass(frozen=True)
class InPlace:
    """Units whose concatenations write nothing that lies there already.

    Attributes
    ----------
    code
        Of each unit, for tensors that lie in others.
    parts
        For each tensor that lies in another one, where.
    sliced
        For each new symbol in the code the one that it calls, and with which slices.
    """

    code: tuple[UnitCode, ...]
    parts: Mapping[int, Part]
    sliced: Sliced


def concatenations(main: relay.Function, calls: Sequence[Any]) -> list[Concatenation | None]:
    """For each unit of a scheduled ``main`` what it concatenates; None for those that do more.

    Parameters
    ----------
    main
        Where a later pass has written the calls in another form, it is not known of any unit.
    calls
        For each call its unit, in whatever form: equal ones in a row are of one unit.
    """
    bindings: list[Any] = []
    body = main.body
    while isinstance(body, relay.Let):
        bindings.append(body.value)
        body = body.body
    if len(bindings) != len(calls):
        return [None for _ in groupby(calls)]
    units = groupby(zip(calls, bindings, strict=True), itemgetter(0))
    made = [[value for _, value in members] for _, members in units]
    return [concatenation(values[0]) if len(values) == 1 else None for values in made]


def concatenation(call: Any) -> Concatenation | None:
    """A call of one kernel as a concatenation; those of others along one axis count as one."""
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
    """Lay tensors into the concatenations of a graph, where all fields of one can lie there.

    Parameters
    ----------
    graph
        Of units, whose inputs are data; its tensors are of the shapes that kernels see.
    joined
        For each unit what it concatenates, if it does nothing else.
    """
    found = (_join(graph, unit, what) for unit, what in enumerate(joined) if what is not None)

    def may_lie(tensor: int, join: Join) -> bool:
        made, whole = graph.tensors[tensor], graph.tensors[join.output]
        produced = graph.producer[tensor] is not None and tensor not in graph.outputs
        return produced and made.dtype == whole.dtype

    def works(join: Join, places: Places) -> bool:
        there = join.in_place(places)
        return len(there) == len(join.fields) and all(
            _cut(graph, places[tensor]).offset % ALIGNMENT == 0 for tensor in there
        )

    places, joins = place_joined([join for join in found if join is not None], may_lie, works)
    return SlicedTensors(
        {tensor: _cut(graph, place) for tensor, place in places.items()},
        {t: Part(p.of, p.axis, p.begin, p.end) for t, p in places.items()},
        frozenset(unit for join in joins if (unit := graph.producer[join.output]) is not None),
    )


def lay_in_place(read: UnitGraph, joined: Sequence[Concatenation | None]) -> InPlace:
    """The code of units for tensors that lie as :func:`arrange` has them; parameters as there."""
    arrangement = arrange(read.graph, joined)
    sliced: Sliced = {}
    code = [
        code_in_place(
            made,
            arrangement.of((*op.inputs, *op.outputs)),
            sliced,
            runs=unit not in arrangement.silent,
        )
        for unit, (op, made) in enumerate(zip(read.graph.operators, read.code, strict=True))
    ]
    return InPlace(tuple(code), arrangement.parts, sliced)


def code_in_place(code: UnitCode, cuts: TensorRanges, sliced: Sliced, *, runs: bool) -> UnitCode:
    """A unit's code for tensors that are such ranges; new symbols are added to ``sliced``.

    Without ``runs`` there is nothing to compute.
    """
    data = len(cuts) - code.outputs
    first = len(code.parameters) - code.outputs
    places = (*range(data), *range(first, len(code.parameters)))
    moved = {at: cut for at, cut in zip(places, cuts, strict=True) if cut is not None}
    parameters = list(code.parameters)
    for at, cut in moved.items():
        parameters[at] = cut.whole

    def rewritten(call: PhaseCall) -> PhaseCall:
        slices = tuple(
            ArgumentSlice(argument, cut.axis, cut.extent, cut.offset)
            for argument, at in enumerate(call.arguments)
            if (cut := moved.get(at)) is not None
        )
        if not slices:
            return call
        content = (call.symbol, slices)
        known = next((symbol for symbol, other in sliced.items() if other == content), None)
        symbol = known or f"{call.symbol}__in_place_{len(sliced)}"
        sliced[symbol] = content
        return replace(call, symbol=symbol)

    if not runs:
        return replace(code, parameters=tuple(parameters), scratch=(), calls=())
    calls = tuple(rewritten(call) for call in code.calls)
    return replace(code, parameters=tuple(parameters), calls=calls)


def _join(graph: OpGraph, unit: int, what: Concatenation) -> Join | None:
    """A unit as a concatenation whose fields can lie side by side in its result."""
    op = graph.operators[unit]
    if len(op.inputs) != what.inputs or len(op.outputs) != 1:
        return None  # It joins constants, or a tensor twice.
    (output,) = op.outputs
    shape = graph.tensors[output].shape
    if prod(shape[: what.axis]) != 1 or not prod(shape):
        return None
    tensors = [op.inputs[field] for field in what.fields]
    fields = tuple((tensor, graph.tensors[tensor].shape[what.axis]) for tensor in tensors)
    return Join(output, what.axis, fields, join_priority(graph, unit, prod(shape), fields))


def _cut(graph: OpGraph, place: Place) -> TensorRange:
    """The range of a tensor that one in such a place is."""
    whole = graph.tensors[place.of]
    row = prod(whole.shape[place.axis + 1 :]) * np.dtype(whole.dtype).itemsize
    kind = BufferType(whole.shape, whole.dtype)
    return TensorRange(kind, place.axis, place.end - place.begin, place.begin * row)
