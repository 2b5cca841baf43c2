"""The padding of windowed operators."""

from __future__ import annotations

#: ``"same"`` pads as TensorFlow does (the odd pixel below and to the right), ``"valid"`` not at
#: all; four numbers are top, left, bottom, right.
Padding = str | tuple[int, int, int, int]


def pads_of(
    padding: Padding, extents: tuple[int, int], window: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return the padding at the top, left, bottom and right of an image of these extents."""
    if isinstance(padding, tuple):
        return padding
    if padding == "valid":
        return (0, 0, 0, 0)
    total = [
        max(0, (-(-extent // stride) - 1) * stride + k - extent)
        for extent, k, stride in zip(extents, window, strides, strict=True)
    ]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)
