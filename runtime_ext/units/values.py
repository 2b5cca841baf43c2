"""Values of variables while a unit is planned: stored, pending, or expressions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from runtime_ext.kernels.expression import Access, Expr, map_accesses
from runtime_ext.kernels.spec import Encoded, Encoding, PhysicalShape
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import LINE, Role
from tvm_ios.shapes.extent import is_open

NHWC = "NHWC"


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """The layout of a tensor inside a wider one: a range of one of its axes.

    ``order`` is the order of both tensors' axes in memory, ``"NHWC"`` or ``""``; ``axis`` the
    logical axis of the range, which begins at ``begin``; ``extent`` the wider tensor's along the
    axis.
    """

    order: str
    axis: int
    begin: int
    extent: int

    def whole(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the logical shape of the wider tensor."""
        return (*shape[: self.axis], self.extent, *shape[self.axis + 1 :])


#: ``"NHWC"``, or ``""`` for the model's own layout, or a slice of a tensor in either.
Layout = str | SliceLayout


@dataclass(frozen=True, slots=True)
class PeriodicRange:
    """The elements of a storage that are a tensor: a run of elements in every period.

    Each run has ``count`` elements from element ``begin`` of its ``period`` elements.
    """

    begin: int
    count: int
    period: int

    def shape(self, physical: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents, in one axis, of a buffer that holds the tensor alone."""
        return (prod(physical) // self.period * self.count,)

    def alone(self, at: Access) -> Access:
        """Return the access as if the storage held the tensor alone."""

        def moved(distance: int) -> int:
            periods, rest = divmod(distance, self.period)
            return periods * self.count + rest

        n, h, w, c = map(moved, at.strides)
        return Access(at.buffer, moved(at.offset - self.begin), (n, h, w, c))


@dataclass
class Storage:
    """A buffer of the unit."""

    #: Input, constant, output or scratch.
    role: Role
    #: The index of the function's parameter (input, constant) or output.
    number: int
    #: Its physical shape.
    shape: tuple[int, ...]

    dtype: str = "float32"
    #: The last kernel that writes it; -1 for inputs and constants.
    producer: int = -1
    #: The transform from a constant of the model to this buffer.
    transform: ParamTransform = field(default_factory=ParamTransform)
    #: The elements that are the tensor; None if all are.
    run: PeriodicRange | None = None
    #: The encoding of its float32 numbers; None if they are stored unchanged.
    encoding: Encoding | None = None

    @property
    def physical(self) -> PhysicalShape:
        """The shape of the buffer for kernels, with its encoding."""
        return self.shape if self.encoding is None else Encoded(self.shape, self.encoding)


@dataclass
class Stored:
    """A tensor in memory, possibly a view of a larger one; strides in elements, logical axes."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    dtype: str = "float32"


@dataclass
class Lazy:
    """An element-wise expression of stored tensors that no kernel computes yet."""

    expr: Expr
    shape: tuple[int, ...]
    home: Stored | None = None
    stored: Stored | None = None


@dataclass
class Pending:
    """An expression of an anchor's result, which its kernel has in registers.

    ``begin`` and the extent of ``shape`` before the last two give the range of the anchor's
    channels.
    """

    kernel: int
    expr: Expr
    shape: tuple[int, ...]
    begin: int
    home: Stored | None = None
    stored: Stored | None = None


@dataclass
class Padded:
    """A value with zeros around its rows and columns (top, left, bottom, right)."""

    inner: Stored | Lazy | Pending
    pads: tuple[int, int, int, int]
    shape: tuple[int, ...]
    home: Stored | None = None
    stored: Stored | None = None


@dataclass
class Widened:
    """A value with zero channels before and after its own."""

    inner: Stored | Lazy | Pending | Padded
    before: int
    shape: tuple[int, ...]
    home: Stored | None = None
    stored: Stored | None = None


@dataclass
class Interleaved:
    """Groups of channels of equal size, one channel of each in turn (a channel shuffle)."""

    parts: tuple[Stored | Lazy, ...]
    shape: tuple[int, ...]
    home: Stored | None = None
    stored: Stored | None = None


#: Values that must be written to memory before they can be read element by element.
Arranged = Padded | Widened | Interleaved

Value = Stored | Lazy | Pending | Arranged


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def in_vectors(shape: tuple[int, ...], order: str) -> Layout:
    """Return the layout in an order of axes in which runs of open extent are whole vectors.

    The run along the innermost axis then ends in elements that are no part of the tensor, which
    kernels read and write without regard.
    """
    axis = 1 if order == NHWC else len(shape) - 1
    if not shape or not is_open(shape[axis]):
        return order
    return SliceLayout(order, axis, 0, (shape[axis] + (LINE - 1)) // LINE * LINE)


def strides_in(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Return the strides along the logical axes of a tensor in a layout."""
    if isinstance(layout, SliceLayout):
        return strides_in(layout.whole(shape), layout.order)
    if layout != NHWC:
        return row_major(shape)
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def offset_in(shape: tuple[int, ...], layout: Layout) -> int:
    """Return the position of a tensor's first element in the buffer that holds it."""
    if isinstance(layout, str):
        return 0
    return layout.begin * strides_in(shape, layout)[layout.axis]


def run_in(shape: tuple[int, ...], layout: Layout) -> PeriodicRange | None:
    """Return the elements of the buffer that are the tensor; None if all are."""
    if isinstance(layout, str):
        return None
    inner = strides_in(shape, layout)[layout.axis]
    return PeriodicRange(layout.begin * inner, shape[layout.axis] * inner, layout.extent * inner)


def physical_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Return the extents of the buffer that holds a tensor in a layout."""
    if isinstance(layout, SliceLayout):
        return physical_shape(layout.whole(shape), layout.order)
    return (shape[0], shape[2], shape[3], shape[1]) if layout == NHWC else shape


def is_row_major(value: Stored) -> bool:
    """Return whether a view's elements are in the order of its logical indices, without gaps."""
    contiguous = row_major(value.shape)
    return all(
        extent == 1 or stride == expected
        for extent, stride, expected in zip(value.shape, value.strides, contiguous, strict=True)
    )


def four(extents: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    """Return extents or strides with leading axes added up to four."""
    a, b, c, d = (fill,) * (4 - len(extents)) + extents
    return a, b, c, d


def access(value: Stored, shape: tuple[int, ...]) -> Access | None:
    """Return the access that reads a tensor broadcast to a shape; None if that is impossible."""
    if len(shape) > 4:
        if value.shape != shape or not is_row_major(value):
            return None
        return Access(value.storage, value.offset, (0, 0, 0, 1))
    if len(value.shape) > len(shape):
        return None
    strides: list[int] = []
    own_extents, own_strides = four(value.shape, 1), four(value.strides, 0)
    for extent, own_extent, stride in zip(four(shape, 1), own_extents, own_strides, strict=True):
        if own_extent != extent and own_extent != 1:
            return None
        strides.append(0 if own_extent == 1 else stride)
    return Access(value.storage, value.offset, (strides[0], strides[1], strides[2], strides[3]))


def as_expression(value: Stored | Lazy) -> Lazy:
    """Return the value as an expression of stored tensors."""
    if isinstance(value, Lazy):
        return value
    read = access(value, value.shape)
    assert read is not None
    return Lazy(("load", read), value.shape)


def shift(expr: Expr, axis: int, by: int) -> Expr:
    """Return the expression with its loads moved ``by`` elements along an axis."""
    return map_accesses(expr, lambda access: access.shifted(axis, by))


def stretch(expr: Expr, axis: int, step: int) -> Expr:
    """Return the expression with its loads reading every ``step``-th element along an axis."""

    def stretched(access: Access) -> Access:
        strides = list(access.strides)
        strides[axis] *= step
        return replace(access, strides=tuple(strides))

    return map_accesses(expr, stretched)
