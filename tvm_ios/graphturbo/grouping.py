"""Growth of sub-graphs while their split still uses the local buffer well (Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.footprint import entries, exits
from tvm_ios.graphturbo.split_info import Split, Splitter

#: The factor of sub-graphs that cannot be split.
_NEVER = (True, math.inf)
_UP_SAMPLING = frozenset({"resize2d", "conv2d_transpose"})


@dataclass(frozen=True, slots=True)
class SubGraph:
    """A coarse sub-graph: the bit set of its layers, and its split into instances.

    ``split`` is None if even the smallest parts do not fit the local buffer.
    """

    layers: int
    split: Split | None

    @property
    def factor(self) -> int:
        """The number of instances."""
        return 1 if self.split is None else self.split.factor


def group(splitter: Splitter) -> tuple[SubGraph, ...]:
    """Partition a graph into coarse sub-graphs, in topological order (Algorithm 2).

    The layers are the first sub-graphs. Straight, diamond and branch patterns are merged, round by
    round, until no merge is allowed.
    """
    grouping = _Grouping(splitter)
    while True:
        before = len(grouping.masks)
        grouping.merge_straight()
        grouping.merge_diamonds()
        grouping.merge_branches()
        if len(grouping.masks) == before:
            return tuple(SubGraph(mask, splitter.best(mask)) for mask in grouping.in_order())


class _Grouping:
    """The sub-graphs so far; sub-graphs are named by their bit sets of layers."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter
        self._layers = splitter.layers
        self._owner = [1 << layer for layer in range(len(splitter.layers))]
        self.masks = set(self._owner)

    def in_order(self) -> list[int]:
        """Return the sub-graphs, each after those that it reads from."""
        order: list[int] = []
        left = sorted(self.masks, key=lambda mask: mask & -mask)
        done = 0
        while left:
            for mask in left:
                if not any(source & ~done for source in self._producers(mask)):
                    order.append(mask)
                    done |= mask
                    left.remove(mask)
                    break
            else:
                raise AssertionError("sub-graphs depend on each other in a circle")
        return order

    def merge_straight(self) -> None:
        """Merge pairs of which each is the other's only producer or consumer (figure 4a)."""
        for second in self._present():
            producers = self._producers(second)
            if len(producers) == 1 and self._consumers(producers[0]) == [second]:
                self._merge_pair(producers[0], second)

    def merge_branches(self) -> None:
        """Merge into a sub-graph with several producers those that feed only it (figure 4c)."""
        for exit_ in self._present():
            producers = self._producers(exit_)
            if len(producers) < 2:
                continue
            for producer in producers:
                if self._consumers(producer) == [exit_]:
                    exit_ = self._merge_pair(producer, exit_)

    def merge_diamonds(self) -> None:
        """Merge all between one entry and one exit into the exit (figure 4b, rule (ii))."""
        for exit_ in self._present():
            parts = self._diamond(exit_)
            if parts is None:
                continue
            merged = self._union(parts)
            if self._factor(merged) <= max(map(self._factor, parts)) < _NEVER:
                self._replace(parts, merged)

    def _present(self) -> Iterator[int]:
        """Yield the sub-graphs in order, without those that have been merged since."""
        for mask in self.in_order():
            # A sub-graph that has grown since is yielded in its present form.
            if mask in self.masks:
                yield mask
            elif (grown := self._owner[mask.bit_length() - 1]) in self.masks and (
                grown.bit_length() == mask.bit_length()
            ):
                yield grown

    def _merge_pair(self, first: int, second: int) -> int:
        """Merge two sub-graphs if rule (i) allows it; return the one that holds the second."""
        merged = first | second
        low, high = self._factor(first), self._factor(second)
        if self._grows(first, second):
            # Section 3.6: where tensors grow, the parts of the producer must stay large.
            low, high = high, low
        if low <= high and self._factor(merged) <= high and high < _NEVER:
            self._replace([first, second], merged)
            return merged
        return second

    def _factor(self, mask: int) -> tuple[bool, float]:
        """Return whether even the best parts spill, and their number, to compare sub-graphs by.

        Sub-graphs that fit are never merged into one that spills.
        """
        split = self._splitter.best(mask)
        return _NEVER if split is None else (not self._splitter.fits(split), split.factor)

    def _grows(self, first: int, second: int) -> bool:
        """Return whether the second enlarges the images that it reads from the first."""
        layers, graph = self._layers, self._layers.graph
        kinds = {graph.operators[op].kind for n in bits(second) for op in layers.members[n]}
        if not kinds & _UP_SAMPLING:
            return False
        read = [t for t in entries(layers, second) if t in exits(layers, first)]
        pixels = [math.prod(graph.tensors[t].shape[2:]) for t in (*exits(layers, second), *read)]
        return max(pixels[: -len(read)], default=0) > max(pixels[-len(read) :], default=0)

    def _diamond(self, exit_: int) -> list[int] | None:
        """Return the sub-graphs between the nearest single entry and an exit, the exit included.

        Return None if there is no such diamond.
        """
        producers = self._producers(exit_)
        if len(producers) < 2:
            return None
        inside = {exit_}
        while True:
            # Take in the latest producer until only one is left outside.
            outside = {p for part in inside for p in self._producers(part)} - inside
            if len(outside) < 2:
                break
            latest = max(outside)
            if not set(self._consumers(latest)) <= inside:
                return None
            inside.add(latest)
        reads_inputs = any(
            self._layers.maker(t) is None for part in inside for t in entries(self._layers, part)
        )
        if len(outside) != 1 or reads_inputs or len(inside) < 2:
            return None
        return sorted(inside)

    def _producers(self, mask: int) -> list[int]:
        producers = 0
        for layer in bits(mask):
            producers |= self._layers.predecessors[layer]
        return self._owners(producers & ~mask)

    def _consumers(self, mask: int) -> list[int]:
        consumers = 0
        for layer in bits(mask):
            consumers |= self._layers.successors[layer]
        return self._owners(consumers & ~mask)

    def _owners(self, layers: int) -> list[int]:
        return sorted({self._owner[layer] for layer in bits(layers)})

    def _union(self, parts: list[int]) -> int:
        merged = 0
        for part in parts:
            merged |= part
        return merged

    def _replace(self, parts: list[int], merged: int) -> None:
        self.masks.difference_update(parts)
        self.masks.add(merged)
        for layer in bits(merged):
            self._owner[layer] = merged
