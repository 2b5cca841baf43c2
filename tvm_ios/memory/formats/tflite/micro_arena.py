"""The arena of TensorFlow Lite Micro: when its tensors and scratch live, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.micro_scratch import scratch_requests
from tvm_ios.memory.formats.tflite.model import ONLINE, TfliteModel

#: Sizes in the arena are multiples of it.
ALIGNMENT = 16
#: The time of a tensor that no operator uses: the device keeps room for it nonetheless.
UNUSED = -1
#: Operators that a run may pass through, subgraphs as often as they are called.
_MOST_SCOPES = 1_000_000
#: More bytes than any arena has.
_NO_END = 1 << 62


@dataclass(frozen=True)
class Span:
    """A block of the arena, and the first and the last scope of its use."""

    size: int
    first: int
    last: int

    @property
    def used(self) -> bool:
        """Whether an operator uses it."""
        return self.last != UNUSED


@dataclass(frozen=True)
class MicroArena:
    """The blocks of a model's tensors, all subgraphs' in a row, and of its kernels' scratch.

    A constant takes no bytes, and neither does a variable, which lies beside the arena's head.
    """

    tensors: tuple[Span, ...]
    scratch: tuple[Span, ...]
    #: For each subgraph and operator the last scope of its run.
    scope: dict[tuple[int, int], int]

    def head(self, offsets: Sequence[int] | None) -> int:
        """Return the bytes of the head of the arena, as the device plans it.

        Of the tensors it takes the given offsets; those without, and the scratch, it places around
        them, the largest first, each as low as it can.
        """
        placed = [ONLINE] * len(self.tensors) if offsets is None else list(offsets)
        given = [n for n, span in enumerate(self.tensors) if span.size]
        spans = [*(self.tensors[n] for n in given), *self.scratch]
        return _greedy_head(spans, [*(placed[n] for n in given), *[ONLINE] * len(self.scratch)])


def micro_arena(model: TfliteModel, orders: Sequence[Sequence[int]]) -> MicroArena:
    """Return the arena of a model whose subgraphs run their operators in some orders.

    The times are those of TensorFlow Lite Micro: each operator is a scope, and so is each subgraph
    that one calls; a subgraph that is called twice lives from the first call to the last.
    """
    return _Marking(model, orders).arena()


def arena_bytes(model: TfliteModel) -> tuple[int, ...]:
    """Return the bytes that each tensor of all subgraphs takes in the arena."""
    return tuple(
        0 if tensor.constant or tensor.variable else aligned(tensor.nbytes)
        for tensor in model.tensors
    )


class _Marking:
    """The scopes of a run, passed through as the device does."""

    def __init__(self, model: TfliteModel, orders: Sequence[Sequence[int]]) -> None:
        self._model, self._orders = model, orders
        self._start = model.starts
        count = len(model.tensors)
        self._first, self._last = [UNUSED] * count, [UNUSED] * count
        self._begun: dict[tuple[int, int], int] = {}
        self._ended: dict[tuple[int, int], int] = {}
        self._scope = 0
        self._run(0, 0)

    def _create(self, graph: int, tensor: int) -> None:
        number = self._start[graph] + tensor
        if self._first[number] == UNUSED:
            self._first[number] = self._scope

    def _use(self, graph: int, tensor: int) -> None:
        self._last[self._start[graph] + tensor] = self._scope

    def _run(self, number: int, depth: int) -> None:
        if depth == len(self._model.subgraphs) or self._scope > _MOST_SCOPES:
            raise ModelError("the subgraphs of the model call each other without end")
        graph = self._model.subgraphs[number]
        for tensor in graph.inputs:
            self._create(number, tensor)
            self._use(number, tensor)
        for place in self._orders[number]:
            operator = graph.operators[place]
            self._scope += 1
            for tensor in operator.outputs:
                self._create(number, tensor)
            self._begun.setdefault((number, place), self._scope)
            for called in operator.calls:
                self._scope += 1
                self._run(called, depth + 1)
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor >= 0:
                    self._use(number, tensor)
            self._ended[number, place] = self._scope
        for tensor in graph.outputs:
            self._create(number, tensor)
            self._use(number, tensor)

    def arena(self) -> MicroArena:
        """Return the blocks with the scopes that were marked."""
        sizes = arena_bytes(self._model)
        return MicroArena(
            tuple(map(Span, sizes, self._first, self._last)),
            tuple(
                Span(
                    aligned(size),
                    self._begun.get((number, place), UNUSED),
                    self._ended.get((number, place), UNUSED),
                )
                for number, graph in enumerate(self._model.subgraphs)
                for place in self._orders[number]
                for size in scratch_requests(graph.operators[place], graph.tensors)
            ),
            self._ended,
        )


def _greedy_head(spans: Sequence[Span], offsets: Sequence[int]) -> int:
    """Return the end of the last of some spans, of which those without an offset are placed."""
    given = [n for n, offset in enumerate(offsets) if offset != ONLINE]
    free = [n for n, offset in enumerate(offsets) if offset == ONLINE]
    begins = np.asarray([offsets[n] for n in given], np.int64)
    order = np.argsort(begins, kind="stable")
    begins, placed = begins[order], np.asarray(given, np.int64)[order]
    size, first, last = (
        np.asarray([getattr(span, name) for span in spans], np.int64)
        for name in ("size", "first", "last")
    )
    # Of equal sizes the device takes the last one first.
    for number in sorted(free, key=lambda n: (-spans[n].size, -n)):
        beside = (first[placed] <= last[number]) & (first[number] <= last[placed])
        below = np.maximum.accumulate(np.append(0, (begins + size[placed])[beside]))
        gaps = np.append(begins[beside], _NO_END) - below
        begin = int(below[np.argmax(gaps >= size[number])])
        at = int(np.searchsorted(begins, begin, side="right"))
        begins, placed = np.insert(begins, at, begin), np.insert(placed, at, number)
    return int((begins + size[placed]).max(initial=0))


def aligned(size: int) -> int:
    """Return a size rounded up to what it takes in the arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT
