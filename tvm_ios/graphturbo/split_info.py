"""Ways to split a sub-graph so that a part fits the local buffer (Algorithm 1, equation 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graphturbo.box import Box, share
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import PartialWork, exits, part_of, whole_part
from tvm_ios.graphturbo.layers import Layers
from tvm_ios.graphturbo.rows import cuts_rows


@dataclass(frozen=True, slots=True)
class Split:
    """A way to cut a sub-graph into parts: an element of SplitInfo."""

    #: The number of parts (f_d); 1 if the whole sub-graph fits.
    factor: int
    #: The number of the sub-graph's operators that it cuts (n_d).
    operators: int
    #: The axis of the output that is cut, from 0 (d).
    axis: int
    #: For each output of the sub-graph the axis that is cut.
    axes: Mapping[int, int]
    #: Bytes of the largest part of those that were computed.
    peak: int

    def owned(self, graph: OpGraph, part: int) -> dict[int, Box]:
        """Return the elements of each output that a part makes; no element is made by two parts."""
        return {
            tensor: share(graph.tensors[tensor].shape, axis, part, self.factor)
            for tensor, axis in self.axes.items()
        }


@dataclass(frozen=True)
class Splitter:
    """A splitter of sub-graphs of one graph by Algorithm 1 and equation 1."""

    #: The nodes of the graph.
    layers: Layers
    #: Bytes of the local buffer that a part may take.
    capacity: int
    #: The cores of a cluster: so many parts can run side by side, so that smaller factors are tried
    #: as powers of two, for balance.
    cores: int = 8
    #: The largest share of a sub-graph's work that its parts may do again where they overlap.
    recomputation: float = 0.1
    #: The axes of outputs that may be cut, or None for any: 0, the batch, whose parts are the same
    #: computation, and 2, the rows of images, of operators that :func:`cuts_rows` accepts.
    axes: tuple[int, ...] | None = None
    #: The fewest parts of a sub-graph, even if fewer would fit.
    least_factor: int = 1
    #: Whether parts that do not fit run nevertheless, because a cache holds what it can: where none
    #: fits, the smallest are taken.
    spills: bool = False

    @cached_property
    def dimensions(self) -> Dimensions:
        """The loop dimensions of the graph."""
        return Dimensions(self.layers.graph)

    @cached_property
    def _best(self) -> dict[int, Split | None]:
        return {}

    def best(self, subgraph: int) -> Split | None:
        """Return the split that equation 1 prefers, or None if no part fits.

        It prefers the most operators cut, then the smallest factor, then the outermost axis; a
        split whose parts fit comes before any that spills.
        """
        if subgraph not in self._best:
            splits = self.split_info(subgraph, only_the_best=True)
            self._best[subgraph] = max(splits, key=self._preference, default=None)
        return self._best[subgraph]

    def split_info(self, subgraph: int, only_the_best: bool = False) -> list[Split]:
        """Return SplitInfo of a sub-graph (Algorithm 1), for each of its outputs (section 3.6).

        It holds the least factor of each axis whose parts fit, are equal, and do not compute too
        much again. The algorithm divides the whole footprint by the factor; here the footprints of
        the parts are worked out, which differ where windows overlap. With ``only_the_best``, splits
        that cannot be preferred to those found already are left out.
        """
        complete = whole_part(self.layers, subgraph)
        least = max(self.least_factor, -(-complete.peak // self.capacity))
        candidates = [
            (self._operators_cut(subgraph, dimension), -axis, output, dimension)
            for output in exits(self.layers, subgraph)
            for axis, dimension in enumerate(self.dimensions.of(output))
        ]
        splits: list[Split] = []
        for operators, minus_axis, _, dimension in sorted(candidates, reverse=True):
            axes = self._axes(subgraph, dimension)
            if axes is None:
                continue
            if only_the_best and any(map(self.fits, splits)):
                best = max(splits, key=self._preference)
                if operators < best.operators or best.factor <= self._first_from(least):
                    break
            split = self._least(subgraph, complete, operators, -minus_axis, axes)
            if split is not None:
                splits.append(split)
        return splits

    def fits(self, split: Split) -> bool:
        """Return whether the parts of a split fit the local buffer."""
        return split.peak <= self.capacity

    def _least(
        self,
        subgraph: int,
        complete: PartialWork,
        operators: int,
        axis: int,
        axes: Mapping[int, int],
    ) -> Split | None:
        factors = [f for f in self._factors(axes) if f >= self.least_factor]
        for factor in factors:
            if complete.peak > self.capacity * factor:
                continue
            split = self._split(subgraph, complete, Split(factor, operators, axis, axes, 0))
            if split is None or self.fits(split):
                return split
        if not self.spills or not factors:
            return None
        return self._split(subgraph, complete, Split(factors[-1], operators, axis, axes, 0))

    def _split(self, subgraph: int, complete: PartialWork, split: Split) -> Split | None:
        """Return the split with its peak, or None if its parts compute too much again."""
        if split.factor == 1:
            return replace(split, peak=complete.peak)
        parts = self._sample(subgraph, split)
        middle = max(0, split.factor - len(parts))
        work = sum(part.flops for part in parts) + middle * parts[len(parts) // 2].flops
        if work > complete.flops * (1 + self.recomputation) + 1e-6:
            return None
        return replace(split, peak=max(part.peak for part in parts))

    def _sample(self, subgraph: int, split: Split) -> list[PartialWork]:
        """Return the first, a middle and the last part; those between are like the middle one."""
        graph = self.layers.graph
        places = dict.fromkeys((0, split.factor // 2, split.factor - 1))
        return [part_of(self.layers, subgraph, split.owned(graph, place)) for place in places]

    def _axes(self, subgraph: int, dimension: int) -> dict[int, int] | None:
        """Return the axis of every output along a dimension, or None if one cannot be cut."""
        axes: dict[int, int] = {}
        for tensor in exits(self.layers, subgraph):
            axis = self.dimensions.matching_axis(dimension, tensor)
            if axis is None or (self.axes is not None and axis not in self.axes):
                return None
            axes[tensor] = axis
        if self.axes is not None and any(axes.values()):
            members = self.layers.members
            operators = (op for layer in bits(subgraph) for op in members[layer])
            if not all(cuts_rows(self.dimensions, dimension, op) for op in operators):
                return None
        return axes

    def _factors(self, axes: Mapping[int, int]) -> list[int]:
        """Return the factors 1, 2, 4, ... up to the cores, then all, that cut every output evenly.

        The last part of rows may be smaller; then every core gets equally many parts.
        """
        extents = [self.layers.graph.tensors[t].shape[axis] for t, axis in axes.items()]
        values = self._values(min(extents))
        if self.axes is not None and all(axes.values()):
            return [
                v
                for v in values
                if (v < self.cores or v % self.cores == 0)
                and all(-(-n // v) * (v - 1) < n for n in extents)
            ]
        return [v for v in values if all(n % v == 0 for n in extents)]

    def _values(self, most: int) -> list[int]:
        powers = [1 << i for i in range(self.cores.bit_length()) if 1 << i <= self.cores]
        return [v for v in powers if v <= most] + list(range(powers[-1] + 1, most + 1))

    def _first_from(self, least: int) -> int:
        """Return the smallest factor that is ever tried and at least so large."""
        return next(v for v in self._values(least + 2 * self.cores) if v >= least)

    def _operators_cut(self, subgraph: int, dimension: int) -> int:
        graph = self.layers.graph
        return sum(
            any(
                self.dimensions.matching_axis(dimension, t) is not None
                for t in graph.operators[op].outputs
            )
            for layer in bits(subgraph)
            for op in self.layers.members[layer]
        )

    def _preference(self, split: Split) -> tuple[bool, int, int, int]:
        return self.fits(split), split.operators, -split.factor, -split.axis
