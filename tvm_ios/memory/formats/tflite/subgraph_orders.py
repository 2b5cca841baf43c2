"""Orders of the operators of a ``.tflite`` model's subgraphs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_ios.memory.formats.tflite.micro_arena import ALIGNMENT, aligned, arena_bytes
from tvm_ios.memory.formats.tflite.micro_scratch import scratch_requests
from tvm_ios.memory.formats.tflite.model import Operator, Subgraph, TfliteModel
from tvm_ios.memory.formats.tflite.schema import Operation
from tvm_ios.memory.formats.tflite.sharing import ELEMENT_WISE, Sharing
from tvm_ios.memory.ordering import Node, TensorGraph, order

#: Operators that keep their order among each other, because they share what no tensor shows.
_ORDERED = {
    Operation.CUSTOM,
    Operation.IF,
    Operation.WHILE,
    Operation.CALL_ONCE,
    Operation.HASHTABLE,
    Operation.HASHTABLE_FIND,
    Operation.HASHTABLE_IMPORT,
    Operation.HASHTABLE_SIZE,
    Operation.VAR_HANDLE,
    Operation.READ_VARIABLE,
    Operation.ASSIGN_VARIABLE,
}
#: Operators whose options fill words of 4 bytes in TensorFlow Lite Micro, or that have none.
_OPTIONS_OF_WORDS = ELEMENT_WISE | {
    Operation.AVERAGE_POOL_2D,
    Operation.CONCATENATION,
    Operation.CONV_2D,
    Operation.DEPTHWISE_CONV_2D,
    Operation.FULLY_CONNECTED,
    Operation.MAX_POOL_2D,
    Operation.PAD,
    Operation.RESHAPE,
    Operation.SOFTMAX,
    Operation.TRANSPOSE_CONV,
}


def padding(subgraph: Subgraph) -> int:
    """Return the bytes that another order may add to the tail of the arena, at most.

    The options of operators lie there one after the other: those of most are whole words, others
    may begin at multiples of 8 bytes, and what follows them begins at multiples of 16.
    """
    return ALIGNMENT + 8 * sum(op.code not in _OPTIONS_OF_WORDS for op in subgraph.operators)


@dataclass(frozen=True)
class OrderedSubgraph:
    """An order of a subgraph's operators, its peak, and a lower bound of every order's."""

    order: tuple[int, ...]
    peak: int
    bound: int


class SubgraphOrders:
    """The orders of a model's subgraphs, of those that are called before their callers.

    One that gains less than it may cost in the tail of the arena is left.
    """

    def __init__(self, model: TfliteModel, sharing: Sharing, scheduler: str, until: float) -> None:
        self._model, self._sharing = model, sharing
        self._scheduler, self._until = scheduler, until
        self._sizes = arena_bytes(model)
        self._found: dict[int, OrderedSubgraph] = {}

    def order(self, number: int) -> tuple[int, ...]:
        """Return the order of a subgraph, as it is if it never runs."""
        if number in self._found:
            return self._found[number].order
        return tuple(range(len(self._model.subgraphs[number].operators)))

    def ordered(self, number: int) -> OrderedSubgraph:
        """Return the order of a subgraph, which is its own where none gains."""
        if number not in self._found:
            self._found[number] = self._search(number)
        return self._found[number]

    def _search(self, number: int) -> OrderedSubgraph:
        subgraph, start = self._model.subgraphs[number], self._model.starts[number]
        inputs = sum(self._sizes[start + tensor] for tensor in {*subgraph.inputs})
        called = {
            place: [self.ordered(each) for each in operator.calls]
            for place, operator in enumerate(subgraph.operators)
            if operator.calls
        }
        if not subgraph.operators:
            return OrderedSubgraph((), inputs, inputs)
        graph = self._graph(number, called)
        left = max(self._until - time.perf_counter(), 0.0)
        found = order(graph, scheduler=self._scheduler, time_limit=left)
        given = tuple(range(len(subgraph.operators)))
        peak = graph.peak(given)
        inner = [each for calls in called.values() for each in calls]
        proven = all(each.peak == each.bound for each in inner)
        bound = found.bound if proven else max(each.bound for each in inner)
        chosen, least = given, peak
        if found.peak + padding(subgraph) < peak:
            chosen, least = found.order, found.peak
        return OrderedSubgraph(chosen, max(least, inputs), max(bound, inputs))

    def _graph(self, number: int, called: dict[int, list[OrderedSubgraph]]) -> TensorGraph:
        subgraph, start = self._model.subgraphs[number], self._model.starts[number]
        views = self._sharing.views if number == 0 else {}
        over = self._sharing.over if number == 0 else {}
        sizes = {
            str(tensor): self._sizes[start + tensor]
            for tensor in range(len(subgraph.tensors))
            if self._sizes[start + tensor]
        }
        nodes = [
            Node(
                "/".join(subgraph.tensors[tensor].name for tensor in operator.outputs),
                (*map(str, operator.inputs), *waits),
                (*map(str, operator.outputs), *signals),
                sum(aligned(n) for n in scratch_requests(operator, subgraph.tensors))
                + max((each.peak for each in called.get(place, ())), default=0),
                tuple(map(str, over.get(place, ()))),
            )
            for place, (operator, waits, signals) in enumerate(_in_turn(subgraph))
        ]
        outputs = [str(t) for t in dict.fromkeys(subgraph.outputs) if str(t) in sizes]
        return TensorGraph(nodes, sizes, outputs, {str(v): str(t) for v, t in views.items()})


def _in_turn(
    subgraph: Subgraph,
) -> Iterator[tuple[Operator, tuple[str, ...], tuple[str, ...]]]:
    """Yield each operator with signals that it waits for and gives, by which some keep their order.

    These are operators that share what no tensor shows, and those of one variable.
    """
    latest: dict[int, str] = {}
    for number, operator in enumerate(subgraph.operators):
        shared = {t for t in operator.inputs if t >= 0 and subgraph.tensors[t].variable}
        if operator.code in _ORDERED:
            shared.add(-1)
        waits = tuple(latest[each] for each in sorted(shared) if each in latest)
        signal = f"operator {number} is done"
        latest.update(dict.fromkeys(shared, signal))
        yield operator, waits, (signal,) if shared else ()
