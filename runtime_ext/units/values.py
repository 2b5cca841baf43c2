"""The values of variables while a unit is cut into kernels: stored, pending, or expressions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from runtime_ext.kernels.expression import Access, Expr, map_accesses
from runtime_ext.kernels.spec import Encoded, Encoding, PhysicalShape
from tvm_ios.program.constant_transform import ParamTransform

NHWC = "NHWC"


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """The layout of a tensor that lies in a wider one: a range of an axis of its memory.

    Attributes
    ----------
    order
        The order of both tensors' axes in memory, ``"NHWC"`` or ``""``.
    axis
        The logical axis of the range.
    begin
        Where the range begins.
    extent
        The wider tensor's extent along the axis.
    """

    order: str
    axis: int
    begin: int
    extent: int

    def whole(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The logical shape of the wider tensor."""
        return (*shape[: self.axis], self.extent, *shape[self.axis + 1 :])


#: ``"NHWC"``, or ``""`` for what lies as the model has it, or a slice of such a tensor.
Layout = str | SliceLayout


@dataclass(frozen=True, slots=True)
class PeriodicRange:
    """Which elements of a storage are a tensor: a run of elements in every period.

    Attributes
    ----------
    begin, count
        The first element of each run, from the storage's first run, and the length of a run.
    period
        Elements from one run to the next.
    """

    begin: int
    count: int
    period: int

    def shape(self, physical: tuple[int, ...]) -> tuple[int, ...]:
        """Extents, in one axis, of a buffer that holds the tensor alone."""
        return (prod(physical) // self.period * self.count,)

    def alone(self, at: Access) -> Access:
        """The access if nothing else lay in the storage."""

        def moved(distance: int) -> int:
            periods, rest = divmod(distance, self.period)
            return periods * self.count + rest

        n, h, w, c = map(moved, at.strides)
        return Access(at.buffer, moved(at.offset - self.begin), (n, h, w, c))


@dataclass
class Storage:
    """A buffer of the unit.

    Attributes
    ----------
    role
        ``"input"``, ``"constant"``, ``"output"`` or ``"scratch"``.
    number
        Which function parameter (input, constant) or which output it is.
    shape
        Its physical shape.
    producer
        The last kernel that writes it; -1 for what the unit is given.
    transform
        The transform from a constant of the model to this buffer.
    run
        Which elements are the tensor, if not all are.
    encoding
        How its float32 lie there; None if as they are.
    """

    role: str
    number: int
    shape: tuple[int, ...]
    dtype: str = "float32"
    producer: int = -1
    transform: ParamTransform = field(default_factory=ParamTransform)
    run: PeriodicRange | None = None
    encoding: Encoding | None = None

    @property
    def physical(self) -> PhysicalShape:
        """The buffer as kernels that compute in float32 see it."""
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
    """What a kernel has in registers: an expression of its anchor's value.

    ``begin`` and the last-but-two extent of ``shape`` say which of the anchor's channels.
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


#: Values that something must lay out before it can be read element by element.
Arranged = Padded | Widened | Interleaved

Value = Stored | Lazy | Pending | Arranged


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def strides_in(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Strides along the logical axes of a tensor in a layout."""
    if isinstance(layout, SliceLayout):
        return strides_in(layout.whole(shape), layout.order)
    if layout != NHWC:
        return row_major(shape)
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def offset_in(shape: tuple[int, ...], layout: Layout) -> int:
    """The first element of a tensor in the buffer that holds it."""
    if isinstance(layout, str):
        return 0
    return layout.begin * strides_in(shape, layout)[layout.axis]


def run_in(shape: tuple[int, ...], layout: Layout) -> PeriodicRange | None:
    """Which elements of the buffer are the tensor; None if all are."""
    if isinstance(layout, str):
        return None
    inner = strides_in(shape, layout)[layout.axis]
    return PeriodicRange(layout.begin * inner, shape[layout.axis] * inner, layout.extent * inner)


def physical_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Extents of the buffer that holds a tensor in a layout."""
    if isinstance(layout, SliceLayout):
        return physical_shape(layout.whole(shape), layout.order)
    return (shape[0], shape[2], shape[3], shape[1]) if layout == NHWC else shape


def is_row_major(value: Stored) -> bool:
    """True if a view's elements lie in the order of its logical indices, without gaps."""
    contiguous = row_major(value.shape)
    return all(
        extent == 1 or stride == expected
        for extent, stride, expected in zip(value.shape, value.strides, contiguous, strict=True)
    )


def four(extents: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    """Extents or strides with leading axes added up to four."""
    a, b, c, d = (fill,) * (4 - len(extents)) + extents
    return a, b, c, d


def access(value: Stored, shape: tuple[int, ...]) -> Access | None:
    """How to read a tensor as one of a broader shape; None if it cannot be broadcast to it."""
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
    """The value as an expression of what is stored."""
    if isinstance(value, Lazy):
        return value
    read = access(value, value.shape)
    assert read is not None
    return Lazy(("load", read), value.shape)


def shift(expr: Expr, axis: int, by: int) -> Expr:
    """The expression ``by`` elements further along an axis of its loads."""
    return map_accesses(expr, lambda access: access.shifted(axis, by))


def stretch(expr: Expr, axis: int, step: int) -> Expr:
    """The expression with every ``step``-th element along an axis of its loads."""

    def stretched(access: Access) -> Access:
        strides = list(access.strides)
        strides[axis] *= step
        return replace(access, strides=tuple(strides))

    return map_accesses(expr, stretched)
