"""Bands of rows: a part of an ONNX model computes an image band by band, so that it needs less.

A segment is a set of operators that work on rows of images, of which the rest of the model reads
one result alone. Each band of that result needs a band of each tensor before it, with some more
rows at its borders, which two bands compute twice. All bands are the same sums as the whole; what a
runtime rounds may differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.memory.formats.onnx_rewriting import UNARY
from tvm_ios.memory.ordering import Node, TensorGraph
from tvm_ios.onnx.edit import is_of_onnx, new_constant
from tvm_ios.onnx.rewrites.steps import static_shape

#: The axis of rows.
_ROWS = 2
_WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool"})
#: Operators of several tensors of the same rows, or of none.
_TOGETHER = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Concat", "PRelu", "Clip"})
#: The operators of a segment, at most, and the numbers of bands that are tried.
_MOST, _BANDS = 24, (2, 3, 4, 6, 8, 12, 16)
#: A peak has to fall by this part to be worth more arithmetic.
_WORTH = 0.01

#: Rows from the first to before the second.
Rows = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """An operator that computes some rows of its result.

    ``inputs`` has for each input its name, and the rows that are read of it, or None if it has no
    rows that are divided.
    """

    node: Any
    band: int
    inputs: tuple[tuple[str, Rows | None], ...]
    rows: Rows


class Segment:
    """Operators in topological order, of which the last one's result alone is read by others."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = tuple(nodes)
        self.made = {node.outputs[0].name for node in nodes}
        self.result = nodes[-1].outputs[0]

    @cached_property
    def extent(self) -> int:
        """The rows of the result."""
        return _shape(self.result)[_ROWS]

    def pieces(self, bands: int) -> list[Piece] | None:
        """Return the pieces of so many bands, band by band; None if a window lies in padding."""
        pieces: list[Piece] = []
        for band in range(bands):
            wanted: dict[str, Rows] = {
                self.result.name: (
                    self.extent * band // bands,
                    self.extent * (band + 1) // bands,
                )
            }
            own: list[Piece] = []
            for node in reversed(self.nodes):
                rows = wanted[node.outputs[0].name]
                needed = _needed(node, rows)
                if needed is None:
                    return None
                own.append(Piece(node, band, needed, rows))
                for name, some in needed:
                    if some is not None and name in self.made:
                        begin, end = wanted.get(name, some)
                        wanted[name] = (min(begin, some[0]), max(end, some[1]))
            pieces += reversed(own)
        return pieces


def _shape(value: Any) -> list[int]:
    shape = static_shape(value)
    assert shape is not None
    return shape


def _needed(node: Any, rows: Rows) -> tuple[tuple[str, Rows | None], ...] | None:
    """Return the rows of each input that some rows of the result need."""
    needed: list[tuple[str, Rows | None]] = []
    for number, value in enumerate(node.inputs):
        if value is None:
            needed.append(("", None))
        elif not _is_divided(node, number):
            needed.append((value.name, None))
        elif node.op_type in _WINDOWED:
            window = Window.of(node)
            begin, end = window.reach(rows)
            extent = _shape(value)[_ROWS]
            if end <= 0 or begin >= extent:
                return None
            needed.append((value.name, (max(begin, 0), min(end, extent))))
        else:
            needed.append((value.name, rows))
    return tuple(needed)


def _is_divided(node: Any, number: int) -> bool:
    """Return whether an input has the rows of the result, or those that windows read."""
    if node.op_type in _WINDOWED or node.op_type == "BatchNormalization":
        return number == 0
    shape = static_shape(node.inputs[number])
    return shape is not None and len(shape) == 4 and shape[_ROWS] > 1


@dataclass(frozen=True)
class Window:
    """The windows of a convolution or pool along rows."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @staticmethod
    def of(node: Any) -> Window:
        """Return the windows of a node whose attributes are explicit."""
        kernel = node.attributes.get_ints("kernel_shape") or _shape(node.inputs[1])[2:]
        pads = node.attributes.get_ints("pads") or (0, 0, 0, 0)
        strides, dilations = (
            node.attributes.get_ints(name) or (1, 1) for name in ("strides", "dilations")
        )
        return Window(kernel[0], strides[0], dilations[0], pads[0], pads[2])

    def reach(self, rows: Rows) -> Rows:
        """Return the rows that windows read, also those in the padding."""
        begin = rows[0] * self.stride - self.before
        end = (rows[1] - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation + 1
        return begin, end


def _works_on_rows(node: Any) -> bool:
    """Return whether an operator computes rows of an image from rows of images alone."""
    if not is_of_onnx(node) or len(node.outputs) != 1:
        return False
    shapes = [static_shape(value) for value in (*node.inputs[:1], *node.outputs)]
    if any(shape is None or len(shape) != 4 for shape in shapes):
        return False
    if node.op_type in _WINDOWED:
        explicit = node.attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        plain = not node.attributes.get_int("ceil_mode", 0)
        return explicit and plain and _reaches(node)
    if node.op_type == "Concat":
        return node.attributes.get_int("axis", 1) in (1, -3)
    if node.op_type == "BatchNormalization":
        return not node.attributes.get_int("training_mode", 0)
    if node.op_type in UNARY:
        return True
    extent = _shape(node.outputs[0])[_ROWS]
    return node.op_type in _TOGETHER and all(
        value is None or _fits(static_shape(value), extent) for value in node.inputs
    )


def _fits(shape: Sequence[int] | None, extent: int) -> bool:
    """Return whether a tensor is an image of so many rows, or the same for all rows."""
    if shape is None:
        return False
    return len(shape) < 2 or shape[-2] in ((1, extent) if len(shape) == 4 else (1,))


def _reaches(node: Any) -> bool:
    """Return whether no window lies in padding alone."""
    window = Window.of(node)
    return max(window.before, window.after) <= (window.kernel - 1) * window.dilation


def segments(graph: Any, last: Any) -> Iterator[Segment]:
    """Yield the segments that end with an operator, from the smallest on."""
    place = {node: number for number, node in enumerate(graph)}
    chosen = {last}
    while len(chosen) < _MOST:
        fresh = {
            maker
            for node in chosen
            for value in node.inputs
            if value is not None and (maker := value.producer()) is not None
            if maker not in chosen and _works_on_rows(maker)
            if not value.is_graph_output() and {user for user, _ in value.uses()} <= chosen
        }
        if not fresh:
            return
        chosen.add(max(fresh, key=place.__getitem__))
        yield Segment(sorted(chosen, key=place.__getitem__))


@dataclass(frozen=True)
class Step:
    """An operator of a segment in bands.

    Attributes
    ----------
    kind, name
        Its type, and the name of its result.
    read
        The names of the values that it reads.
    whole
        The value of which it makes some rows.
    rows
        These rows, or None if it joins all.
    begin
        The first row that a slice takes of what it reads.
    piece
        The piece that it computes, or None if it only moves rows.
    """

    kind: str
    name: str
    read: tuple[str, ...]
    whole: Any
    rows: Rows | None
    begin: int = 0
    piece: Piece | None = None


@dataclass(frozen=True)
class Banded:
    """A segment in bands, by its pieces."""

    segment: Segment
    pieces: Sequence[Piece]

    def steps(self) -> Iterator[Step]:
        """Yield the operators that take the segment's place, in order."""
        results: dict[str, tuple[str, Rows]] = {}
        cut: set[str] = set()
        for piece in self.pieces:
            read: list[str] = []
            values = {value.name: value for value in piece.node.inputs if value is not None}
            for name, rows in piece.inputs:
                if rows is None:
                    read.append(name)
                    continue
                source, have = results.get(name, (name, (0, _shape(values[name])[_ROWS])))
                if rows != have:
                    part = f"{source}.rows{rows[0]}_{rows[1]}"
                    if part not in cut:
                        cut.add(part)
                        begin = rows[0] - have[0]
                        yield Step("Slice", part, (source,), values[name], rows, begin)
                    source = part
                read.append(source)
            result = piece.node.outputs[0]
            name = f"{result.name}.band{piece.band}"
            results[result.name] = name, piece.rows
            yield Step(piece.node.op_type, name, tuple(read), result, piece.rows, 0, piece)
        yield Step("Concat", self.segment.result.name, self.bands, self.segment.result, None)

    @property
    def bands(self) -> tuple[str, ...]:
        """The names of the bands of the result, in order."""
        count = sum(piece.node is self.segment.nodes[-1] for piece in self.pieces)
        return tuple(f"{self.segment.result.name}.band{band}" for band in range(count))

    @property
    def more_work(self) -> int:
        """The multiplications of convolutions that two bands do, beyond those of the whole."""
        work = 0
        for piece in self.pieces:
            if piece.node.op_type == "Conv":
                result, weight = _shape(piece.node.outputs[0]), _shape(piece.node.inputs[1])
                row = prod(result) // result[_ROWS] * prod(weight[1:])
                work += row * (piece.rows[1] - piece.rows[0])
        return work - sum(map(multiplications, self.segment.nodes))


def multiplications(node: Any) -> int:
    """Return the multiplications of a convolution of known shapes; 0 of other operators."""
    if node.op_type != "Conv" or static_shape(node.outputs[0]) is None:
        return 0
    return prod(_shape(node.outputs[0])) * prod(_shape(node.inputs[1])[1:])


def write_bands(model: Any, banded: Banded) -> None:
    """Replace a segment of a model of ``onnx_ir`` by its bands."""
    graph, segment = model.graph, banded.segment
    values = {v.name: v for node in segment.nodes for v in node.inputs if v is not None}
    last, result = segment.nodes[-1], segment.result
    for step in banded.steps():
        inputs: list[Any] = [values[source] if source else None for source in step.read]
        attributes: dict[str, Any] = {}
        if step.piece is not None:
            attributes = {n: a.value for n, a in step.piece.node.attributes.items()}
            if step.kind in _WINDOWED:
                attributes["pads"] = _pads(step.piece)
                attributes.pop("auto_pad", None)
        elif step.rows is None:
            attributes["axis"] = _ROWS
        else:
            end = step.begin + step.rows[1] - step.rows[0]
            for word, integer in (("begin", step.begin), ("end", end), ("axis", _ROWS)):
                inputs.append(new_constant(graph, f"{step.name}.{word}", np.array([integer])))
        node: Any = ir.node(step.kind, inputs, attributes, name=step.name)
        value = node.outputs[0]
        graph.insert_before(last, node)
        value.dtype = step.whole.dtype
        if step.rows is None:
            value.shape = result.shape
            _replace(graph, result, value)
        else:
            value.name = step.name
            values[step.name] = value
    for node in reversed(segment.nodes):
        graph.remove(node, safe=True)


def _replace(graph: Any, old: Any, new: Any) -> None:
    """Let the readers of a value, the graph among them, read another, which takes its name."""
    name, old.name = old.name, f"{old.name}.whole"
    if old.is_graph_output():
        graph.outputs[list(graph.outputs).index(old)] = new
    ir.convenience.replace_all_uses_with(old, new)
    new.name = name


def _pads(piece: Piece) -> list[int]:
    begin, end = Window.of(piece.node).reach(piece.rows)
    left, right = (piece.node.attributes.get_ints("pads") or (0, 0, 0, 0))[1::2]
    return [max(0, -begin), left, max(0, end - _shape(piece.node.inputs[0])[_ROWS]), right]


def find_bands(model: Any, graph: TensorGraph, order: Sequence[int], until: float) -> Banded | None:
    """Return the segment and the bands that need the least, by our count, or None if none is worth.

    ``model`` is of ``onnx_ir``, ``graph`` its nodes in the same order. The other nodes stay in
    ``order``; the search ends at ``until`` (``time.perf_counter``).
    """
    listed = list(model.graph)
    nodes = [listed[number] for number in order]
    peaks = graph.footprints(order).stable
    peak = max(peaks)
    step = peaks.index(peak)
    best: tuple[int, int, Banded] | None = None
    for last in nodes[step : step + _MOST]:
        # All bands of the result lie beside the result when they are joined.
        size = graph.sizes.get(last.outputs[0].name, 0)
        if not _works_on_rows(last) or 2 * size > (1 - _WORTH) * peak:
            continue
        for segment in segments(model.graph, last):
            if nodes[step] not in segment.nodes:
                continue
            before = float(peak)
            for bands in _BANDS:
                pieces = segment.pieces(bands) if bands <= segment.extent else None
                if pieces is None or time.perf_counter() > until:
                    break
                banded = Banded(segment, pieces)
                least = _peak(banded, nodes, graph)
                # Less memory that is not worth more arithmetic counts as the same.
                about = round(least / (_WORTH * peak))
                gains = least < (1 - _WORTH) * peak
                if gains and (best is None or (about, banded.more_work) < best[:2]):
                    best = about, banded.more_work, banded
                if least >= before:
                    break
                before = least
    return None if best is None else best[2]


def _peak(banded: Banded, nodes: Sequence[Any], graph: TensorGraph) -> int:
    """Return the peak with the bands in the place of the segment's last operator."""
    sizes, fresh = dict(graph.sizes), list[Node]()
    for step in banded.steps():
        if step.rows is not None and step.whole.name in graph.sizes:
            row = graph.sizes[step.whole.name] // _shape(step.whole)[_ROWS]
            sizes[step.name] = row * (step.rows[1] - step.rows[0])
        alike = step.piece is not None and step.kind not in (*_WINDOWED, "Concat")
        over = step.read if alike else ()
        fresh.append(Node(step.name, step.read, (step.name,), over=over))
    gone = set(banded.segment.nodes)
    named = {node.outputs[0]: node for node in graph.nodes if node.outputs}
    listed: list[Node] = []
    for node in nodes:
        if node is banded.segment.nodes[-1]:
            listed += fresh
        elif node not in gone:
            listed.append(named[next(v.name for v in node.outputs if v.name)])
    changed = TensorGraph(listed, sizes, graph.outputs, graph.views)
    return changed.peak(range(len(listed)))
