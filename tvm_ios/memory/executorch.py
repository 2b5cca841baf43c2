"""A memory planner for ExecuTorch: the order of operators with the least peak, and offsets.

It is the algorithm of ExecuTorch's ``MemoryPlanningPass``, which keeps all its options::

    planner = LeastMemory(time_limit=10)
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(planner))
    program = to_edge(exported).to_executorch(config)
    print(planner.plans)
"""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from types import MappingProxyType
from typing import Any

from executorch.exir.memory_planning import (
    get_node_tensor_specs,
    greedy,
    update_all_tensors_lifetime,
)
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec
from torch import fx

from tvm_ios.memory.exact.optimal import schedule_optimal
from tvm_ios.memory.executorch_steps import home_of, homes_of, steps_of
from tvm_ios.memory.planning import Bank, Buffer, plan

#: The share of the time limit that the search of an order may take.
_ORDERING = 0.5
#: Seconds that placing gets at least.
_LEAST_TIME = 0.1


@dataclass(frozen=True)
class PlannedGraph:
    """The arenas of one graph: of a method, or of a branch or body of its control flow.

    Attributes
    ----------
    arenas
        The bytes of each arena, by ``mem_id``; number 0 stands for constants, which take none.
    bound
        A lower bound of their sum, over every order of the operators if they may be moved.
    greedy
        The sum for ExecuTorch's greedy planner and the order as it was, with the same branches.
    reordered
        Whether operators were moved.
    kept_greedy
        Whether that plan of ExecuTorch's was kept, because none smaller was found in time.
    seconds
        The time that planning took.
    """

    arenas: tuple[int, ...]
    bound: int
    greedy: int
    reordered: bool
    kept_greedy: bool
    seconds: float

    @property
    def nbytes(self) -> int:
        """The bytes of all arenas."""
        return sum(self.arenas)

    @property
    def proven(self) -> bool:
        """Whether no plan takes fewer bytes."""
        return self.nbytes == self.bound


@dataclass(frozen=True)
class _Placement:
    """An order of nodes, the bytes of its arenas, and the arena and the offset of each tensor."""

    nodes: Sequence[fx.Node]
    arenas: Sequence[int]
    places: Mapping[Any, tuple[int, int]]
    #: The fewest bytes that any placement for this order takes; unknown for ExecuTorch's.
    bound: int = 0

    @property
    def nbytes(self) -> int:
        return sum(self.arenas)


class LeastMemory:
    """An algorithm for ``MemoryPlanningPass`` that takes as few bytes as it can find and prove.

    It moves operators to the order of the least peak, then gives tensors offsets; where the greedy
    planner of ExecuTorch takes fewer bytes, its plan is kept. Operators that write over a tensor
    stay between the same reads of it, those that draw random numbers stay in their order, and
    nothing is moved in a graph with tensors on several devices. The bytes of a branch or body of
    control flow lie, as ExecuTorch prescribes, below the tensors of the graph around it.

    Parameters
    ----------
    reorder
        Whether operators may be moved.
    banks
        The memories that the planner may fill, by the ``mem_id`` of their arenas; a tensor that a
        pass has put into an arena stays there. Of several banks those are taken that make all
        accesses the quickest, whatever the greedy planner does.
    time_limit
        About the seconds that planning one graph may take.

    Attributes
    ----------
    plans
        A record of each graph planned so far; branches come before the graph around them.
    """

    def __init__(
        self,
        *,
        reorder: bool = True,
        banks: Mapping[int, Bank] = MappingProxyType({1: Bank()}),
        time_limit: float = 30.0,
    ) -> None:
        self.reorder, self.banks, self.time_limit = reorder, dict(banks), time_limit
        self.plans: list[PlannedGraph] = []

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: fx.GraphModule,
        graph_signature: Any,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place tensors whose lifetimes are known, and return the bytes of each arena.

        Raises
        ------
        MemoryBudgetError
            If banks are too small.
        """
        begin = time.perf_counter()
        tensors: Any = list(specs)
        reserved = getattr(graph_module, "input_mem_buffer_sizes", None) or []
        arenas = _Arenas(tensors, reserved, extra_padding, alignment)
        given = list(graph_module.graph.nodes)
        _complete_lifetimes(given)
        # It aligns the sizes of tensors, too.
        theirs = greedy(alignment, tensors, graph_module, graph_signature, extra_padding)
        by_greedy = _Placement(
            given,
            [max(pair) for pair in zip_longest(theirs.bufsizes, reserved, fillvalue=0)],
            {spec: (at.mem_id, at.mem_offset) for spec, at in theirs.spec_dict.items()},
        )
        orders, bound = self._orders(graph_module.graph, arenas)
        one_bank = len(self.banks) == 1
        limited = any(bank.capacity is not None for bank in self.banks.values())
        # Where tensors have a choice of banks, bytes say little.
        placements = [by_greedy] if one_bank else []
        for tried, nodes in enumerate(orders):
            _arrange(graph_module, graph_signature, nodes)
            left = begin + self.time_limit - time.perf_counter()
            placed = arenas.place(nodes, self.banks, max(left / (len(orders) - tried), _LEAST_TIME))
            placements.insert(tried, placed)
            # The order with the higher peak takes no fewer bytes, or is not asked to.
            if placed.nbytes == placed.bound or limited or not one_bank:
                break
        best = min(placements, key=lambda placement: placement.nbytes)
        _arrange(graph_module, graph_signature, best.nodes)
        for spec, (spec.mem_id, spec.mem_offset) in best.places.items():
            # Tensors of one number may overlap in memory.
            spec.mem_obj_id = 0
        self.plans.append(
            PlannedGraph(
                tuple(best.arenas),
                placed.bound if bound is None else bound,
                by_greedy.nbytes,
                best.nodes != given,
                best is by_greedy,
                time.perf_counter() - begin,
            )
        )
        return list(best.arenas)

    def _orders(self, graph: fx.Graph, arenas: _Arenas) -> tuple[list[list[fx.Node]], int | None]:
        """Return orders of nodes to try, the best first, and a lower bound of all of them."""
        given = list(graph.nodes)
        if not self.reorder or not _on_one_device(given):
            return [given], None
        steps = steps_of(graph, set(arenas.tensors))
        found = schedule_optimal(steps.problem, _ORDERING * self.time_limit)
        as_given = steps.problem.footprints(range(len(steps.problem)))
        better = [steps.in_order(found.order)] if found.peak < as_given.peak else []
        return [*better, given], arenas.least_beside + found.bound


@dataclass(frozen=True)
class _Arenas:
    """The tensors of a graph, and what lies beside them in its arenas.

    Below them are ``reserved`` bytes for the branches of control flow, and above them a padding.
    """

    tensors: Sequence[Any]
    reserved: Sequence[int]
    padding: int
    alignment: int

    @property
    def least_beside(self) -> int:
        """The fewest bytes of arenas that no tensor takes."""
        return sum(self.reserved) + (self.padding if self.tensors else 0)

    def place(
        self, nodes: Sequence[fx.Node], banks: Mapping[int, Bank], time_limit: float
    ) -> _Placement:
        """Return offsets of tensors with the lifetimes that an order of nodes gives them."""
        own = [spec for spec in self.tensors if spec.storage_base is None]
        pinned = {spec.mem_id for spec in own} - {None, *banks}
        arenas = Counter(dict(enumerate(self.reserved)))
        places: dict[Any, tuple[int, int]] = {}
        gap = 0
        for group in (banks, *({mem_id: Bank()} for mem_id in sorted(pinned))):
            mem_ids = [*group]
            inside = [
                spec
                for spec in own
                if spec.mem_id in group or (spec.mem_id is None and group is banks)
            ]
            found = plan(
                [_buffer(spec, group) for spec in inside],
                [self._usable(mem_id, bank) for mem_id, bank in group.items()],
                alignment=self.alignment,
                time_limit=time_limit,
            )
            for spec, number, offset in zip(inside, found.bank_of, found.offsets, strict=True):
                places[spec] = (mem_ids[number], self._below(mem_ids[number]) + offset)
            for number, use in enumerate(found.banks):
                beside = self.padding if number in found.bank_of else 0
                arenas[mem_ids[number]] += use.nbytes + beside
                gap += use.nbytes - use.bound
        for spec in self.tensors:
            mem_id, offset = places[home_of(spec)]
            places[spec] = (mem_id, offset + _offset_at_home(spec))
        count = 1 + max(1, *(mem_id for mem_id, nbytes in arenas.items() if nbytes))
        sizes = [arenas[mem_id] for mem_id in range(count)]
        return _Placement(nodes, sizes, places, sum(sizes) - gap)

    def _below(self, mem_id: int) -> int:
        return self.reserved[mem_id] if mem_id < len(self.reserved) else 0

    def _usable(self, mem_id: int, bank: Bank) -> Bank:
        """Return the part of a bank that tensors may take."""
        if bank.capacity is None:
            return bank
        left = bank.capacity - self._below(mem_id) - self.padding
        return replace(bank, capacity=max(left, 1))


def _buffer(spec: Any, banks: Mapping[int, Bank]) -> Buffer:
    first, last = spec.lifetime
    bank = None if spec.mem_id is None else banks[spec.mem_id].name
    return Buffer(str(spec), first, last + 1, spec.allocated_memory, bank)


def _offset_at_home(spec: TensorSpec) -> int:
    if spec.storage_base is None:
        return 0
    return spec.storage_base_offset + _offset_at_home(spec.storage_base)


def _on_one_device(nodes: Iterable[fx.Node]) -> bool:
    """Return whether all tensors are on the CPU; others are planned in calls of their own."""
    specs = (spec for node in nodes for spec in get_node_tensor_specs(node))
    return all(spec.device == DeviceType.CPU for spec in specs)


def _arrange(graph_module: fx.GraphModule, signature: Any, nodes: Sequence[fx.Node]) -> None:
    """Bring the nodes of a graph into an order, and give tensors the lifetimes that it makes."""
    if [*graph_module.graph.nodes] == [*nodes]:
        return
    next(iter(graph_module.graph.nodes)).prepend(nodes[0])
    for before, after in pairwise(nodes):
        before.append(after)
    # They only grow otherwise.
    for spec in update_all_tensors_lifetime(graph_module, signature):
        spec.lifetime = [None, None]
    update_all_tensors_lifetime(graph_module, signature)
    _complete_lifetimes(nodes)


def _complete_lifetimes(nodes: Iterable[fx.Node]) -> None:
    """Have tensors live until what was written over them is last read, too.

    ExecuTorch 1.5.1 ends them with the operator that writes in place.
    """
    for step, node in enumerate(nodes):
        for spec in (spec for each in node.all_input_nodes for spec in homes_of(each)):
            first, last = spec.lifetime
            if last is not None and last < step:
                spec.lifetime = [first, step]
