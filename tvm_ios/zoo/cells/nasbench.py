"""Random cells of NAS-Bench-101's search space (Ying et al., 2019), each as a network."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Limits of the search space.
MAX_VERTICES, MAX_EDGES = 7, 9
#: What an inner vertex may compute.
OPERATIONS = ("conv3x3", "conv1x1", "maxpool3x3")


@dataclass(frozen=True, slots=True)
class Cell:
    """A directed acyclic graph from vertex 0, the input, to the last vertex, the output.

    ``operations`` are those of the inner vertices 1, 2, ... ``edges`` lead from smaller to larger
    vertices; every vertex lies on a path from the input to the output.
    """

    operations: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def output(self) -> int:
        """Number of the last vertex."""
        return len(self.operations) + 1

    def sources(self, vertex: int) -> list[int]:
        """Return the vertices that a vertex reads, ascending."""
        return sorted(u for u, v in self.edges if v == vertex)


def random_cells(count: int, seed: int = 0) -> tuple[Cell, ...]:
    """Return ``count`` different cells drawn as NAS-Bench-101 does: at random, then pruned."""
    generator = random.Random(seed)
    cells: dict[Cell, None] = {}
    while len(cells) < count:
        pairs = [(u, v) for v in range(MAX_VERTICES) for u in range(v)]
        edges = [pair for pair in pairs if generator.random() < 0.5]
        operations = [generator.choice(OPERATIONS) for _ in range(MAX_VERTICES - 2)]
        cell = _pruned(operations, edges)
        # A cell whose input is its output computes nothing.
        if cell is not None and cell.operations and len(cell.edges) <= MAX_EDGES:
            cells[cell] = None
    return tuple(cells)


def build_cell(cell: Cell, channels: int = 256, size: int = 16, seed: int = 0) -> Any:
    """Build one cell: input and output (1, channels, size, size).

    A vertex sums what it reads, the cell's input through a 1x1 convolution of its own. The output
    concatenates its sources, and adds the projected input if that is one. The second stack of the
    published network has 256 channels of 16 x 16.
    """
    net = ImageNetwork("cell", seed, (channels, size, size))
    widths = vertex_channels(cell, channels)
    outputs: dict[int, Feature] = {}
    for vertex, operation in enumerate(cell.operations, start=1):
        with net.scope(f"vertex{vertex}"):
            terms = [
                net.first_channels(outputs[source], widths[vertex])
                if source
                else _conv(net, net.input, widths[vertex], 1)
                for source in cell.sources(vertex)
            ]
            outputs[vertex] = _apply(net, net.add(*terms), operation)
    leading = [outputs[source] for source in cell.sources(cell.output) if source]
    result = net.concat(leading) if len(leading) > 1 else leading[0]
    if (0, cell.output) in cell.edges:
        result = net.add(result, _conv(net, net.input, channels, 1))
    return net.finish(result.value, (1, channels, size, size))


def vertex_channels(cell: Cell, channels: int) -> dict[int, int]:
    """Return the channels of each inner vertex, by the rule of NAS-Bench-101.

    Sources of the output share its channels, with the remainder on the first ones; any other vertex
    has as many as its widest reader.
    """
    leading = [source for source in cell.sources(cell.output) if source]
    widths: dict[int, int] = {}
    for place, vertex in enumerate(leading):
        widths[vertex] = channels // len(leading) + (place < channels % len(leading))
    for vertex in range(cell.output - 1, 0, -1):
        if vertex not in widths:
            widths[vertex] = max(widths[v] for u, v in cell.edges if u == vertex)
    return widths


def _pruned(operations: Sequence[str], edges: Sequence[tuple[int, int]]) -> Cell | None:
    """Return the cell without vertices off all paths from input to output; None without a path."""
    last = len(operations) + 1
    forward, backward = {0}, {last}
    for u, v in sorted(edges, key=lambda edge: edge[1]):
        if u in forward:
            forward.add(v)
    for u, v in sorted(edges, key=lambda edge: -edge[0]):
        if v in backward:
            backward.add(u)
    vertices = sorted(forward & backward)
    if last not in vertices or 0 not in vertices:
        return None
    number = {vertex: place for place, vertex in enumerate(vertices)}
    return Cell(
        tuple(operations[vertex - 1] for vertex in vertices[1:-1]),
        tuple(sorted((number[u], number[v]) for u, v in edges if u in number and v in number)),
    )


def _apply(net: ImageNetwork, x: Feature, operation: str) -> Feature:
    if operation == "maxpool3x3":
        return net.max_pool(x, 3, 1)
    return _conv(net, x, x.channels, 3 if operation == "conv3x3" else 1)


def _conv(net: ImageNetwork, x: Feature, channels: int, kernel: int) -> Feature:
    return net.relu(net.batch_norm(net.conv(x, channels, kernel)))
