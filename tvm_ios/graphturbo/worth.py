"""Which sub-graphs a CPU gains from splitting: a model of time from where tensors lie."""

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

#: All lanes begin a layer that they share, and wait for each other after it.
_STARTS = 2
#: A cache line is fetched before it is written, and written back later.
_WRITES = 2
#: Of a cache a tensor may count on this part: what streams through, weights and others take it too.
_USABLE = 0.5
#: Predictions this far apart may be equal: the model knows neither copies nor how kernels differ.
_UNSURE = 1.05


@dataclass(frozen=True)
class Worth:
    """Predicted seconds of sub-graphs on the lanes of a CPU.

    A layer takes the time of its arithmetic at the peak and that of its traffic, one after the
    other: kernels prefetch no data, and a core looks some hundred instructions ahead. (Of weights
    they prefetch the next block, where pixels are many; that is not counted.) What a layer
    reads and makes comes from where all of that has room, of all lanes together: the lanes' own
    caches, the shared one, or main memory; what a split sub-graph reads and makes lies where the
    whole tensors have room. Every lane reads all weights of a layer, and reads them again for each
    of its instances, from the shared cache if those of the whole graph fit it.

    Attributes
    ----------
    layers
        The layers of the graph.
    device
        The CPU; its cores are the lanes.
    """

    layers: Layers
    device: MemoryHierarchy

    def together(self, subgraph: int) -> float:
        """Seconds of some layers one after another, each on all lanes.

        Parameters
        ----------
        subgraph
            Bit set of layers.
        """
        seconds = 0.0
        for layer, flops, boxes in self._steps(subgraph, whole_part(self.layers, subgraph)):
            rate = self._rate(self._footprint(boxes))
            seconds += self._seconds(layer, flops, boxes, dict.fromkeys(boxes, rate), 1)
            seconds += _STARTS * self.device.kernel_overhead
        return seconds

    def apart(self, subgraph: SubGraph) -> float:
        """Seconds of a sub-graph whose instances run each on one lane, neighbours on the same.

        Parameters
        ----------
        subgraph
            A sub-graph that has a split.
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
        """The layers, their FLOPs, and the boxes that they read and make."""
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
        """Seconds of a layer on a fraction of the lanes, of so many equal ones."""
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
        """Bytes a second, all lanes together, of what takes so many bytes in all lanes."""
        device = self.device
        if footprint <= _USABLE * device.cluster_local_buffer:
            return min(most, device.local_bandwidth)
        if footprint <= _USABLE * device.global_buffer:
            return min(most, device.global_bandwidth)
        return min(most, device.memory_bandwidth)


@dataclass(frozen=True, slots=True)
class Choice:
    """Sub-graphs of which only those are split that are predicted to gain from it.

    Attributes
    ----------
    subgraphs
        The sub-graphs in topological order.
    layer_by_layer, seconds
        Predicted, of all layers without and with the splits.
    """

    subgraphs: tuple[SubGraph, ...]
    layer_by_layer: float
    seconds: float

    @property
    def splits(self) -> int:
        """How many sub-graphs are split."""
        return sum(subgraph.split is not None for subgraph in self.subgraphs)


def choose_subgraphs(
    splitters: Sequence[Splitter],
    device: MemoryHierarchy,
    report: Callable[[int, int], bool] = lambda _done, _total: True,
) -> Choice:
    """The plainest of the best partitions of a graph for a CPU's lanes, by :class:`Worth`.

    Of those that are predicted to take about the least time, the one that splits the fewest
    sub-graphs: at the border of each, lanes join what they made, and wait.

    Parameters
    ----------
    splitters
        Splitters of one graph with different capacities: a small instance lives in faster memory,
        a large one reads weights and the rows at its borders less often.
    device
        The CPU.
    report
        Called with how many splitters were tried, and of how many; none is tried after it has
        given False.
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
    """Bytes of an instance that are worth trying: of a lane's own cache, to its share of all."""
    share = int(_USABLE * device.global_buffer) // device.cores
    least = min(int(_USABLE * device.local_buffer), share)
    return [least << i for i in range((share // least).bit_length())]
