"""A convolution that a kernel library computes instead of a generated kernel: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.files.json_text import natural, naturals

#: The rKernel of units whose convolutions cuDNN computes.
CUDNN = "cudnn"
PRECISIONS = ("float32", "tf32", "float16")

Four = tuple[int, int, int, int]
Two = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a buffer of a call.

    Attributes
    ----------
    argument
        Index of its buffer among the call's.
    offset
        Element of that buffer at which it begins.
    extents
        Images, channels, rows, columns.
    strides
        Elements to the next along each of these.
    """

    argument: int
    offset: int
    extents: Four
    strides: Four

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Image:
        """Read the fields of an image from plain data."""
        argument, offset = natural(data["argument"]), natural(data["offset"])
        return Image(argument, offset, _four(data["extents"]), _four(data["strides"]))


@dataclass(frozen=True, slots=True)
class LibraryConvolution:
    """``result = relu(convolution(data, weight) + bias + residual)``, or less of it.

    Attributes
    ----------
    data, result
        The images that are read and written.
    weight
        The buffer that holds the weights:
        ``[output channel][input channel of a group][row][column]``, or, with ``channels_last``, the
        input channel innermost.
    filter
        Extents of the weights in the first of these orders.
    channels_last
        See ``weight``.
    pads, strides, dilations
        Along rows and columns; pads are the same at both ends.
    groups
        Groups of channels.
    bias
        The buffer of a number for each output channel; None for no bias, and then neither
        residual nor activation.
    residual
        An image that is added, which lies as the result does.
    relu
        Whether negative results become zero.
    precision
        The precision in which images are stored and products made: see
        :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """

    data: Image
    result: Image
    weight: int
    filter: Four
    channels_last: bool
    pads: Two
    strides: Two
    dilations: Two
    groups: int
    bias: int | None
    residual: Image | None
    relu: bool
    precision: str

    @property
    def buffers(self) -> int:
        """Number of buffers that a call takes."""
        named = [self.data.argument, self.weight, self.result.argument, self.bias or 0]
        return 1 + max(*named, 0 if self.residual is None else self.residual.argument)

    @property
    def dtype(self) -> str:
        """Data type of all images and weights in memory."""
        return "float16" if self.precision == "float16" else "float32"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the inverse of :meth:`from_json`."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> LibraryConvolution:
        """Read the output of :meth:`to_json`.

        Raise KeyError, TypeError or ValueError if the data are not such.
        """
        bias, residual, precision = data["bias"], data["residual"], str(data["precision"])
        if precision not in PRECISIONS:
            raise ValueError(f"the precision {precision!r}")
        return LibraryConvolution(
            data=Image.from_json(data["data"]),
            result=Image.from_json(data["result"]),
            weight=natural(data["weight"]),
            filter=_four(data["filter"]),
            channels_last=bool(data["channels_last"]),
            pads=_two(data["pads"]),
            strides=_two(data["strides"]),
            dilations=_two(data["dilations"]),
            groups=natural(data["groups"]),
            bias=None if bias is None else natural(bias),
            residual=None if residual is None else Image.from_json(residual),
            relu=bool(data["relu"]),
            precision=precision,
        )


def _four(data: object) -> Four:
    a, b, c, d = naturals(data)
    return a, b, c, d


def _two(data: object) -> Two:
    a, b = naturals(data)
    return a, b
