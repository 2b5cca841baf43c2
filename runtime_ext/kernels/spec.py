"""Specs of kernels as plain data: enough to write their code and to recognise equal ones.

Every kernel runs over a *grid* of four axes: batch, rows, columns and, last, the axis along which
vectors lie (the channels of an image in NHWC).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.expression import Access, Expr, loads, map_accesses
from tvm_ios.shapes.extent import is_open

#: Number types in which floats may be stored.
Numbers = Literal["uint8", "int16", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The storage of a tensor's numbers, which kernels read and write as float32."""

    #: ``bfloat16``: rounded, the bits in buffers of ``uint16``; or the integer type of tensors that
    #: hold integers.
    numbers: Numbers
    #: Added to integers, so that none is negative.
    shift: int = 0

    @property
    def dtype(self) -> str:
        """Data type of the buffer's elements."""
        return "uint16" if self.numbers == "bfloat16" else self.numbers


#: The upper half of float32's bits.
BFLOAT16 = Encoding("bfloat16")


@dataclass(frozen=True, slots=True)
class Encoded:
    """The physical shape of a buffer whose elements are encoded."""

    shape: tuple[int, ...]
    encoding: Encoding


#: The physical shape of a buffer; without an encoding it holds float32, unless its kernel says
#: otherwise.
PhysicalShape = tuple[int, ...] | Encoded


def extents(shape: PhysicalShape) -> tuple[int, ...]:
    """Return the extents of a buffer, encoded or not."""
    return shape.shape if isinstance(shape, Encoded) else shape


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that stores an expression into a buffer."""

    #: The expression. Its loads, like ``target``, are relative to channel ``begin``.
    value: Expr
    #: The elements that are written.
    target: Access
    #: The range of the kernel's channels.
    begin: int
    count: int

    def mapped(self, change: Callable[[Access], Access]) -> Statement:
        """Return the statement with every access changed."""
        return replace(self, value=map_accesses(self.value, change), target=change(self.target))


def accesses(statements: Iterable[Statement]) -> list[Access]:
    """Return all accesses that statements read and write."""
    return [access for s in statements for access in (*loads(s.value), s.target)]


@dataclass(frozen=True, slots=True)
class Window:
    """The input pixels that output pixels read: extents along rows and columns.

    Output row ``y`` reads the input rows ``y * strides[0] + k * dilations[0] - pads[0]`` that
    exist, for ``k`` in ``range(kernel[0])``; columns likewise. A negative pad skips pixels.
    """

    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    dilations: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A convolution, or a matrix product as the convolution of a single row of pixels."""

    #: Physical shapes of the function's buffers.
    buffers: tuple[PhysicalShape, ...]
    #: Extents; ``channels`` are the input channels of one group.
    batch: int
    window: Window
    channels: int
    groups: int
    #: The input; ``prologue`` is applied to what is read (``acc`` stands for it).
    data: Access

    prologue: Expr
    #: The buffer that holds the packed weights ``[block][kernel row][kernel column][input
    #: channel][output channel of the block]``.
    weight: int
    #: Output channels that are packed together: those of each group, or of each output of a split.
    #: Each part is padded to whole blocks.
    parts: tuple[int, ...]
    #: The device's cut; :data:`~runtime_ext.kernels.cut.UNCUT` until it is chosen.
    blocking: ContractionCut

    statements: tuple[Statement, ...]

    @property
    def has_known_channels(self) -> bool:
        """Whether its channels and its window are numbers: only pixels depend on the shape."""
        window = self.window
        known = (window.kernel, window.strides, window.pads, window.dilations)
        of_window = (extent for pair in known for extent in pair)
        return not any(map(is_open, (self.channels, self.groups, *self.parts, *of_window)))


@dataclass(frozen=True, slots=True)
class Product:
    """Products of two matrices that are both data, for each image and height of the grid."""

    buffers: tuple[PhysicalShape, ...]
    #: Images, heights, rows.
    grid: tuple[int, int, int]
    #: Extents of the second matrix.
    columns: int
    depth: int
    #: The first matrix; its last stride is along the depth.
    data: Access
    #: The second matrix; its third stride is along the depth, its last, 1, along the columns.
    other: Access

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Pooling:
    """A reduction over a window, channel by channel: pooling, or a depthwise convolution."""

    buffers: tuple[PhysicalShape, ...]
    #: ``"max"``; ``"sum"``; ``"mean"``, over the pixels that exist; or ``"depthwise"``.
    kind: str

    batch: int
    window: Window
    channels: int
    data: Access
    prologue: Expr
    #: The buffer that holds a depthwise convolution's weights ``[kernel row][kernel column]
    #: [channel]``; None for pooling.
    weight: int | None

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of all pixels, channel by channel; the grid is ``(batch, 1, 1, channels)``."""

    buffers: tuple[PhysicalShape, ...]
    batch: int
    pixels: tuple[int, int]
    channels: int
    data: Access
    prologue: Expr
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Softmax or layer normalisation of every run of ``count`` elements along the last axis."""

    buffers: tuple[PhysicalShape, ...]
    #: ``"softmax"`` or ``"layer_norm"`` (without scale and bias, which are statements').
    kind: str
    #: Extents of the other axes.
    grid: tuple[int, int, int]

    count: int
    data: Access
    prologue: Expr
    #: The epsilon of a layer normalisation.
    epsilon: float

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Interpolation:
    """An image enlarged by whole factors."""

    buffers: tuple[PhysicalShape, ...]
    batch: int
    #: Rows and columns of the input.
    pixels: tuple[int, int]

    channels: int
    data: Access
    prologue: Expr
    #: For each result between one input and the next, ``(first, weight)``: the result is ``(1 -
    #: weight) * input[i + first] + weight * input[i + first + 1]``, of the inputs that exist, or
    #: else the nearest of them.
    rows: tuple[tuple[int, float], ...]
    columns: tuple[tuple[int, float], ...]

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of results among the inputs along an axis.

    Result ``i`` lies at the fraction ``(i * step + offset) / divisor``, which is above -1.
    """

    step: int
    offset: int
    divisor: int
    #: Whether a result is the input at or before its position, instead of one between that and the
    #: next.
    is_rounded: bool


@dataclass(frozen=True, slots=True)
class Resampling:
    """An image of any size, whose results lie between inputs.

    Where there is no input, the nearest one stands for it.
    """

    buffers: tuple[PhysicalShape, ...]
    batch: int
    #: Rows and columns of the input, and of the result.
    inputs: tuple[int, int]
    pixels: tuple[int, int]

    channels: int
    data: Access
    prologue: Expr
    rows: Positions
    columns: Positions

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Expressions of elements at the same place: element-wise operators, copies."""

    buffers: tuple[PhysicalShape, ...]
    grid: tuple[int, int, int]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Interleave:
    """Expressions of equally many channels, one channel of each in turn."""

    buffers: tuple[PhysicalShape, ...]
    grid: tuple[int, int, int]
    #: One for each group; channel ``c`` of group ``i`` becomes channel ``c * groups + i``.
    values: tuple[Expr, ...]
    #: The target's access; contiguous along the channels.
    target: Access
    #: Channels of a group.
    count: int


@dataclass(frozen=True, slots=True)
class Recurrence:
    """All steps of an LSTM, GRU or RNN in one direction.

    Accesses are over a grid whose axes are steps, rows of the batch, one, and gates or elements of
    a state.
    """

    buffers: tuple[PhysicalShape, ...]
    #: See :class:`runtime_ext.kernels.recurrence_operator.Recurrent`.
    kind: str
    activations: tuple[str, ...]
    reverse: bool
    late: bool
    #: Extents.
    steps: int
    batch: int
    hidden: int
    #: The contributions of the inputs to the gates, one after another, with all biases.
    gates: Access
    #: The buffer that holds the packed weights ``[block][element of the state][gate][element of the
    #: block]``.
    weight: int
    #: Elements of a state in a block; 0 until the device chooses.
    width: int
    #: The buffer of the scales of products, by gate; None unless each state is quantised to eight
    #: bits, as weights are.
    scale: int | None
    #: The buffers of a late GRU's bias, in its last part, or of a quantised LSTM's, and of
    #: peepholes, or None.
    bias: int | None
    peepholes: int | None
    #: The state and the memory before the first step; None if they are zeros.
    state: Access | None
    memory: Access | None
    #: The states of all steps.
    target: Access
    #: The last memory; None if nothing reads it.
    last: Access | None

    @property
    def gate_count(self) -> int:
        """Number of gates."""
        return {"lstm": 4, "gru": 3, "rnn": 1}[self.kind]


#: A kernel that computes a value for its statements.
Anchor = Contraction | Product | Pooling | Mean | Normalisation | Interpolation | Resampling


@dataclass(frozen=True, slots=True)
class Finer:
    """A kernel in smaller tiles than usual."""

    kernel: Pooling | Pointwise

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.kernel.buffers


#: A kernel of one phase that is written by hand.
Spec = Anchor | Pointwise | Interleave | Recurrence | Finer
