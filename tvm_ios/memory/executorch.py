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

from executorch.exir.memory_planning import (
    get_node_tensor_specs,
    greedy,
    update_all_tensors_lifetime,
)
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec
from torch import fx
from torch.export import ExportGraphSignature

from tvm_ios.memory.exact.optimal import schedule_optimal
from tvm_ios.memory.executorch_steps import home_of, steps_of
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
        The sum for ExecuTorch's greedy planner and the order as it was.
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
    places: Mapping[TensorSpec, tuple[int, int]]
    #: The fewest bytes that any placement for this order takes; unknown for ExecuTorch's.
    bound: int = 0

    @property
    def nbytes(self) -> int:
        return sum(self.arenas)


class LeastMemory:
    """An algorithm for ``MemoryPlanningPass`` that takes as few bytes as it can find and prove.

    It moves operators to the order of the least peak, then gives tensors offsets; where ExecuTorch's
    greedy planner takes fewer bytes, its plan is kept. Operators that write over a tensor stay
    between the same reads of it, those that draw random numbers stay in their order, and nothing is
    moved in a graph with tensors on several devices. The bytes of a branch or body of control flow
    lie, as ExecuTorch prescribes, below the tensors of the graph around it.

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
        graph_signature: ExportGraphSignature | None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place tensors whose lifetimes are known, and return the bytes of each arena.

        Raises
        ------
        MemoryBudgetError
            If banks are too small.
        """
        begin = time.perf_counter()
        arenas = _Arenas(
            list(specs),
            tuple(getattr(graph_module, "input_mem_buffer_sizes", None) or ()),
            extra_padding,
            alignment,
        )
        given = list(graph_module.graph.nodes)
        # It aligns the sizes of tensors, too.
        theirs = greedy(alignment, arenas.tensors, graph_module, graph_signature, extra_padding)
        by_greedy = _Placement(
            given,
            [max(pair) for pair in zip_longest(theirs.bufsizes, arenas.reserved, fillvalue=0)],
            {spec: (at.mem_id, at.mem_offset) for spec, at in theirs.spec_dict.items()},
        )
        orders, bound = [given], None
        if self.reorder and _on_one_device(given):
            steps = steps_of(graph_module.graph, {*arenas.tensors})
            found = schedule_optimal(steps.problem, _ORDERING * self.time_limit)
            bound = arenas.beside + found.bound
            if found.peak < steps.problem.footprints(range(len(steps.steps))).peak:
                orders = [steps.in_order(found.order), given]
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
        best = min(placements, key=lambda each: each.nbytes)
        _arrange(graph_module, graph_signature, best.nodes)
        for spec, (spec.mem_id, spec.mem_offset) in best.places.items():
            # Tensors of one number may overlap in memory.
            spec.mem_obj_id = 0
        self.plans.append(
            PlannedGraph(
                tuple(best.arenas),
                placed.bound if bound is None else bound,
                by_greedy.nbytes,
                best.nodes is not given,
                best is by_greedy,
                time.perf_counter() - begin,
            )
        )
        return list(best.arenas)


@dataclass(frozen=True)
class _Arenas:
    """The tensors to place, and the bytes of each arena that are not theirs.

    Below them lie ``reserved`` bytes for the branches of control flow, and above them a padding.
    """

    tensors: Sequence[TensorSpec]
    reserved: Sequence[int]
    padding: int
    alignment: int

    @property
    def beside(self) -> int:
        """The fewest bytes that no tensor takes."""
        return sum(self.reserved) + (self.padding if self.tensors else 0)

    def place(
        self, nodes: Sequence[fx.Node], banks: Mapping[int, Bank], time_limit: float
    ) -> _Placement:
        """Return offsets of tensors with the lifetimes that an order of nodes gives them."""
        arenas = Counter(dict(enumerate(self.reserved)))
        bound = arenas.total()
        places: dict[TensorSpec, tuple[int, int]] = {}
        own = [spec for spec in self.tensors if spec.storage_base is None]
        pinned = {spec.mem_id for spec in own} - {None, *banks}
        for group in (banks, *({mem_id: Bank()} for mem_id in sorted(pinned))):
            here = {*group, None} if group is banks else {*group}
            inside = [spec for spec in own if spec.mem_id in here]
            usable = [self._usable(mem_id, bank) for mem_id, bank in group.items()]
            found = plan(
                [_buffer(spec, group) for spec in inside],
                usable,
                alignment=self.alignment,
                time_limit=time_limit,
            )
            arena_of = [*group]
            for mem_id in {arena_of[number] for number in found.bank_of}:
                arenas[mem_id] += self.padding
                bound += self.padding
            for spec, number, offset in zip(inside, found.bank_of, found.offsets, strict=True):
                mem_id = arena_of[number]
                places[spec] = (mem_id, self._below(mem_id) + offset)
            for mem_id, use in zip(arena_of, found.banks, strict=True):
                arenas[mem_id] += use.nbytes
                bound += use.bound
        for spec in self.tensors:
            mem_id, offset = places[home_of(spec)]
            places[spec] = (mem_id, offset + _offset_in_home(spec))
        count = max((*(mem_id for mem_id, size in arenas.items() if size), 1)) + 1
        return _Placement(nodes, [arenas[mem_id] for mem_id in range(count)], places, bound)

    def _below(self, mem_id: int) -> int:
        return self.reserved[mem_id] if mem_id < len(self.reserved) else 0

    def _usable(self, mem_id: int, bank: Bank) -> Bank:
        """Return the part of a bank that tensors may take."""
        if bank.capacity is None:
            return bank
        left = bank.capacity - self._below(mem_id) - self.padding
        return replace(bank, capacity=max(left, 1))


def _buffer(spec: TensorSpec, banks: Mapping[int, Bank]) -> Buffer:
    first, last = spec.lifetime
    bank = None if spec.mem_id is None else banks[spec.mem_id].name
    return Buffer(str(spec.shape), first, last + 1, spec.allocated_memory, bank)


def _offset_in_home(spec: TensorSpec) -> int:
    offset = 0
    while spec.storage_base is not None:
        offset += spec.storage_base_offset
        spec = spec.storage_base
    return offset


def _on_one_device(nodes: Iterable[fx.Node]) -> bool:
    """Return whether all tensors are on the CPU; others are planned in calls of their own."""
    specs = (spec for node in nodes for spec in get_node_tensor_specs(node))
    return all(spec.device == DeviceType.CPU for spec in specs)


def _arrange(
    graph_module: fx.GraphModule, signature: ExportGraphSignature | None, nodes: Sequence[fx.Node]
) -> None:
    """Bring the nodes of a graph into an order, and give tensors the lifetimes that it makes."""
    if [*graph_module.graph.nodes] == [*nodes]:
        return
    next(iter(graph_module.graph.nodes)).prepend(nodes[0])
    for before, after in pairwise(nodes):
        before.append(after)
    for spec in update_all_tensors_lifetime(graph_module, signature):
        spec.lifetime = [None, None]
    update_all_tensors_lifetime(graph_module, signature)
