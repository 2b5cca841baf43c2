"""A ``.tflite`` model with the order and the placement that need the smallest arena."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.micro_arena import (
    ALIGNMENT,
    MicroArena,
    aligned,
    arena_bytes,
    micro_arena,
)
from tvm_ios.memory.formats.tflite.micro_scratch import scratch_requests
from tvm_ios.memory.formats.tflite.model import (
    ONLINE,
    Operation,
    Operator,
    Subgraph,
    TfliteModel,
    read_tflite,
    write_tflite,
)
from tvm_ios.memory.ordering import Node, TensorGraph, order
from tvm_ios.memory.planning import Buffer, plan

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
#: Operators whose kernels read an element of an input before they write that of the result.
_ELEMENT_WISE = {
    Operation.ADD,
    Operation.HARD_SWISH,
    Operation.LOGISTIC,
    Operation.MUL,
    Operation.RELU,
    Operation.RELU6,
    Operation.SUB,
    Operation.TANH,
}
#: Operators whose options fill words of 4 bytes in TensorFlow Lite Micro, or that have none.
_OPTIONS_OF_WORDS = _ELEMENT_WISE | {
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


@dataclass(frozen=True, kw_only=True)
class PlannedModel:
    """A model with its smallest arena that was found; sizes are of the arena's head.

    Attributes
    ----------
    data
        The file: the one that was read, byte for byte, if nothing was gained.
    orders
        For each subgraph its operators, by their numbers in the file that was read.
    offsets
        The offsets of all subgraphs' tensors that the file now has, or None if the device plans
        them as well by itself.
    nbytes_before, nbytes
        The bytes that the device reserves for the file that was read, and for this one.
    bound
        A lower bound of them, whatever the order and the offsets.
    """

    data: bytes = field(repr=False)
    orders: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...] | None
    nbytes_before: int
    nbytes: int
    bound: int

    @property
    def reordered(self) -> bool:
        """Whether operators run in another order than before."""
        return any(order != tuple(range(len(order))) for order in self.orders)

    @property
    def proven(self) -> bool:
        """Whether no order and no offsets need fewer bytes."""
        return self.nbytes == self.bound


def plan_tflite(
    data: bytes, *, scheduler: str = "optimal", time_limit: float = 30.0, in_place: bool = False
) -> PlannedModel:
    """Return a model with the order and offline plan that need the smallest arena.

    It is never larger than before: orders and plans are compared as TensorFlow Lite Micro computes
    their arenas, with the scratch of its reference kernels.

    Parameters
    ----------
    data
        A ``.tflite`` file.
    scheduler
        The name of the memory scheduler that orders operators.
    time_limit
        Seconds of the clock.
    in_place
        Whether element-wise operators may write over an input. Reference kernels allow it.

    Raises
    ------
    ModelError
        If the file is damaged, or nothing that TensorFlow Lite Micro can run.
    """
    begin = time.perf_counter()
    model = read_tflite(data)
    _require_replaceable(model)
    given = tuple(tuple(range(len(graph.operators))) for graph in model.subgraphs)
    arena = micro_arena(model, given)
    before = arena.head(model.plan)
    sharing = _Sharing.of(model, in_place)
    search = _Search(model, sharing, scheduler, begin + time_limit / 2)
    bound = max(search.ordered(0).bound, _rooms(model, arena))
    found = tuple(map(search.order, range(len(given))))
    candidates = [(before, given, model.plan)]
    least_gain = 0
    if found != given:
        arena, least_gain = micro_arena(model, found), sum(map(_padding, model.subgraphs))
        if model.plan is None:
            candidates.append((arena.head(None) + least_gain, found, None))
    offsets = _offsets(model, found, arena, sharing, begin + time_limit)
    candidates.append((arena.head(offsets) + least_gain, found, offsets))
    nbytes, orders, placed = min(candidates, key=lambda candidate: candidate[0])
    written = data
    if (orders, placed) != (given, model.plan):
        written, nbytes = write_tflite(model, orders, placed), nbytes - least_gain
    return PlannedModel(
        data=written,
        orders=orders,
        offsets=placed,
        nbytes_before=before,
        nbytes=nbytes,
        bound=bound,
    )


def _padding(subgraph: Subgraph) -> int:
    """Return the bytes that another order may add to the tail of the arena, at most.

    The options of operators lie there one after the other: those of most are whole words, others
    may begin at multiples of 8 bytes, and what follows them begins at multiples of 16.
    """
    return ALIGNMENT + 8 * sum(op.code not in _OPTIONS_OF_WORDS for op in subgraph.operators)


def _require_replaceable(model: TfliteModel) -> None:
    """Require that nobody but the arena relies on the plan that a file has."""
    if model.plan is None:
        return
    custom = any(op.code == Operation.CUSTOM for graph in model.subgraphs for op in graph.operators)
    placed = zip(model.tensors, model.plan, strict=True)
    if custom or any(tensor.variable and offset != ONLINE for tensor, offset in placed):
        raise ModelError(
            "the model has an offline plan already, and custom operators or variables that may "
            "rely on it"
        )


def _rooms(model: TfliteModel, arena: MicroArena) -> int:
    """Return the bytes that inputs take together, or the largest tensor that nothing uses."""
    inputs = sum(arena.tensors[number].size for number in {*model.subgraphs[0].inputs})
    return max([inputs, *(span.size for span in arena.tensors if not span.used)])


@dataclass(frozen=True)
class _Sharing:
    """Tensors of the first subgraph that may lie in the memory of others.

    What RESHAPE makes always lies in its input, which its kernel then leaves as it is; what
    element-wise operators make may do so. Subgraphs that others call share nothing, because their
    callers copy their inputs and outputs.
    """

    #: For each tensor that is another one in a different shape that other one.
    views: dict[int, int]
    #: For each operator the inputs that its result may be written over.
    over: dict[int, tuple[int, ...]]
    #: Tensors of all subgraphs that the device has to place, because it takes their offsets for
    #: those of variables with the same number in another subgraph.
    online: frozenset[int]

    @classmethod
    def of(cls, model: TfliteModel, in_place: bool) -> _Sharing:
        """Return what may be shared in a model."""
        online = frozenset(
            number
            for graph in model.subgraphs[1:]
            for number, tensor in enumerate(graph.tensors)
            if tensor.variable
        )
        views: dict[int, int] = {}
        over: dict[int, tuple[int, ...]] = {}
        sizes = arena_bytes(model)
        for number, operator in enumerate(model.subgraphs[0].operators):
            if len(operator.outputs) != 1 or not sizes[operator.outputs[0]]:
                continue
            result = operator.outputs[0]
            fitting = tuple(
                tensor
                for tensor in dict.fromkeys(operator.inputs)
                if tensor >= 0 and sizes[tensor] == sizes[result] and not {tensor, result} & online
            )
            if operator.code == Operation.RESHAPE and fitting[:1] == operator.inputs[:1] != ():
                views[result] = operator.inputs[0]
            elif in_place and operator.code in _ELEMENT_WISE:
                over[number] = fitting
        return cls(views, over, online)

    def homes(self, model: TfliteModel, order: Sequence[int], arena: MicroArena) -> list[int]:
        """Return for each tensor of all subgraphs the one in whose memory it lies, or itself."""
        graph, homes = model.subgraphs[0], list(range(len(model.tensors)))
        shared = {*self.views, *self.views.values()}
        for number in order:
            for result in graph.operators[number].outputs[:1]:
                homes[result] = homes[self.views.get(result, result)]
                for tensor in self.over.get(number, ()):
                    dies = arena.tensors[tensor].last == arena.scope[0, number]
                    if dies and tensor not in graph.outputs and not {tensor, result} & shared:
                        homes[result] = homes[tensor]
                        break
        return homes


@dataclass(frozen=True)
class _Ordered:
    """An order of a subgraph's operators, its peak, and a lower bound of every order's."""

    order: tuple[int, ...]
    peak: int
    bound: int


class _Search:
    """The orders of a model's subgraphs, of those that are called before their callers.

    One that gains less than it may cost in the tail of the arena is left.
    """

    def __init__(self, model: TfliteModel, sharing: _Sharing, scheduler: str, until: float) -> None:
        self._model, self._sharing = model, sharing
        self._scheduler, self._until = scheduler, until
        self._sizes = arena_bytes(model)
        self._found: dict[int, _Ordered] = {}

    def order(self, number: int) -> tuple[int, ...]:
        """Return the order of a subgraph, as it is if it never runs."""
        if number in self._found:
            return self._found[number].order
        return tuple(range(len(self._model.subgraphs[number].operators)))

    def ordered(self, number: int) -> _Ordered:
        """Return the order of a subgraph, which is its own where none gains."""
        if number not in self._found:
            self._found[number] = self._search(number)
        return self._found[number]

    def _search(self, number: int) -> _Ordered:
        subgraph = self._model.subgraphs[number]
        start = self._model.starts[number]
        inputs = sum(self._sizes[start + tensor] for tensor in {*subgraph.inputs})
        called = {
            place: [self.ordered(each) for each in operator.calls]
            for place, operator in enumerate(subgraph.operators)
            if operator.calls
        }
        if not subgraph.operators:
            return _Ordered((), inputs, inputs)
        graph = self._graph(subgraph, start, called)
        left = max(self._until - time.perf_counter(), 0.0)
        found = order(graph, scheduler=self._scheduler, time_limit=left)
        given = tuple(range(len(subgraph.operators)))
        peak = graph.peak(given)
        inner = [each for calls in called.values() for each in calls]
        proven = all(each.peak == each.bound for each in inner)
        bound = found.bound if proven else max(each.bound for each in inner)
        chosen, least = given, peak
        if found.peak + _padding(subgraph) < peak:
            chosen, least = found.order, found.peak
        return _Ordered(chosen, max(least, inputs), max(bound, inputs))

    def _graph(
        self, subgraph: Subgraph, start: int, called: dict[int, list[_Ordered]]
    ) -> TensorGraph:
        main = start == 0
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
                + max((each.peak for each in called.get(number, ())), default=0),
                tuple(map(str, self._sharing.over.get(number, ()))) if main else (),
            )
            for number, (operator, waits, signals) in enumerate(_in_turn(subgraph))
        ]
        views = {str(view): str(of) for view, of in self._sharing.views.items()} if main else {}
        outputs = [str(t) for t in dict.fromkeys(subgraph.outputs) if str(t) in sizes]
        return TensorGraph(nodes, sizes, outputs, views)


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


def _offsets(
    model: TfliteModel,
    orders: Sequence[Sequence[int]],
    arena: MicroArena,
    sharing: _Sharing,
    until: float,
) -> tuple[int, ...]:
    """Return an offset for each tensor of all subgraphs, with room for scratch beside them."""
    offsets = [0 if span.size and not span.used else ONLINE for span in arena.tensors]
    members: dict[int, list[int]] = {}
    for tensor, home in enumerate(sharing.homes(model, orders[0], arena)):
        if arena.tensors[tensor].size and arena.tensors[tensor].used:
            members.setdefault(home, []).append(tensor)
    shares = [[arena.tensors[tensor] for tensor in each] for each in members.values()]
    shares += [[span] for span in arena.scratch if span.size and span.used]
    buffers = [
        Buffer(
            str(number),
            min(span.first for span in spans),
            max(span.last for span in spans) + 1,
            spans[0].size,
        )
        for number, spans in enumerate(shares)
    ]
    left = max(until - time.perf_counter(), 0.0)
    placed = plan(buffers, alignment=ALIGNMENT, time_limit=left).offsets
    for tensors, offset in zip(members.values(), placed, strict=False):
        for tensor in tensors:
            offsets[tensor] = ONLINE if tensor in sharing.online else offset
    return tuple(offsets)
