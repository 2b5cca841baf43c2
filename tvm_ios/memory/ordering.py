"""Orders of any operators with the least peak memory, and the lifetimes that an order gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_ios.errors import nearest
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import mask_of
from tvm_ios.graph.topological import topological_order
from tvm_ios.memory.arena import blocks_of
from tvm_ios.memory.buffers import Buffers, TensorBuffer
from tvm_ios.memory.footprint import Footprints, check_order
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.planning import Buffer
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of any graph.

    Attributes
    ----------
    name
        Its name, for messages and files.
    inputs, outputs
        The names of the tensors that it reads and makes.
    scratch
        Bytes that it needs while it runs, beside them.
    over
        Inputs that its only result may be written over, if no node reads them later.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: int = 0
    over: tuple[str, ...] = ()


class TensorGraph:
    """Nodes and the sizes of their tensors, as a problem that memory schedulers solve.

    Parameters
    ----------
    nodes
        The operators, in any order.
    sizes
        Bytes of tensors by name. Others, such as weights, take none. Those that no node makes are
        inputs of the graph, which are live from its start to their last reader.
    outputs
        The names of the graph's outputs, which are live to its end.
    views
        Tensors that lie in the memory of others: views, and parts of a concatenation.

    Raises
    ------
    GraphError
        If two nodes make one tensor, or nodes wait for each other.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        sizes: Mapping[str, int],
        outputs: Sequence[str],
        views: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes, self.sizes = tuple(nodes), sizes
        self.outputs, self.views = tuple(outputs), views or {}
        self._maker: dict[str, int] = {}
        for number, node in enumerate(nodes):
            for output in node.outputs:
                if self._maker.setdefault(output, number) != number:
                    first = nodes[self._maker[output]].name
                    raise GraphError(f"nodes {first!r} and {node.name!r} both make {output!r}")
        known = self._maker.keys() | sizes.keys()
        for output in outputs:
            if output not in known:
                raise GraphError(f"no node makes the output {output!r}{nearest(output, known)}")
        sources = [{self._maker[t] for t in node.inputs if t in self._maker} for node in self.nodes]
        self._sorted = topological_order(sources, range(len(nodes)))
        if len(self._sorted) < len(nodes):
            waiting = min(set(range(len(nodes))) - set(self._sorted))
            raise GraphError(f"node {nodes[waiting].name!r} waits for its own results")
        self._place = place = {node: number for number, node in enumerate(self._sorted)}
        self._predecessors = tuple(
            mask_of(place[source] for source in sources[node]) for node in self._sorted
        )

    def _home(self, tensor: str) -> str:
        seen = {tensor}
        while (tensor := self.views.get(tensor, tensor)) in self.views:
            if tensor in seen:
                raise GraphError(f"tensor {tensor!r} lies in itself")
            seen.add(tensor)
        return tensor

    @cached_property
    def _buffers(self) -> dict[str, TensorBuffer]:
        """The buffers by the names of the tensors that they are made for."""
        writers: dict[str, int] = {}
        users: dict[str, int] = {}
        start, end = set[str](), {self._home(output) for output in self.outputs}
        for number, node in enumerate(self._sorted):
            for tensor in self.nodes[node].outputs:
                home = self._home(tensor)
                writers[home] = writers.get(home, 0) | 1 << number
                users[home] = users.get(home, 0) | 1 << number
            for tensor in self.nodes[node].inputs:
                home = self._home(tensor)
                users[home] = users.get(home, 0) | 1 << number
        for tensor in self.sizes:
            if tensor not in self._maker:
                start.add(self._home(tensor))
        return {
            tensor: TensorBuffer(
                size, writers.get(tensor, 0), users.get(tensor, 0), tensor in start, tensor in end
            )
            for tensor, size in self.sizes.items()
            if tensor not in self.views and (tensor in users or (tensor in start & end))
        }

    @cached_property
    def problem(self) -> MemoryProblem:
        """The problem, whose operators are the nodes in topological order."""
        number = {tensor: n for n, tensor in enumerate(self._buffers)}
        shared = {self._home(view) for view in self.views}
        takes: list[tuple[int, ...]] = []
        for node in (self.nodes[n] for n in self._sorted):
            result = node.outputs[0] if len(node.outputs) == 1 else ""
            takes.append(
                tuple(
                    number[tensor]
                    for tensor in node.over
                    if tensor in node.inputs
                    and tensor in number
                    and result in number
                    and not {tensor, result} & shared
                    and self.sizes[tensor] == self.sizes[result]
                    and not self._buffers[tensor].at_end
                )
            )
        scratch = tuple(self.nodes[n].scratch for n in self._sorted)
        buffers = Buffers(tuple(self._buffers.values()), tuple(takes))
        return MemoryProblem(self._predecessors, buffers, scratch)

    def footprints(self, order: Sequence[int]) -> Footprints:
        """Return the bytes of an order of nodes; raise OrderError if it is none of the graph."""
        return self.problem.footprints(self._checked(order))

    def peak(self, order: Sequence[int]) -> int:
        """Return the peak of an order of nodes; raise OrderError if it is none of the graph."""
        return self.footprints(order).peak

    def lifetimes(self, order: Sequence[int]) -> tuple[Buffer, ...]:
        """Return the buffers of an order of nodes; raise OrderError if it is none of the graph.

        A result that is written over an input has no buffer of its own. The traffic of each is
        counted as if nodes read and wrote each of their tensors once.
        """
        blocks = blocks_of(self.problem, self._checked(order))
        number = {tensor: block for block, tensor in enumerate(self._buffers)}
        names, traffic = list(self._buffers), [0] * len(blocks.homes)
        for node in map(self.nodes.__getitem__, self._sorted):
            for tensor in (*node.inputs, *node.outputs):
                if (home := self._home(tensor)) in number:
                    traffic[blocks.homes[number[home]]] += self.sizes.get(tensor, 0)
            if node.scratch:
                traffic[len(names)] += 2 * node.scratch
                names.append(f"{node.name}.scratch")
        return tuple(
            Buffer(
                names[b], blocks.first[b], blocks.last[b] + 1, blocks.sizes[b], traffic=traffic[b]
            )
            for b in blocks.distinct
        )

    def _checked(self, order: Sequence[int]) -> list[int]:
        placed = [self._place.get(node, -1) for node in order]
        check_order(self._predecessors, placed, [self.nodes[node].name for node in self._sorted])
        return placed

    def unsorted(self, operators: Sequence[int]) -> tuple[int, ...]:
        """Return numbers of nodes, from the problem's numbers of them."""
        return tuple(self._sorted[number] for number in operators)


def order(
    graph: TensorGraph,
    *,
    scheduler: str = "optimal",
    time_limit: float = 30.0,
    options: SchedulerOptions = DEFAULT,
) -> MemoryOrder:
    """Return an order of a graph's nodes with a small peak memory, proven least if it says so.

    Parameters
    ----------
    graph
        The nodes and the sizes of their tensors.
    scheduler
        One of ``rpo``, ``serenity``, ``hmcos``, ``fusion-ilp`` and ``optimal``.
    time_limit
        Seconds of the clock.
    options
        Those of single schedulers.
    """
    found = MEMORY_SCHEDULERS[scheduler](graph.problem, time_limit, options)
    return replace(found, order=graph.unsorted(found.order))
