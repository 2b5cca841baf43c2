"""Random convolutions of a kernel library, and what they compute, by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from runtime_ext.kernels.library_convolution import PRECISIONS, Image, LibraryConvolution
from tvm_ios.program import BufferType

Array = np.ndarray[Any, Any]
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


@st.composite
def convolutions(draw: Callable[[Any], Any]) -> LibraryConvolution:
    """Buffers are data, weight, result, bias and residual, as far as there are any."""
    number = st.integers(1, 3)
    groups, per_group, n = draw(number), draw(number), draw(st.integers(1, 2))
    out = groups * draw(number)
    kernel = draw(st.tuples(number, number))
    pads = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    strides, dilations = draw(st.tuples(number, number)), draw(st.tuples(number, number))
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    extents = tuple(
        max(1, r - 2 * p) + draw(st.integers(0, 4)) for r, p in zip(reach, pads, strict=True)
    )
    result = tuple(
        (e + 2 * p - r) // s + 1 for e, p, r, s in zip(extents, pads, reach, strides, strict=True)
    )
    last = draw(st.booleans())
    data = (n, groups * per_group, *extents)
    made = (n, out, *result)
    bias = draw(st.booleans())
    offset = draw(st.sampled_from((0, 8)))
    target = Image(2, offset, made, packed(made, last))
    added = Image(4, 0, made, target.strides) if bias and draw(st.booleans()) else None
    return LibraryConvolution(
        data=Image(0, draw(st.sampled_from((0, 16))), data, packed(data, last)),
        result=target,
        weight=1,
        filter=(out, per_group, *kernel),
        channels_last=last,
        pads=pads,
        strides=strides,
        dilations=dilations,
        groups=groups,
        bias=3 if bias else None,
        residual=added,
        # The stand-in of cuDNN has no algorithm for a bias alone where pixels are skipped.
        relu=bias and (dilations != (1, 1) or draw(st.booleans())),
        precision=draw(st.sampled_from(PRECISIONS)),
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
    own = out // call.groups
    for group in range(call.groups):
        inner = data[:, group * per_group : (group + 1) * per_group]
        for r in range(rows):
            for s in range(columns):
                y, x = r * call.dilations[0], s * call.dilations[1]
                seen = inner[:, :, y :: call.strides[0], x :: call.strides[1]]
                seen = seen[:, :, :height, :width]
                part = weight[group * own : (group + 1) * own, :, r, s]
                total[:, group * own : (group + 1) * own] += np.einsum("nihw,oi->nohw", seen, part)
    if call.bias is not None:
        total += buffers[call.bias].astype("float64").reshape(1, -1, 1, 1)
    if call.residual is not None:
        total += view(buffers[call.residual.argument], call.residual)
    return np.maximum(total, 0) if call.relu else total


def compute(call: LibraryConvolution, buffers: list[Array]) -> None:
    """Write the result image of buffers of any shape."""
    flat = [buffer.reshape(-1) for buffer in buffers]
    view(flat[call.result.argument], call.result)[...] = reference(call, flat)
