"""Stitching of layers into runs that exchange tiles in the local buffer (section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.cluster.tiling import Tiler, Tiling


def stitch(
    tiler: Tiler,
    subgraph: int,
    made: Mapping[int, Box],
    seconds: Callable[[Tiling], float],
    most: int,
) -> tuple[Tiling, ...]:
    """Cut a kernel into runs of layers that exchange tiles in the local buffer.

    Of all cuts that of the least time is taken, and of equals that of the fewest runs, by dynamic
    programming: layers of a run exchange nothing with buffers further away, but their weights may
    have to pass once for each tile.

    ``subgraph`` is the bit set of the kernel's layers, and ``made`` its boxes of tensors.
    ``seconds`` estimates the time of a run. A run has at most ``most`` layers; with one nothing is
    stitched.
    """
    order = [n for n in bits(subgraph) if any(t in made for t in tiler.layers.outputs[n])]
    best: list[tuple[float, int]] = [(0.0, 0)]
    last: list[Tiling] = []
    for end in range(1, len(order) + 1):
        ways: list[tuple[float, int, Tiling]] = []
        for begin in range(end - 1, max(-1, end - 1 - most), -1):
            tiling = tiler.tile(tuple(order[begin:end]), made)
            if tiling is None:  # Nor do tiles of more layers fit.
                break
            before, runs = best[begin]
            ways.append((before + seconds(tiling), runs + 1, tiling))
        # Tolerate rounding: sums of the same times in another order count as equal.
        least = min(way[0] for way in ways) * (1 + 1e-9)
        _, runs, tiling = min((w for w in ways if w[0] <= least), key=lambda way: way[1])
        best.append((least, runs))
        last.append(tiling)
    stitched: list[Tiling] = []
    left = len(order)
    while left:
        stitched.append(last[left - 1])
        left -= len(last[left - 1].run)
    return tuple(reversed(stitched))
