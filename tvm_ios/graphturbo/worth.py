"""A prediction of which sub-graphs a CPU gains from splitting, by where their tensors lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.footprint import PartialWork, entries, exits, nbytes, part_of, whole_part
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.layers import Layers
from tvm_ios.graphturbo.split_info import Splitter

#: Kernel overheads of a layer on all lanes: they begin it, and wait for each other after it.
_STARTS = 2
#: Bytes moved for each byte written: a cache line is fetched first, and written back later.
_WRITES = 2
#: The part of a cache that tensors may fill: streamed data, weights and others take room too.
_USABLE = 0.5
#: Predictions within this factor count as equal: the model ignores copies and kernels' differences.
_UNSURE = 1.05


@dataclass(frozen=True)
class Worth:
    """A model of the seconds of sub-graphs on the lanes of a CPU, which are its cores.

    A layer takes the time of its arithmetic at the peak and that of its traffic, one after the
    other: kernels prefetch no data, and a core looks some hundred instructions ahead. (Of weights
    they prefetch the next block, where pixels are many; that is not counted.) The tensors that a
    layer reads and makes come from the fastest memory that holds them all, of all lanes together:
    the lanes' own caches, the shared one, or main memory; those that a split sub-graph reads and
    makes lie where the whole tensors have room. Every lane reads all weights of a layer, and reads
    them again for each of its instances, from the shared cache if those of the whole graph fit it.
    """

    layers: Layers
    device: MemoryHierarchy

    def together(self, subgraph: int) -> float:
        """Return the seconds of some layers one after another, each on all lanes."""
        seconds = 0.0
        for layer, flops, boxes in self._steps(subgraph, whole_part(self.layers, subgraph)):
            rate = self._rate(self._footprint(boxes))
            seconds += self._seconds(layer, flops, boxes, dict.fromkeys(boxes, rate), 1)
            seconds += _STARTS * self.device.kernel_overhead
        return seconds

    def apart(self, subgraph: SubGraph) -> float:
        """Return the seconds of a split sub-graph whose instances run each on one lane.

        Neighbouring instances run on the same lane.
        """
        assert subgraph.split is not None
        lanes, factor, mask = self.device.cores, subgraph.factor, subgraph.layers
        graph = self.layers.graph
        border = {
            t: self._rate(graph.tensors[t].nbytes)
            for t in (*entries(self.layers, mask), *exits(self.layers, mask))
        }
        busy = [0.0] * lanes
        for number in range(factor):
            work = part_of(self.layers, mask, subgraph.split.owned(graph, number))
            for layer, flops, boxes in self._steps(mask, work):
                rates = dict.fromkeys(boxes, self._rate(self._footprint(boxes) * lanes))
                seconds = self._seconds(layer, flops, boxes, rates | border, lanes)
                busy[number * lanes // factor] += seconds + self.device.kernel_overhead
        return max(busy)

    def _steps(
        self, subgraph: int, work: PartialWork
    ) -> Iterator[tuple[int, float, Mapping[int, Box]]]:
        """Yield the layers, their FLOPs, and the boxes that they read and make."""
        for layer in bits(subgraph):
            written = {t: work.boxes[t] for t in self.layers.outputs[layer] if t in work.boxes}
            if written:
                read, flops = self.layers.needs(layer, written)
                yield layer, flops, {**read, **written}

    def _footprint(self, boxes: Mapping[int, Box]) -> int:
        return sum(nbytes(self.layers, tensor, box) for tensor, box in boxes.items())

    def _seconds(
        self,
        layer: int,
        flops: float,
        boxes: Mapping[int, Box],
        rates: Mapping[int, float],
        fraction: int,
    ) -> float:
        """Return the seconds of a layer on one of ``fraction`` equal parts of the lanes."""
        outputs = self.layers.outputs[layer]
        traffic = sum(
            nbytes(self.layers, t, box) * (_WRITES if t in outputs else 1) / rates[t]
            for t, box in boxes.items()
        )
        weights = self.layers.weight_bytes[layer] * self.device.cores / self._weights_rate
        return (flops / self.device.peak_flops + traffic) * fraction + weights

    @cached_property
    def _weights_rate(self) -> float:
        return self._rate(sum(self.layers.weight_bytes), self.device.global_bandwidth)

    def _rate(self, footprint: int, most: float = math.inf) -> float:
        """Return the bytes a second of all lanes for data that take ``footprint`` bytes in them."""
        device = self.device
        if footprint <= _USABLE * device.cluster_local_buffer:
            return min(most, device.local_bandwidth)
        if footprint <= _USABLE * device.global_buffer:
            return min(most, device.global_bandwidth)
        return min(most, device.memory_bandwidth)


@dataclass(frozen=True, slots=True)
class Choice:
    """Sub-graphs of which only those are split that are predicted to gain from it.

    They are in topological order. ``layer_by_layer`` and ``seconds`` are predicted for all layers
    without and with the splits.
    """

    subgraphs: tuple[SubGraph, ...]
    layer_by_layer: float
    seconds: float

    @property
    def splits(self) -> int:
        """The number of sub-graphs that are split."""
        return sum(subgraph.split is not None for subgraph in self.subgraphs)


def choose_subgraphs(
    splitters: Sequence[Splitter],
    device: MemoryHierarchy,
    report: Callable[[int, int], bool] = lambda _done, _total: True,
) -> Choice:
    """Return the plainest of the best partitions of a graph for a CPU's lanes, by :class:`Worth`.

    Of those that are predicted to take about the least time, it is the one that splits the fewest
    sub-graphs: at the border of each, lanes join what they made, and wait. The splitters have
    different capacities: a small instance lives in faster memory, a large one reads weights and the
    rows at its borders less often. ``report`` is called with the number of splitters tried, and of
    all; no more are tried once it returns False.
    """
    choices: list[Choice] = []
    for done, splitter in enumerate(splitters, 1):
        choices.append(_choose(splitter, device))
        if not report(done, len(splitters)):
            break
    choices.append(_unsplit(choices[0]))
    enough = _UNSURE * min(choice.seconds for choice in choices)
    good = (choice for choice in choices if choice.seconds <= enough)
    return min(good, key=lambda choice: (choice.splits, choice.seconds))


def _unsplit(choice: Choice) -> Choice:
    whole = tuple(replace(subgraph, split=None) for subgraph in choice.subgraphs)
    return Choice(whole, choice.layer_by_layer, choice.layer_by_layer)


def _choose(splitter: Splitter, device: MemoryHierarchy) -> Choice:
    worth = Worth(splitter.layers, device)
    subgraphs: list[SubGraph] = []
    before = after = 0.0
    for subgraph in group(splitter):
        together = worth.together(subgraph.layers)
        apart = math.inf
        if subgraph.factor >= max(2, device.cores):
            apart = worth.apart(subgraph)
        before += together
        after += min(apart, together)
        subgraphs.append(subgraph if apart < together else replace(subgraph, split=None))
    return Choice(tuple(subgraphs), before, after)


def lane_capacities(device: MemoryHierarchy) -> Sequence[int]:
    """Return sizes of instances to try: from a lane's own cache to its share of the shared one."""
    share = int(_USABLE * device.global_buffer) // device.cores
    least = min(int(_USABLE * device.local_buffer), share)
    return [least << i for i in range((share // least).bit_length())]
