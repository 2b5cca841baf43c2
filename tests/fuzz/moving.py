"""Operators that only move data, as random networks draw them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawn_network import Draw, Network, Value

MOVES: list[Draw] = []


def _move(draw: Draw) -> Draw:
    MOVES.append(draw)
    return draw


@_move
def _reshape(net: Network, x: Value) -> str:
    match net.pick("flat", "flatten", "zero", "split", "squeeze", "unsqueeze"):
        case "flat":
            return net.op("Reshape", x.name, net.const(np.array([(*x.shape, 1)[0], -1])))
        case "flatten" if x.shape:
            return net.op("Flatten", x.name, axis=int(net.random.integers(0, len(x.shape) + 1)))
        case "zero" if len(x.shape) > 2:
            return net.op("Reshape", x.name, net.const(np.array([0, -1, x.shape[-1]])))
        case "split" if len(x.shape) > 1 and x.shape[1] % 2 == 0:
            shape = [x.shape[0], 2, x.shape[1] // 2, *x.shape[2:]]
            return net.op("Reshape", x.name, net.const(np.array(shape)))
        case "squeeze" if 1 in x.shape:
            axes = [i for i, extent in enumerate(x.shape) if extent == 1]
            return net.op("Squeeze", x.name, net.const(np.array(axes[:1])))
        case _:
            at = int(net.random.integers(-len(x.shape) - 1, len(x.shape) + 1))
            return net.op("Unsqueeze", x.name, net.const(np.array([at])))


@_move
def _transpose(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    return net.op("Transpose", x.name, perm=net.random.permutation(len(x.shape)).tolist())


@_move
def _slice(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axes = net.axes(x)
    steps = [net.pick(1, 1, 1, 2, -1, -2) for _ in axes]
    bounds = [
        [int(net.random.integers(-x.shape[axis] - 1, x.shape[axis] + 2)) for axis in axes]
        for _ in range(2)
    ]
    rows = [net.const(np.array(row)) for row in (*bounds, axes, steps)]
    return net.op("Slice", x.name, *rows)


@_move
def _split(net: Network, x: Value) -> Any:
    axis = net.axis(x) if x.shape else 0
    if not x.shape or x.shape[axis] < 2:
        return None
    first = int(net.random.integers(1, x.shape[axis]))
    sizes = net.const(np.array([first, x.shape[axis] - first]))
    return net.op("Split", x.name, sizes, outputs=2, axis=axis)


@_move
def _concat(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axis = net.axis(x)
    place = axis % len(x.shape)

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:place], *shape[place + 1 :])

    alike = [v for v in net.values if len(v.shape) == len(x.shape) and v.exact >= x.exact]
    alike = [v.name for v in alike if rest(v.shape) == rest(x.shape)]
    parts = [net.pick(*alike) for _ in range(net.pick(1, 2, 3))]
    return net.op("Concat", x.name, *parts, axis=axis)


@_move
def _pad(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    mode = net.pick("constant", "constant", "constant", "reflect", "edge")
    widths = [int(net.random.integers(-1 if mode == "constant" else 0, 3)) for _ in x.shape * 2]
    if mode == "reflect":
        widths = [min(width, extent - 1) for width, extent in zip(widths, x.shape * 2, strict=True)]
    if len(x.shape) == 4 and net.pick(True, False):
        widths[:2] = widths[4:6] = [0, 0]
    fill = (net.const(net.pick(0.0, 0.0, -1.5)),) if mode == "constant" else ()
    return net.op("Pad", x.name, net.const(np.array(widths)), *fill, mode=mode)


@_move
def _gather(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axis = net.axis(x)
    extent = x.shape[axis]
    match net.pick("one", "rows", "input", "elements", "points"):
        case "one":
            index = int(net.random.integers(-extent, extent))
            return net.op("Gather", x.name, net.const(np.array(index)), axis=axis)
        case "input":
            return net.op("Gather", x.name, "i", axis=axis)
        case "points":
            depth = int(net.random.integers(1, len(x.shape) + 1))
            points = [net.random.integers(-e, e, 3) for e in x.shape[:depth]]
            return net.op("GatherND", x.name, net.const(np.stack(points, axis=1)))
        case "elements":
            shape = [e if i != axis % len(x.shape) else 2 for i, e in enumerate(x.shape)]
            indices = net.const(net.random.integers(0, extent, shape))
            return net.op("GatherElements", x.name, indices, axis=axis)
        case _:
            rows = net.const(net.random.integers(-extent, extent, net.pick((3,), (2, 2))))
            return net.op("Gather", x.name, rows, axis=axis)


@_move
def _triangle(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    return net.op("Trilu", x.name, net.const(np.array(net.pick(-1, 0, 1))), upper=net.pick(0, 1))


@_move
def _repeat(net: Network, x: Value) -> str:
    if net.pick(True, False):
        times = [net.pick(1, 1, 2, 3) for _ in x.shape]
        return net.op("Tile", x.name, net.const(np.array(times, np.int64)))
    shape = [extent if extent > 1 else net.pick(1, 3) for extent in x.shape]
    return net.op("Expand", x.name, net.const(np.array([*net.pick([], [2]), *shape], np.int64)))


@_move
def _pixels(net: Network, x: Value) -> str | None:
    """Channels and pixels in each other's place, and shuffled channels."""
    if len(x.shape) != 4:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0 and net.pick(True, False):
        return net.op("DepthToSpace", x.name, blocksize=2, mode=net.pick("DCR", "CRD"))
    if h % 2 == w % 2 == 0 and net.pick(True, False):
        return net.op("SpaceToDepth", x.name, blocksize=2)
    if c % 2:
        return None
    apart = net.op("Reshape", x.name, net.const(np.array([n, 2, c // 2, h, w])))
    turned = net.op("Transpose", apart, perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", turned, net.const(np.array([n, c, h, w])))
