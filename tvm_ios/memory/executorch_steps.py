"""The steps of a graph of ExecuTorch before its memory is planned, and what orders them.

A step is an operator with the nodes that belong to it: the allocations of its results before it,
views and elements of them behind it. Steps keep their order where one reads or writes over what
the other has written, and where both draw random numbers.
"""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass

import torch
from executorch.exir import memory
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.operator.convert import unwrap_op_overload
from executorch.exir.tensor import TensorSpec
from torch import fx

from tvm_ios.graph.op_graph import mask_of
from tvm_ios.memory.buffers import Buffers, TensorBuffer
from tvm_ios.memory.problem import MemoryProblem

#: Functions that touch no byte of a tensor: they name it, or some of it.
_ALIASES = (memory.alloc, memory.view, operator.getitem)


@dataclass(frozen=True)
class Steps:
    """A graph's nodes by steps, and the problem of ordering these.

    Attributes
    ----------
    first, last
        The nodes that stay before and behind all steps: inputs, constants, the output.
    steps
        The nodes of each step, in their order.
    problem
        The steps as operators, and the tensors as buffers.
    """

    first: tuple[fx.Node, ...]
    steps: tuple[tuple[fx.Node, ...], ...]
    last: tuple[fx.Node, ...]
    problem: MemoryProblem

    def in_order(self, order: Iterable[int]) -> list[fx.Node]:
        """Return all nodes, the steps in this order."""
        return [*self.first, *(node for step in order for node in self.steps[step]), *self.last]


def steps_of(graph: fx.Graph, planned: Container[TensorSpec]) -> Steps:
    """Return the steps of a graph whose tensors have lifetimes.

    Only tensors that are ``planned`` take memory.
    """
    outside = {"placeholder": list[fx.Node](), "get_attr": [], "output": []}
    step_of: dict[fx.Node, int] = {}
    steps: list[list[fx.Node]] = []
    precedence = _Precedence()
    for node in graph.nodes:
        if node.op in outside:
            outside[node.op].append(node)
        # An allocation comes with the operator that writes into it.
        elif node.target is not memory.alloc or not node.users:
            before = {step_of[each] for each in node.all_input_nodes if each in step_of}
            if node.target in _ALIASES and len(before) == 1:
                step = before.pop()
            else:
                step = len(steps)
                steps.append([])
            sources = (each for each in node.all_input_nodes if each.target is memory.alloc)
            for each in (*(source for source in sources if source not in step_of), node):
                steps[step].append(each)
                step_of[each] = step
            precedence.add(node, step, before)
    inputs = {spec for node in outside["placeholder"] for spec in homes_of(node)}
    end = len(graph.nodes) - 1
    buffers = [
        TensorBuffer(
            spec.allocated_memory,
            0 if spec in inputs else 1 << min(users),
            mask_of(users),
            spec in inputs,
            spec.lifetime[1] == end,
        )
        for spec, users in precedence.users.items()
        if spec in planned
    ]
    return Steps(
        (*outside["placeholder"], *outside["get_attr"]),
        tuple(map(tuple, steps)),
        tuple(outside["output"]),
        MemoryProblem(
            tuple(mask_of(precedence.before[step]) for step in range(len(steps))),
            Buffers(tuple(buffers), ((),) * len(steps)),
            (0,) * len(steps),
        ),
    )


class _Precedence:
    """The steps that come before each step, and the users of each tensor, found node by node."""

    def __init__(self) -> None:
        self.before: dict[int, set[int]] = defaultdict(set)
        self.users: dict[TensorSpec, set[int]] = defaultdict(set)
        #: For each tensor the step that wrote it last, and those that have read it since.
        self._writer: dict[TensorSpec, int] = {}
        self._readers: dict[TensorSpec, set[int]] = defaultdict(set)
        self._random = -1

    def add(self, node: fx.Node, step: int, sources: set[int]) -> None:
        """Add a node of a step, which reads results of others; nodes come in their order."""
        before = self.before[step]
        before |= sources
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            before.add(self._random)
            self._random = step
        written = _written(node)
        touched = (spec for each in (node, *node.all_input_nodes) for spec in homes_of(each))
        for spec in dict.fromkeys(touched):
            self.users[spec].add(step)
            if node.target in _ALIASES:
                continue
            before.add(self._writer.get(spec, -1))
            if spec in written:
                before |= self._readers.pop(spec, set())
                self._writer[spec] = step
            else:
                self._readers[spec].add(step)
        before -= {step, -1}


def homes_of(node: fx.Node) -> list[TensorSpec]:
    """Return the tensors in whose memory the results of a node lie."""
    return [*map(home_of, get_node_tensor_specs(node))]


def home_of(spec: TensorSpec) -> TensorSpec:
    """Return the tensor in whose memory one lies (often itself)."""
    # A view has no memory of its own, and says of its base what it is asked for.
    spec = getattr(spec, "_base", spec)
    return spec if spec.storage_base is None else home_of(spec.storage_base)


def _written(node: fx.Node) -> set[TensorSpec]:
    """Return the tensors that a node writes: its results, and arguments that its schema names."""
    given = {spec for each in node.all_input_nodes for spec in homes_of(each)}
    written = {*homes_of(node)} - given
    if node.target is executorch_call_delegate:
        return written
    try:
        schema = unwrap_op_overload(node.target)._schema
    except TypeError:
        # Python's functions have numbers only; nothing says of control flow what it writes.
        return written | given
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            fx.map_arg(value, lambda each: written.update(homes_of(each)))
    return written
