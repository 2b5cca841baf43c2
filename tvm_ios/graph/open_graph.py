"""One graph for a range of shapes, from the graphs at some of them.

A model is read at a few shapes, as ever. If the graphs differ in numbers alone, each number becomes
an expression of the symbols; graphs at further shapes have to agree with these expressions, number
for number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from random import Random
from typing import Any, cast

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.extent import (
    OpenExtentError,
    Symbol,
    at_values,
    evaluate,
    is_open,
    symbols_in,
)
from tvm_ios.shapes.fitting import AmbiguousError, Fitting, Values, values_text

#: Reads a model for these shapes of its inputs.
Read = Callable[[Mapping[str, tuple[int, ...]]], OpGraph]

#: The numbers of shapes that expressions are fitted to: at first, and at most.
_POINTS, _MOST_POINTS = 6, 24
#: Shapes that are compared only with the expressions, besides the ends of the range.
_HELD_OUT = 2


@dataclass(frozen=True, slots=True)
class Leading:
    """A constant of which each shape has the first ``count`` values.

    ``values`` are as many as were seen.
    """

    values: tuple[Any, ...]
    count: int


@dataclass(frozen=True)
class OpenGraph:
    """A graph whose extents are expressions of symbols."""

    #: The graph at the first point.
    graph: OpGraph
    #: For each tensor its extents, open ones as expressions.
    shapes: tuple[tuple[int, ...], ...]
    #: For each operator its attributes, whose numbers may be expressions, and constants
    #: :class:`Leading` parts.
    attrs: tuple[Mapping[str, Any], ...]
    #: The shapes that the expressions were fitted to or compared with, as values of the symbols.
    points: tuple[Values, ...]
    #: Shapes at the ends of the range at which the model has another structure, each with the
    #: reason.
    special: tuple[tuple[Values, str], ...] = ()

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that extents are made of."""
        return symbols_in(self.shapes)


def open_graph(
    read: Read, shapes: Mapping[str, Sequence[int]], progress: Progress = silent
) -> OpenGraph:
    """Return the graph of a model for all shapes in a range.

    Parameters
    ----------
    read
        Reads the model for shapes of its inputs, by name.
    shapes
        For each input its extents, open ones as expressions.

    Raises
    ------
    OpenExtentError
        If the model is no single graph in the range, or a number fits no expression; the first
        operator that differs is named.
    """
    extents = list(dict.fromkeys(e for shape in shapes.values() for e in shape if is_open(e)))
    symbols = symbols_in(tuple(extents))

    ends = _ends(symbols)
    done = 0

    def at(point: Values) -> OpGraph:
        nonlocal done
        progress("reading the model at several shapes", done, max(done + 1, total))
        done += 1
        try:
            return read({n: tuple(evaluate(e, point) for e in s) for n, s in shapes.items()})
        except UserError as error:
            raise OpenExtentError(f"at {values_text(point)} {error}") from error

    candidates = _points(symbols)
    points = candidates[:_POINTS]
    total = len(points) + _HELD_OUT + len(ends)
    graphs = [at(point) for point in points]
    while True:
        try:
            unified = _unified(graphs, points, Fitting(extents, points))
            break
        except AmbiguousError as two:
            more = chain(candidates, _beside(symbols, candidates[0]))
            telling = (p for p in more if evaluate(two.one, p) != evaluate(two.other, p))
            point = next(telling, None)
            if point is None or len(points) == _MOST_POINTS:
                raise
            points.append(point)
            graphs.append(at(point))
    _require_inputs(unified, shapes)
    tried, special = list(points), list[tuple[Values, str]]()
    held_out = [point for point in candidates if point not in points][:_HELD_OUT]
    for point in held_out:
        if (why := difference(unified, at(point), point)) is not None:
            raise OpenExtentError(f"at {values_text(point)} {why}: the range has no one graph")
        tried.append(point)
    for point in ends:
        graph = at(point)
        if (why := difference(unified, graph, point)) is not None:
            if not _same_outputs(unified, graph, point):
                raise OpenExtentError(
                    f"at {values_text(point)} outputs have other extents than the formulas of "
                    f"smaller shapes give, and {why}: the range has no one graph"
                )
            special.append((point, why))
        else:
            tried.append(point)
    progress("reading the model at several shapes", done, done)
    return OpenGraph(unified.graph, unified.shapes, unified.attrs, tuple(tried), tuple(special))


def _require_inputs(opened: OpenGraph, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise OpenExtentError if the graph does not have the inputs' extents as they were given."""
    for tensor in opened.graph.inputs:
        name = opened.graph.tensors[tensor].name
        if name in shapes and str(opened.shapes[tensor]) != str(tuple(shapes[name])):
            raise OpenExtentError(
                f"input {name!r} was found to be {opened.shapes[tensor]}, not "
                f"{tuple(shapes[name])}: give a larger range"
            )


def difference(opened: OpenGraph, graph: OpGraph, point: Values) -> str | None:
    """Return how the graph at a shape differs from the open one, or None if it does not."""
    if (why := _other_structure(opened.graph, graph)) is not None:
        return why
    for tensor, shape in enumerate(opened.shapes):
        expected = tuple(evaluate(extent, point) for extent in shape)
        if expected != (found := graph.tensors[tensor].shape):
            name = graph.tensors[tensor].name
            return f"tensor {name!r} is {found}, not {expected}"
    for op, attrs in zip(graph.operators, opened.attrs, strict=True):
        for name, value in attrs.items():
            if not _agrees(value, op.attrs[name], point):
                return f"operator {op.name!r} has another {name!r}"
    return None


def _same_outputs(opened: OpenGraph, graph: OpGraph, point: Values) -> bool:
    """Return whether the graph at a shape has the outputs' extents of the open one."""
    expected = [at_values(opened.shapes[tensor], point) for tensor in opened.graph.outputs]
    return expected == [graph.tensors[tensor].shape for tensor in graph.outputs]


def _unified(graphs: Sequence[OpGraph], points: Sequence[Values], fitting: Fitting) -> OpenGraph:
    first = graphs[0]
    for graph, point in zip(graphs[1:], points[1:], strict=True):
        if (why := _other_structure(first, graph)) is not None:
            raise OpenExtentError(
                f"at {values_text(point)} {why}, unlike at {values_text(points[0])}: "
                "the range has no one graph"
            )
    shapes = tuple(
        tuple(_fitted(fitting, numbers, f"tensor {first.tensors[t].name!r}") for numbers in extents)
        for t, extents in enumerate(
            zip(*(g.tensors[t].shape for g in graphs), strict=True)
            for t in range(len(first.tensors))
        )
    )
    attrs = tuple(
        {
            name: _joined(
                [g.operators[o].attrs[name] for g in graphs], fitting, f"operator {op.name!r}"
            )
            for name in op.attrs
        }
        for o, op in enumerate(first.operators)
    )
    return OpenGraph(first, shapes, attrs, tuple(points))


def _other_structure(one: OpGraph, other: OpGraph) -> str | None:
    """Return how two graphs differ in more than numbers, or None."""
    for ours, theirs in zip(one.operators, other.operators, strict=False):
        if ours.kind != theirs.kind:
            return f"there is {theirs.kind!r} where there was {ours.kind!r} ({ours.name!r})"
        if (ours.inputs, ours.outputs) != (theirs.inputs, theirs.outputs):
            return f"operator {ours.name!r} ({ours.kind}) reads or writes other tensors"
        if ours.attrs.keys() != theirs.attrs.keys():
            return f"operator {ours.name!r} ({ours.kind}) has other attributes"
    if len(one.operators) != len(other.operators):
        return f"there are {len(other.operators)} operators, not {len(one.operators)}"
    for ours, theirs in zip(one.tensors, other.tensors, strict=True):
        if (len(ours.shape), ours.dtype, ours.constant) != (
            len(theirs.shape),
            theirs.dtype,
            theirs.constant,
        ):
            return f"tensor {ours.name!r} has another type"
    return None


def _fitted(fitting: Fitting, numbers: Sequence[int], where: str) -> int:
    extent = fitting.fit(numbers)
    if extent is None:
        raise OpenExtentError(f"{where} has {', '.join(map(str, numbers))}, which no formula gives")
    return extent


def _joined(values: Sequence[Any], fitting: Fitting, where: str) -> Any:
    """Return an attribute with an expression for each number that differs."""
    first = values[0]
    if all(value == first for value in values):
        return first
    if isinstance(first, tuple):
        counts = [len(value) for value in values]
        if min(counts) == max(counts):
            return tuple(_joined(each, fitting, where) for each in zip(*values, strict=True))
        longest: tuple[Any, ...] = max(values, key=len)
        if all(value == longest[: len(value)] for value in values):
            return Leading(longest, _fitted(fitting, counts, where))
    if not all(type(value) is int for value in values):
        raise OpenExtentError(f"{where} has another constant at each shape")
    return _fitted(fitting, values, where)


def _agrees(opened: Any, value: Any, point: Values) -> bool:
    """Return whether an attribute of the open graph is this value at a shape."""
    if isinstance(opened, Leading):
        known = len(opened.values)
        return len(value) == evaluate(opened.count, point) and all(
            ours == theirs for ours, theirs in zip(opened.values, value[:known], strict=False)
        )
    if isinstance(opened, tuple):
        items = cast("tuple[Any, ...]", opened)
        return len(items) == len(value) and all(
            _agrees(ours, theirs, point) for ours, theirs in zip(items, value, strict=True)
        )
    return (evaluate(opened, point) if is_open(opened) else opened) == value


def _points(symbols: Sequence[Symbol]) -> list[Values]:
    """Return shapes in the range, the hint first, of small numbers of many residues."""
    random = Random(0)
    hint: Values = {symbol.name: symbol.hint for symbol in symbols}
    points: list[Values] = [hint]
    for _ in range(400):
        point = {s.name: random.choice(_trial_values(s)) for s in symbols}
        if point not in points:
            points.append(point)
    # Where a symbol is the same at all points, its extents would be taken for numbers.
    points.sort(key=lambda point: point != hint and any(point[n] == hint[n] for n in hint))
    return points


def _beside(symbols: Sequence[Symbol], hint: Values) -> Iterator[Values]:
    """Yield the shapes that differ from the hint in one symbol."""
    for symbol in symbols:
        for value in _trial_values(symbol):
            yield {**hint, symbol.name: value}


def _trial_values(symbol: Symbol) -> list[int]:
    """Return numbers to try: not the least, at which models are often special, and small ones."""
    least = max(symbol.least + 1, 3)
    if least >= symbol.most:
        # At a single number the symbol would be taken for it.
        least = max(symbol.least, symbol.most - 2)
    # Of samples, a few frames.
    return list(range(least, min(symbol.most, max(least + 40, 4 * least)) + 1))


def _ends(symbols: Sequence[Symbol]) -> list[Values]:
    """Return the corners of the range."""
    ends = product(*(sorted({symbol.least, symbol.most}) for symbol in symbols))
    return [dict(zip((s.name for s in symbols), end, strict=True)) for end in ends]
