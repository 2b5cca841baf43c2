"""A ``.tflite`` model with the order and the placement that need the smallest arena."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.micro_arena import ALIGNMENT, MicroArena, micro_arena
from tvm_ios.memory.formats.tflite.model import ONLINE, TfliteModel, read_tflite
from tvm_ios.memory.formats.tflite.schema import Operation
from tvm_ios.memory.formats.tflite.sharing import Sharing
from tvm_ios.memory.formats.tflite.subgraph_orders import SubgraphOrders, padding
from tvm_ios.memory.formats.tflite.writing import write_tflite
from tvm_ios.memory.planning import Buffer, plan


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
        A lower bound of them, whatever the order and the offsets, where a tensor lies in another's
        memory only as told in :class:`Sharing`. Offsets that a file came with may be below it.
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
    sharing = Sharing.of(model, in_place)
    subgraphs = SubgraphOrders(model, sharing, scheduler, begin + time_limit / 2)
    bound = max(subgraphs.ordered(0).bound, _bytes_beside_runs(model, arena))
    found = tuple(map(subgraphs.order, range(len(given))))
    candidates = [(before, given, model.plan)]
    least_gain = 0
    if found != given:
        arena, least_gain = micro_arena(model, found), sum(map(padding, model.subgraphs))
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


def _bytes_beside_runs(model: TfliteModel, arena: MicroArena) -> int:
    """Return the bytes that inputs take together, or those of a larger tensor that nothing uses."""
    inputs = sum(arena.tensors[number].size for number in {*model.subgraphs[0].inputs})
    return max([inputs, *(span.size for span in arena.tensors if not span.used)])


def _offsets(
    model: TfliteModel,
    orders: Sequence[Sequence[int]],
    arena: MicroArena,
    sharing: Sharing,
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
            offsets[tensor] = offset
    # The device looks a variable up by its number within its subgraph, as if it were the first.
    for graph in model.subgraphs[1:]:
        for number, tensor in enumerate(graph.tensors):
            if tensor.variable:
                offsets[number] = ONLINE
    return tuple(offsets)
