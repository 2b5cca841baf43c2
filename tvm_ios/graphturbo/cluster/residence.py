"""Residence of pieces of tensors and of weights in buffers while a cluster runs (section 4.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.cluster.spilling import Live, Scope, place_tensors
from tvm_ios.graphturbo.cluster.tasks import INPUT, Piece, Step
from tvm_ios.graphturbo.cluster.tiling import WEIGHT_SHARE
from tvm_ios.graphturbo.footprint import live_bytes


def scopes_of(
    steps: Sequence[Step],
    lives: Mapping[Piece, Live],
    device: MemoryHierarchy,
    *,
    spills_to_memory: bool,
) -> dict[Piece, Scope]:
    """Return the buffer that each piece lies in.

    ``lives`` come from :func:`lives_of`. With ``spills_to_memory``, pieces that do not fit the
    local buffers go to memory, not to the global buffer.
    """
    capacities = {
        Scope.LOCAL: int(device.cluster_local_buffer * (1 - WEIGHT_SHARE)),
        Scope.GLOBAL: 0 if spills_to_memory else device.global_buffer,
    }
    taken = {Scope.LOCAL: [step.tiling.nbytes for step in steps]}
    return dict(zip(lives, place_tensors(list(lives.values()), capacities, taken), strict=True))


def lives_of(steps: Sequence[Step], fastest: Scope, bound: Sequence[Scope]) -> dict[Piece, Live]:
    """Return for each piece its first and last step, its size, and the fastest buffer allowed."""
    lives: dict[Piece, Live] = {}
    levels = list(Scope)
    for place, step in enumerate(steps):
        for pieces in (*step.reads.values(), step.writes):
            for piece, size in pieces.items():
                # Inputs of the graph come from memory; the bindings may require the global buffer.
                scope = (
                    Scope.MEMORY
                    if piece[0] == INPUT
                    else max(fastest, bound[piece[0]], key=levels.index)
                )
                live = lives.get(piece, Live(size, place, place, scope))
                lives[piece] = replace(live, nbytes=max(size, live.nbytes), last=place)
    return lives


def left_free(
    lives: Mapping[Piece, Live], scopes: Mapping[Piece, Scope], steps: int, size: int
) -> list[int]:
    """Return for each step the bytes of the global buffer that tensors leave for weights."""
    held = live_bytes(
        (
            (live.first, live.last, live.nbytes)
            for piece, live in lives.items()
            if scopes[piece] is Scope.GLOBAL
        ),
        steps,
    )
    return [max(0, size - nbytes) for nbytes in held]


def weight_loads(steps: Sequence[Step], rooms: Sequence[int]) -> list[dict[int, int]]:
    """Return for each step the bytes of each layer's weights to fetch from memory.

    The global buffer keeps the weights that were used last.
    """
    cached: OrderedDict[int, int] = OrderedDict()
    held = 0
    loads: list[dict[int, int]] = []
    for step, room in zip(steps, rooms, strict=True):
        loads.append({})
        for task in step.tasks:
            if task.layer in cached:
                cached.move_to_end(task.layer)
                loads[-1][task.layer] = 0
            else:
                loads[-1][task.layer] = cached[task.layer] = task.weights
                held += task.weights
            while held > room:
                held -= cached.popitem(last=False)[1]
    return loads
