"""Kernels under construction: buffers are still the unit's, axes still the model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

from runtime_ext.kernels.expression import Access, Expr, loads, substitute, windows
from runtime_ext.kernels.spec import (
    Anchor,
    Blocking,
    Contraction,
    Pointwise,
    Pooling,
    Product,
    Spec,
    Statement,
)
from runtime_ext.units.values import Storage, shift
from tvm_ios.program.constant_transform import ParamTransform, packing

#: Grid axes (batch, rows, columns, vectors) of an image, as axes of NCHW.
IMAGE = (0, 2, 3, 1)
#: Grid axes of anything else: as they are.
PLAIN = (0, 1, 2, 3)


@dataclass
class Draft:
    """A kernel that may still gain statements.

    Attributes
    ----------
    anchor
        The spec without statements; its buffer numbers are storages. None for a pointwise
        kernel.
    extents
        Extents of the logical axes.
    axes
        Which logical axes the grid's four are.
    phases
        Rows and columns of results for each point of the grid, their channels side by side: a
        transposed convolution's. Statements speak of the whole result.
    generic
        For a kernel made by TVM: (function, storages in the order of its parameters).
    """

    anchor: Anchor | None
    extents: tuple[int, int, int, int]
    axes: tuple[int, int, int, int]
    statements: list[Statement] = field(default_factory=list)
    phases: tuple[int, int] = (1, 1)
    generic: tuple[Any, tuple[int, ...]] | None = None

    @property
    def channel_axis(self) -> int:
        """The logical axis along which vectors lie."""
        return self.axes[3]


#: The blocking that a contraction should have instead of its own, if any.
Tuned = Callable[[Contraction], Blocking | None]


class Cutter(Protocol):
    """How a device cuts contractions by default; a vector of it has so many ``lanes``."""

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        ...

    def blocking(self, spec: Contraction) -> Blocking:
        """The blocking of a contraction that has none yet."""
        ...


def written(draft: Draft, storages: list[Storage]) -> tuple[Spec, tuple[int, ...]]:
    """The kernel's spec, and the storages that its buffers are; a contraction is not cut yet."""
    order: list[int] = []

    def local(at: Access) -> Access:
        if at.buffer not in order:
            order.append(at.buffer)
        n, h, w, c = (at.strides[axis] for axis in draft.axes)
        return Access(order.index(at.buffer), at.offset, (n, h, w, c))

    def expression(expr: Expr) -> Expr:
        return substitute(expr, lambda x: ("load", local(x[1])) if x[0] == "load" else x)

    anchor = draft.anchor
    data = weight = None
    if anchor is not None:
        data = local(anchor.data)
        if isinstance(anchor, Product):
            anchor = replace(anchor, other=local(anchor.other))
        if isinstance(anchor, Contraction | Pooling) and anchor.weight is not None:
            weight = local(Access(anchor.weight, 0, (0, 0, 0, 0))).buffer
    if anchor is None:
        draft.statements = [part for s in draft.statements for part in _unfold(s, draft)]
    if isinstance(anchor, Contraction):
        draft.statements = [part for s in draft.statements for part in _by_phase(s, draft)]
        anchor = replace(anchor, parts=_parts(anchor, draft.statements))
    split = _parted(draft, anchor)
    values = [expression(s.value) for s in split]
    statements = tuple(
        Statement(value, local(s.target), s.begin, s.count)
        for value, s in zip(values, split, strict=True)
    )
    shapes = tuple(storages[s].shape for s in order)
    if anchor is None:
        n, h, w = (draft.extents[axis] for axis in draft.axes[:3])
        return merge_pixels(Pointwise(shapes, (n, h, w), statements)), tuple(order)
    assert data is not None
    spec = replace(anchor, buffers=shapes, data=data, statements=statements)
    if isinstance(spec, Contraction):
        assert weight is not None
    if isinstance(spec, Contraction | Pooling):
        spec = replace(spec, weight=weight)
    return spec, tuple(order)


def cut(
    spec: Contraction,
    order: Sequence[int],
    storages: list[Storage],
    cutter: Cutter,
    tuned: Tuned | None = None,
) -> Contraction:
    """A contraction as it will be cut; packs its weights."""
    spec = _merge_rows(spec)
    parts = spec.parts if spec.groups == 1 else spec.parts * spec.groups
    spec = replace(spec, parts=parts)
    blocking = cutter.blocking(spec)
    spec = replace(spec, blocking=blocking)
    if tuned is not None:
        alone = _alone(spec, [storages[s] for s in order])
        spec = replace(spec, blocking=tuned(alone) or blocking)
    packed = storages[order[spec.weight]]
    pack = packing(packed.shape, parts, spec.blocking.vectors * cutter.lanes)
    packed.shape = pack.shape(packed.shape)
    packed.transform = ParamTransform((*packed.transform.steps, *pack.steps))
    return replace(spec, buffers=tuple(storages[s].shape for s in order))


def _unfold(statement: Statement, draft: Draft) -> list[Statement]:
    """Write windows over channels as sums, with own statements for the first and last channels."""
    found = list(windows(statement.value))
    if not found:
        return [statement]
    axis = draft.channel_axis
    before, after = max(0, *(w[2] for w in found)), max(0, *(w[3] for w in found))
    extent = statement.count
    edges = {*range(min(before, extent)), *range(max(0, extent - after), extent)}
    ranges = [(c, 1) for c in sorted(edges)]
    if extent > before + after:
        ranges.append((before, extent - before - after))
    result: list[Statement] = []
    for begin, count in ranges:

        def total(expr: Expr, begin: int = begin, count: int = count) -> Expr:
            if expr[0] == "window":
                low, high = max(-expr[2], -begin), min(expr[3], extent - begin - count)
                if low > high:
                    return ("const", 0.0)
                value = shift(expr[1], axis, low)
                for by in range(low + 1, high + 1):
                    value = ("add", value, shift(expr[1], axis, by))
                return value
            if expr[0] in ("acc", "const", "load"):
                return expr
            return (expr[0], *(total(e) for e in expr[1:]))

        whole = Statement(total(statement.value), statement.target, 0, count)
        result.append(_moved(whole, axis, begin, 0, count))
    return result


def _by_phase(statement: Statement, draft: Draft) -> list[Statement]:
    """One statement for each phase of the grid's points."""
    rows, columns = draft.phases
    if draft.phases == (1, 1):
        return [statement]
    assert isinstance(draft.anchor, Contraction)
    channels = sum(draft.anchor.parts) // (rows * columns)
    result: list[Statement] = []
    for phase in range(rows * columns):
        row, column = divmod(phase, columns)

        def at(place: Access, row: int = row, column: int = column) -> Access:
            n, c, h, w = place.strides
            return Access(
                place.buffer, place.offset + row * h + column * w, (n, c, h * rows, w * columns)
            )

        moved = mapped(statement, at)
        result.append(replace(moved, begin=statement.begin + phase * channels))
    return result


def _parts(anchor: Contraction, statements: list[Statement]) -> tuple[int, ...]:
    """Output channels that are padded together: what lies between two borders of statements."""
    if anchor.groups > 1:
        return anchor.parts
    borders = {0, sum(anchor.parts)}
    for statement in statements:
        borders |= {statement.begin, statement.begin + statement.count}
    ordered = sorted(borders)
    return tuple(b - a for a, b in pairwise(ordered))


def _parted(draft: Draft, anchor: Spec | None) -> list[Statement]:
    """Statements cut at the borders of a contraction's parts."""
    if not isinstance(anchor, Contraction) or anchor.groups > 1:
        return draft.statements
    result: list[Statement] = []
    for statement in draft.statements:
        begin = 0
        for part in anchor.parts:
            inside = statement.begin <= begin and begin + part <= statement.begin + statement.count
            if inside:
                by = begin - statement.begin
                result.append(_moved(statement, draft.channel_axis, by, begin, part))
            begin += part
    return result


def _moved(statement: Statement, axis: int, by: int, begin: int, count: int) -> Statement:
    def at(place: Access) -> Access:
        return Access(place.buffer, place.offset + by * place.strides[axis], place.strides)

    value = substitute(statement.value, lambda x: ("load", at(x[1])) if x[0] == "load" else x)
    return Statement(value, at(statement.target), begin, count)


def accesses(statements: tuple[Statement, ...]) -> list[Access]:
    """What statements read and write."""
    return [a for s in statements for a in (*loads(s.value), s.target)]


def _rows_follow(at: Access, height: int, width: int, batch: int) -> bool:
    n, h, w, _ = at.strides
    return (height == 1 or h == w * width) and (batch == 1 or n == w * width * height)


def _merged(at: Access) -> Access:
    return Access(at.buffer, at.offset, (0, 0, at.strides[2], at.strides[3]))


def _merge_rows(spec: Contraction) -> Contraction:
    """A 1x1 convolution of whole images is one long row of pixels."""
    window = spec.window
    plain = window.kernel == window.strides == (1, 1) and window.pads == (0, 0)
    height, width = window.output
    everywhere = [spec.data, *accesses(spec.statements)]
    if (
        not plain
        or window.input != window.output
        or (width == 1 and height > 1)
        or not all(_rows_follow(a, height, width, spec.batch) for a in everywhere)
    ):
        return spec
    pixels = (1, spec.batch * height * width)
    return replace(
        spec,
        batch=1,
        window=replace(window, input=pixels, output=pixels),
        data=_merged(spec.data),
        statements=tuple(mapped(s, _merged) for s in spec.statements),
    )


def merge_pixels(spec: Pointwise) -> Pointwise:
    """Element-wise work on whole tensors is one long row, at best of channels."""
    batch, height, width = spec.grid
    everywhere = accesses(spec.statements)
    if not all(_rows_follow(a, height, width, batch) for a in everywhere):
        return spec
    pixels = batch * height * width
    statements = tuple(mapped(s, _merged) for s in spec.statements)
    if len(statements) == 1:
        (only,) = statements
        flat = all(
            a.strides[2:] == (only.count, 1) or a.strides[2:] == (0, 0) or pixels == 1
            for a in accesses(statements)
        )
        if flat:
            return Pointwise(
                spec.buffers,
                (1, 1, 1),
                (Statement(only.value, only.target, 0, only.count * pixels),),
            )
    return Pointwise(spec.buffers, (1, 1, pixels), statements)


def _alone(spec: Contraction, storages: list[Storage]) -> Contraction:
    """The contraction if no tensor of it lay in a wider one, as a tuning log knows it."""
    if all(storage.run is None for storage in storages):
        return spec

    def at(access: Access) -> Access:
        run = storages[access.buffer].run
        return access if run is None else run.alone(access)

    return replace(
        spec,
        buffers=tuple(s.shape if s.run is None else s.run.shape(s.shape) for s in storages),
        data=at(spec.data),
        statements=tuple(mapped(s, at) for s in spec.statements),
    )


def mapped(statement: Statement, change: Callable[[Access], Access]) -> Statement:
    """A statement with other accesses."""
    value = substitute(statement.value, lambda x: ("load", change(x[1])) if x[0] == "load" else x)
    return replace(statement, value=value, target=change(statement.target))
