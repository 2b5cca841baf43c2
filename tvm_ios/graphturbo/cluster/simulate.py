"""Simulation of a cluster that runs a program, with times from a memory hierarchy's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.cluster.engines import Engine, StepWork, TileWork, layer_by_layer
from tvm_ios.graphturbo.cluster.moves import Move, Movement
from tvm_ios.graphturbo.cluster.overlap import across_layers
from tvm_ios.graphturbo.cluster.residence import left_free, lives_of, scopes_of, weight_loads
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import INPUT, ClusterProgram, LayerTask, Piece, Step
from tvm_ios.graphturbo.cluster.tiling import WEIGHT_SHARE

#: Shares by level of a tensor that layers of a run exchange: all in the local buffers.
_INSIDE = {Scope.LOCAL: 1.0, Scope.GLOBAL: 0.0, Scope.MEMORY: 0.0}


@dataclass(frozen=True, slots=True)
class Optimisations:
    """The optimisations of GraphTurbo that a simulation has."""

    #: The fastest buffer that results of layers may stay in.
    fastest: Scope
    #: Instructions of different layers overlap, and weights are fetched ahead (section 4.4).
    across_layers: bool = False
    #: Each layer is a kernel of its own; otherwise each instance.
    kernel_a_layer: bool = False
    #: Tensors that do not fit the local buffers go to memory, not to the global buffer.
    spills_to_memory: bool = False


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of simulating a cluster."""

    #: The time of all steps.
    seconds: float
    #: Begin and end of each step, in seconds.
    spans: tuple[tuple[float, float], ...]
    #: For each step the seconds of each engine.
    busy: tuple[Mapping[Engine, float], ...]
    #: Where each piece lies.
    scopes: Mapping[Piece, Scope]
    #: Bytes read and written at each level, weights included.
    traffic: Mapping[Scope, int]
    #: The number of tensors at each level, each layer's of each instance counted, as in table 3 of
    #: the paper.
    tensors: Mapping[Scope, int]
    #: The number of kernels that were started.
    kernels: int

    def usage(self, engine: Engine) -> float:
        """Return the share of the time that an engine works."""
        return sum(busy[engine] for busy in self.busy) / self.seconds


def simulate(program: ClusterProgram, device: MemoryHierarchy, rules: Optimisations) -> Simulation:
    """Simulate a program on one cluster, which has its share of the device's peaks and bandwidth.

    The part of the global buffer that tensors leave free keeps the weights that were used last.
    """
    steps = program.steps
    lives = lives_of(steps, rules.fastest, program.bindings.scope)
    scopes = scopes_of(steps, lives, device, spills_to_memory=rules.spills_to_memory)
    rooms = left_free(lives, scopes, len(steps), device.global_buffer)
    loads = weight_loads(steps, rooms)
    cluster = _Cluster(program, device, scopes, rooms)
    starts = [
        rules.kernel_a_layer or not n or steps[n - 1].instance != step.instance
        for n, step in enumerate(steps)
    ]
    works = [
        cluster.work(n, loads[n], device.kernel_overhead * starts[n]) for n in range(len(steps))
    ]
    spans = layer_by_layer(works)
    if rules.across_layers:
        buffer = int(device.cluster_local_buffer * WEIGHT_SHARE)
        # Take the order of layers if overlapping them is slower.
        spans = min(spans, across_layers(works, rooms, buffer), key=_last)
    counts = dict.fromkeys(Scope, 0)
    for (maker, _), scope in scopes.items():
        counts[scope] += maker != INPUT
    counts[Scope.LOCAL] += sum(_inner(program, step) for step in steps)
    return Simulation(
        _last(spans),
        tuple(spans),
        tuple({engine: work.total(engine) for engine in Engine} for work in works),
        scopes,
        cluster.traffic(loads),
        counts,
        sum(starts),
    )


def _last(spans: Sequence[tuple[float, float]]) -> float:
    return max((end for _, end in spans), default=0.0)


def _inner(program: ClusterProgram, step: Step) -> int:
    """Return the number of tensors that layers of a run exchange tile by tile."""
    layers = program.instances.layers
    made = {t for layer in step.tiling.run for t in layers.outputs[layer]}
    return len(made & set(step.tiling.boxes)) - len(step.writes)


@dataclass(frozen=True)
class _Cluster:
    """A cluster that runs a program, to compute the seconds of tiles by where tensors lie."""

    program: ClusterProgram
    device: MemoryHierarchy
    scopes: Mapping[Piece, Scope]
    rooms: Sequence[int]

    @cached_property
    def makers(self) -> Mapping[Piece, int]:
        """For each piece the step that makes it."""
        return {piece: n for n, step in enumerate(self.program.steps) for piece in step.writes}

    def work(self, number: int, fetched: Mapping[int, int], start: float) -> StepWork:
        """Return the work of a step's tiles.

        ``fetched`` holds for each of its layers the bytes of weights that come from memory at
        first; ``start`` is the seconds to start its kernel.
        """
        step, room = self.program.steps[number], self.rooms[number]
        tiling = step.tiling
        # Weights too large for the local buffer pass again for each tile; from memory if the global
        # buffer does not hold them either.
        again = (tiling.weight_passes - 1) / max(1, tiling.tiles - 1)
        first = tuple(self._tile(step, t, fetched[t.layer], t.weights) for t in step.tasks)
        others = tuple(
            self._tile(step, t, t.weights * again * (t.weights > room), t.weights * again)
            for t in step.tasks
        )
        sources = {
            self.makers[piece] for read in step.reads.values() for piece in read
            if piece in self.makers
        }  # fmt: skip
        overhead = start + sum(map(self._seconds_of, step.moves))
        return StepWork(first, others, tiling.tiles, tuple(sorted(sources)), overhead)

    def traffic(self, loads: Sequence[Mapping[int, int]]) -> dict[Scope, int]:
        """Return the bytes read and written at each level."""
        traffic = dict.fromkeys(Scope, 0)
        for step, fetched, room in zip(self.program.steps, loads, self.rooms, strict=True):
            passes, tiles = step.tiling.weight_passes, step.tiling.tiles
            for pieces, times in (
                *((read, step.tiling.input_passes) for read in step.reads.values()),
                (step.writes, 1),
            ):
                for piece, size in pieces.items():
                    traffic[self.scopes[piece]] += size * times
            for task in step.tasks:
                streamed = task.weights * (passes - 1) * (task.weights > room)
                traffic[Scope.MEMORY] += fetched[task.layer] + streamed
                traffic[Scope.GLOBAL] += task.weights * passes
                traffic[Scope.LOCAL] += task.nbytes * tiles
        return traffic

    def _tile(
        self, step: Step, task: LayerTask, from_memory: float, from_global: float
    ) -> TileWork:
        device = self.device
        memory, shared = device.memory_bandwidth / device.clusters, device.global_bandwidth
        loaded = [0.0, 0.0]
        for tensor, size in task.loads.items():
            held = self._shares(step.reads[tensor])
            loaded[0] += size * held[Scope.MEMORY]
            loaded[1] += size * (held[Scope.MEMORY] + held[Scope.GLOBAL])
        for tensor, size in task.exchanged.items():
            held = self._shares(step.reads[tensor]) if tensor in step.reads else _INSIDE
            loaded[1] += size * held[Scope.LOCAL]
        stored = [0.0, 0.0]
        for tensor, size in task.stores.items():
            scope = self.scopes[step.instance, tensor]
            stored[0] += size * (scope is Scope.MEMORY)
            stored[1] += size * (scope is not Scope.LOCAL)
        cores = task.cores / (device.cores * device.clusters)
        local = task.nbytes / (device.local_bandwidth * task.cores / device.cores)
        matrix = task.matrix_flops / (device.peak_flops * cores)
        vector = task.vector_flops / (device.vector_flops * cores)
        buffer = device.cluster_local_buffer * WEIGHT_SHARE / 2
        return TileWork(
            (from_memory / (memory * device.weight_clusters), from_global / shared),
            (loaded[0] / memory, loaded[1] / shared),
            (stored[0] / memory, stored[1] / shared),
            max(matrix, local) if matrix else 0.0,
            vector if matrix else max(vector, local),
            max(1, math.ceil(from_global / buffer)),
            (int(from_memory), int(min(from_global, buffer))),
        )

    def _shares(self, pieces: Mapping[Piece, int]) -> dict[Scope, float]:
        """Return the share of a tensor's pieces at each level."""
        whole = sum(pieces.values())
        shares = dict.fromkeys(Scope, 0.0)
        for piece, size in pieces.items():
            shares[self.scopes[piece]] += size / whole
        return shares

    def _seconds_of(self, move: Move) -> float:
        """Return the seconds of a move; a copy takes none, for the reader's tiles load the data."""
        if move.movement is Movement.COPY:
            return 0.0
        if move.movement is Movement.REDISTRIBUTE:
            in_local = self.scopes[move.producers[0], move.tensor] is Scope.LOCAL
            return in_local * move.nbytes / self.device.global_bandwidth
        pieces = {(p, move.tensor): 1 for p in move.producers}
        # Pieces at one level are placed side by side, and need no concatenation.
        return (
            (len({self.scopes[p] for p in pieces}) > 1) * move.nbytes / self.device.global_bandwidth
        )
