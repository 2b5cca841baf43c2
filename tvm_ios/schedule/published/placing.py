"""Match the nodes of a published schedule with the units of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tvm_ios.graph.elements import AttrValue
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.published.nodes import Block, Node, PublishedSchedule, Value

#: Choices of a block that are tried before it is given up: branches that are alike are many ways
#: to the same end, and the first is taken.
_MOST_CHOICES = 100_000
#: Poolings by the kinds of operators that units hold.
_POOLS = {"max_pool2d": "max", "avg_pool2d": "avg", "mean": "global_avg"}


class PlacingError(Exception):
    """The error that a node matches no unit, with the reason."""


def place(published: PublishedSchedule, graph: OpGraph) -> dict[str, tuple[int, ...]]:
    """Return the units that each node matches, or raise PlacingError.

    A unit matches a node if it reads from the units of the node's sources, has weights of the same
    shapes or the same pooling, and makes a tensor of the same extents, for any batch. A merged node
    matches several units, in the order of its channels.
    """
    placing = _Placing(published, graph)
    for block in published.blocks:
        placing.place(block)
    return placing.places


@dataclass(frozen=True, slots=True)
class _Unit:
    weights: tuple[tuple[int, ...], ...]
    pool: str
    window: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass
class _Placing:
    published: PublishedSchedule
    graph: OpGraph
    places: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    taken: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        graph = self.graph
        self._units = [_described(graph, unit) for unit in range(len(graph))]
        self._reading: dict[int, list[int]] = {}
        for unit, sources in enumerate(graph.predecessors):
            self._reading.setdefault(sources, []).append(unit)
        nodes = [node for block in self.published.blocks for node in block.nodes]
        self._readers: dict[str, list[Node]] = {}
        self._borders: dict[str, set[int]] = {}
        for node in nodes:
            for value in node.reads:
                self._readers.setdefault(value.node, []).append(node)
                self._borders.setdefault(value.node, set()).update((value.begin, value.end))

    def place(self, block: Block) -> None:
        """Place the nodes of a block by a depth-first search with backtracking."""
        nodes = block.nodes
        choices: list[Iterator[tuple[int, ...]]] = [self._choices(nodes[0])]
        furthest, tried, reason = 0, 0, self._reason(nodes[0])
        while choices:
            node = nodes[len(choices) - 1]
            self._leave(node)
            chosen = next(choices[-1], None)
            tried += 1
            if chosen is None or tried > _MOST_CHOICES:
                choices.pop()
                continue
            self.places[node.name] = chosen
            self.taken.update(chosen)
            if len(choices) == len(nodes):
                return
            if len(choices) > furthest:
                furthest, reason = len(choices), self._reason(nodes[len(choices)])
            choices.append(self._choices(nodes[len(choices)]))
        raise PlacingError(reason)

    def _leave(self, node: Node) -> None:
        self.taken.difference_update(self.places.pop(node.name, ()))

    def _choices(self, node: Node) -> Iterator[tuple[int, ...]]:
        free = self._beside(node)
        if node.parts == 1:
            fitting = [unit for unit in free if self._fits(node, unit)]
            # Among equal units try first those whose readers match the node's.
            return iter([(unit,) for unit in sorted(fitting, key=partial(self._unlike, node))])
        return self._merged(node, [unit for unit in free if self._is_part(node, unit)], ())

    def _beside(self, node: Node) -> list[int]:
        """Return the free units that read from exactly the units of a node's sources."""
        sources = 0
        for value in node.reads:
            mask = self._mask(value)
            if mask is None:
                return []
            sources |= mask
        return [unit for unit in self._reading.get(sources, ()) if unit not in self.taken]

    def _mask(self, value: Value) -> int | None:
        """Return the bit set of units that made these channels; None if it cuts through a unit."""
        if value.node == self.published.source:
            return 0
        mask, begin, made = 0, 0, 0
        for unit in self.places[value.node]:
            end = begin + self._units[unit].shape[0]
            if value.begin <= begin and end <= value.end:
                mask |= 1 << unit
                made += end - begin
            begin = end
        return mask if made == value.end - value.begin else None

    def _fits(self, node: Node, unit: int) -> bool:
        ours = self._units[unit]
        same = (ours.weights, ours.pool, ours.window) == (node.weights, node.pool, node.window)
        return same and ours.shape == node.shape

    def _unlike(self, node: Node, unit: int) -> int:
        """Return the number of a node's readers whose weights no reader of the unit has."""
        after = {self._units[reader].weights for reader in bits(self.graph.successors[unit])}
        return sum(reader.weights not in after for reader in self._readers.get(node.name, ()))

    def _is_part(self, node: Node, unit: int) -> bool:
        ours = self._units[unit]
        if len(ours.weights) != 1 or ours.shape[1:] != node.shape[1:]:
            return False
        (_, inputs, *window), (_, their_inputs, *whole) = ours.weights[0], node.weights[0]
        held = all(extent <= most for extent, most in zip(window, whole, strict=True))
        return inputs == their_inputs and held

    def _merged(
        self, node: Node, free: Sequence[int], chosen: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        """Yield tuples of units whose concatenated channels are the node's."""
        begin = sum(self._units[unit].shape[0] for unit in chosen)
        if len(chosen) == node.parts:
            windows = zip(*(self._units[unit].weights[0][2:] for unit in chosen), strict=True)
            if begin == node.shape[0] and tuple(map(max, windows)) == node.weights[0][2:]:
                yield chosen
            return
        borders = self._borders.get(node.name, set[int]())
        for unit in free:
            end = begin + self._units[unit].shape[0]
            inside = any(begin < border < end for border in borders)
            if unit not in chosen and end <= node.shape[0] and not inside:
                yield from self._merged(node, free, (*chosen, unit))

    def _reason(self, node: Node) -> str:
        beside = [
            f"{self.graph.operators[unit].name!r} to {'x'.join(map(str, self._units[unit].shape))}"
            for unit in self._beside(node)[:4]
        ]
        near = f"; what reads the same is {', '.join(beside)}" if beside else ""
        return f"{node} is no unit of {self.graph.name}{near}"


def _described(graph: OpGraph, unit: int) -> _Unit:
    op = graph.operators[unit]
    kinds = op.kind.split("+")
    pool = next((_POOLS[kind] for kind in kinds if kind in _POOLS), "")
    shape = graph.tensors[op.outputs[0]].shape[1:]
    is_window = pool in ("max", "avg")
    return _Unit(
        tuple(
            tensor.shape
            for tensor in map(graph.tensors.__getitem__, op.inputs)
            if tensor.constant and len(tensor.shape) == 4 and "conv2d" in kinds
        ),
        pool,
        (*_pair(op.attrs, "kernel"), *_pair(op.attrs, "strides")) if is_window else (),
        (*shape, *(1,) * (3 - len(shape))),
    )


def _pair(attrs: Mapping[str, AttrValue], key: str) -> tuple[int, ...]:
    value = attrs.get(key)
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()
