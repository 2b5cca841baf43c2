"""Convolutions of a kernel library, and what they compute, by NumPy alone."""

from __future__ import annotations

import numpy as np

from runtime_ext.kernels.library_convolution import Image, LibraryConvolution
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import BufferType

#: Of the largest result.
TOLERANCE = {"float32": 1e-6, "tf32": 2e-3, "float16": 2e-3}


def packed(extents: tuple[int, int, int, int], last: bool) -> tuple[int, int, int, int]:
    """Strides of an image alone in memory, the channels innermost or not."""
    _, c, h, w = extents
    return (c * h * w, 1, w * c, c) if last else (c * h * w, h * w, w, 1)


def room(image: Image) -> int:
    """Elements up to the image's last."""
    steps = zip(image.extents, image.strides, strict=True)
    return image.offset + sum((extent - 1) * stride for extent, stride in steps) + 1


def convolution(
    data: tuple[int, int, int, int],
    channels: int,
    last: bool = True,
    *,
    stride: int = 1,
    groups: int = 1,
    precision: str = "float32",
    fused: bool = False,
) -> LibraryConvolution:
    """A padded convolution of 3x3; its buffers are data, weight, result, bias and residual.

    ``fused`` is with a bias, a residual and ReLU.
    """
    n, per_group, height, width = data[0], data[1] // groups, *data[2:]
    shape = (n, channels, -(-height // stride), -(-width // stride))
    return LibraryConvolution(
        data=Image(0, 0, data, packed(data, last)),
        result=Image(2, 0, shape, packed(shape, last)),
        weight=1,
        filter=(channels, per_group, 3, 3),
        channels_last=last,
        pads=(1, 1),
        strides=(stride, stride),
        dilations=(1, 1),
        groups=groups,
        bias=3 if fused else None,
        residual=Image(4, 0, shape, packed(shape, last)) if fused else None,
        relu=fused,
        precision=precision,
    )


def buffers_of(call: LibraryConvolution) -> tuple[BufferType, ...]:
    """The types of the call's buffers."""
    sizes = [room(call.data), int(np.prod(call.filter)), room(call.result)]
    if call.bias is not None:
        sizes.append(call.filter[0])
    if call.residual is not None:
        sizes.append(room(call.residual))
    return tuple(BufferType((size,), call.dtype) for size in sizes)


def drawn(call: LibraryConvolution, seed: int) -> list[Array]:
    """What the buffers hold."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, kind.shape).astype(kind.dtype) for kind in buffers_of(call)]


def view(array: Array, image: Image) -> Array:
    """An image of a buffer, writable."""
    steps = tuple(stride * array.itemsize for stride in image.strides)
    return np.lib.stride_tricks.as_strided(array[image.offset :], image.extents, steps)


def reference(call: LibraryConvolution, buffers: list[Array]) -> Array:
    """The result image, in float64."""
    data = view(buffers[call.data.argument], call.data).astype("float64")
    out, per_group, rows, columns = call.filter
    weight = buffers[call.weight].astype("float64")
    if call.channels_last:
        weight = weight.reshape(out, rows, columns, per_group).transpose(0, 3, 1, 2)
    weight = weight.reshape(call.filter)
    data = np.pad(data, ((0, 0), (0, 0), *((p, p) for p in call.pads)))
    _, _, height, width = call.result.extents
    total = np.zeros(call.result.extents)
    count = out // call.groups
    for group in range(call.groups):
        inner = data[:, group * per_group : (group + 1) * per_group]
        for r in range(rows):
            for s in range(columns):
                y, x = r * call.dilations[0], s * call.dilations[1]
                seen = inner[:, :, y :: call.strides[0], x :: call.strides[1]]
                seen = seen[:, :, :height, :width]
                part = weight[group * count : (group + 1) * count, :, r, s]
                total[:, group * count : (group + 1) * count] += np.einsum(
                    "nihw,oi->nohw", seen, part
                )
    if call.bias is not None:
        total += buffers[call.bias].astype("float64").reshape(1, -1, 1, 1)
    if call.residual is not None:
        total += view(buffers[call.residual.argument], call.residual)
    return np.maximum(total, 0) if call.relu else total


def compute(call: LibraryConvolution, buffers: list[Array]) -> None:
    """Write the result image of buffers of any shape."""
    flat = [buffer.reshape(-1) for buffer in buffers]
    view(flat[call.result.argument], call.result)[...] = reference(call, flat)
