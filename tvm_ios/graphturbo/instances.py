"""Sub-graphs split into instances, and the dependences between these (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.clock import OutOfTimeError
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.graphturbo.box import Box, intersects
from tvm_ios.graphturbo.footprint import PartialWork, entries, exits, nbytes, part_of, whole_part
from tvm_ios.graphturbo.grouping import SubGraph
from tvm_ios.graphturbo.layers import Layers


@dataclass(frozen=True, slots=True)
class Instance:
    """One part of a sub-graph."""

    #: Its place among the sub-graphs.
    subgraph: int
    #: Its number among the instances of this sub-graph.
    part: int
    #: The box that it makes of each output of the sub-graph; no other instance makes it.
    owned: Mapping[int, Box]
    #: The box that it reads of each tensor from outside, inputs of the graph included.
    needs: Mapping[int, Box]
    #: All elements that it computes, its footprint and FLOPs.
    work: PartialWork


@dataclass(frozen=True)
class Instances:
    """All instances of a graph's layers, sub-graph by sub-graph, in breadth-first order."""

    layers: Layers
    subgraphs: tuple[SubGraph, ...]
    instances: tuple[Instance, ...]

    def __len__(self) -> int:
        return len(self.instances)

    @cached_property
    def makers(self) -> Mapping[int, tuple[int, ...]]:
        """For each tensor between sub-graphs the instances that make its pieces."""
        makers: dict[int, list[int]] = {}
        for number, instance in enumerate(self.instances):
            for tensor in instance.owned:
                makers.setdefault(tensor, []).append(number)
        return {tensor: tuple(numbers) for tensor, numbers in makers.items()}

    def sources(self, instance: int, tensor: int) -> tuple[int, ...]:
        """Return the instances whose pieces of a tensor an instance reads.

        An edge of the sub-graphs that no element crosses between two instances is redundant.
        """
        need = self.instances[instance].needs[tensor]
        makers = self.makers.get(tensor, ())
        split = self.subgraphs[self.instances[makers[0]].subgraph].split if makers else None
        if split is not None:
            # Parts follow each other along an axis, all as long as the first but for the last ones.
            axis = split.axes[tensor]
            begin, end = self.instances[makers[0]].owned[tensor][axis]
            first, last = need[axis][0] // (end - begin), -(-need[axis][1] // (end - begin))
            makers = makers[first:last]
        return tuple(
            maker for maker in makers if intersects(self.instances[maker].owned[tensor], need)
        )

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each instance the bit set of those that it reads from."""
        return tuple(
            mask_of(maker for tensor in instance.needs for maker in self.sources(number, tensor))
            for number, instance in enumerate(self.instances)
        )

    @cached_property
    def redundant(self) -> int:
        """The number of dependences of sub-graphs, instance by instance, that were eliminated."""
        inherited = sum(
            len({maker for tensor in i.needs for maker in self.makers.get(tensor, ())})
            for i in self.instances
        )
        return inherited - sum(mask.bit_count() for mask in self.predecessors)

    @cached_property
    def as_graph(self) -> OpGraph:
        """Instances as operators on pieces of tensors, for functions that order operators.

        Inputs of the graph lie in global memory and take no room.
        """
        layers = self.layers
        tensors: list[Tensor] = []
        pieces: dict[tuple[int, int], int] = {}
        operators: list[Operator] = []
        for number, instance in enumerate(self.instances):
            read = tuple(
                pieces[tensor, maker]
                for tensor in instance.needs
                for maker in self.sources(number, tensor)
            )
            for tensor, box in instance.owned.items():
                pieces[tensor, number] = len(tensors)
                name = f"{layers.graph.tensors[tensor].name}.{instance.part}"
                tensors.append(Tensor(name, (nbytes(layers, tensor, box),), "uint8"))
            written = tuple(pieces[tensor, number] for tensor in instance.owned)
            name = f"{instance.subgraph}.{instance.part}"
            operators.append(Operator(name, "instance", read, written))
        outputs = tuple(n for (t, _), n in pieces.items() if t in layers.graph.outputs)
        return OpGraph(layers.graph.name, tuple(operators), tuple(tensors), (), outputs)

    @cached_property
    def scratch(self) -> Mapping[int, int]:
        """For each instance the bytes of its peak beyond the pieces that it reads and makes."""
        graph = self.as_graph
        touched = (
            sum(graph.tensors[t].nbytes for t in (*op.inputs, *op.outputs))
            for op in graph.operators
        )
        return {
            number: max(0, instance.work.peak - pieces)
            for number, (instance, pieces) in enumerate(zip(self.instances, touched, strict=True))
        }


def split_into_instances(
    layers: Layers,
    subgraphs: Sequence[SubGraph],
    report: Callable[[int, int], bool] = lambda _done, _total: True,
) -> Instances:
    """Split every sub-graph by its :class:`Split`; one that does not fit is one instance.

    The sub-graphs partition the layers in topological order, as :func:`tvm_ios.graphturbo.group`
    makes them. ``report`` is called with the number of instances made, and of all; if it returns
    False, OutOfTimeError is raised.
    """
    instances: list[Instance] = []
    total = sum(subgraph.factor for subgraph in subgraphs)
    for number, subgraph in enumerate(subgraphs):
        read = entries(layers, subgraph.layers)
        for part in range(subgraph.factor):
            if not report(len(instances), total):
                raise OutOfTimeError(f"not splitting into {total} instances: the time was over")
            if subgraph.split is None:
                work = whole_part(layers, subgraph.layers)
                owned = {t: work.boxes[t] for t in exits(layers, subgraph.layers)}
            else:
                owned = subgraph.split.owned(layers.graph, part)
                work = part_of(layers, subgraph.layers, owned)
            needs = {t: work.boxes[t] for t in read if t in work.boxes}
            instances.append(Instance(number, part, owned, needs, work))
    return Instances(layers, tuple(subgraphs), tuple(instances))
