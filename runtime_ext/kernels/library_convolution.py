"""A convolution that a kernel library computes instead of a generated kernel: plain data."""

from __future__ import annotations

from dataclasses import dataclass

#: The rKernel of units whose convolutions cuDNN computes.
CUDNN = "cudnn"
PRECISIONS = ("float32", "tf32", "float16")

Four = tuple[int, int, int, int]
Two = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a buffer of a call."""

    #: Index of its buffer among the call's.
    argument: int
    #: Element of that buffer at which it begins.
    offset: int
    #: Images, channels, rows, columns.
    extents: Four
    #: Elements to the next along each of these.
    strides: Four


@dataclass(frozen=True, slots=True)
class LibraryConvolution:
    """``result = relu(convolution(data, weight) + bias + residual)``, or less of it."""

    #: The images that are read and written.
    data: Image
    result: Image
    #: The buffer that holds the weights: ``[output channel][input channel of a
    #: group][row][column]``, or, with ``channels_last``, the input channel innermost.
    weight: int
    #: Extents of the weights in the first of these orders.
    filter: Four
    #: See ``weight``.
    channels_last: bool
    #: Along rows and columns; pads are the same at both ends.
    pads: Two
    strides: Two
    dilations: Two
    #: Groups of channels.
    groups: int
    #: The buffer of a number for each output channel; None for no bias, and then neither residual
    #: nor activation.
    bias: int | None
    #: An image that is added, which lies as the result does.
    residual: Image | None
    #: Whether negative results become zero.
    relu: bool
    #: The precision in which images are stored and products made: see
    #: :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    precision: str

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"there is no precision {self.precision!r}")

    @property
    def buffers(self) -> int:
        """Number of buffers that a call takes."""
        named = [self.data.argument, self.weight, self.result.argument, self.bias or 0]
        return 1 + max(*named, 0 if self.residual is None else self.residual.argument)

    @property
    def dtype(self) -> str:
        """Data type of all images and weights in memory."""
        return "float16" if self.precision == "float16" else "float32"
