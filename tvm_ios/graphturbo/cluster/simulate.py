"""A cluster that runs tasks one after the other: a model of time from a hierarchy's figures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.cluster.spilling import Live, Scope, place_tensors
from tvm_ios.graphturbo.cluster.tasks import INPUT, LayerTask, Piece


@dataclass(frozen=True, slots=True)
class Optimisations:
    """Which of GraphTurbo's optimisations a simulation has.

    Attributes
    ----------
    fastest
        The fastest buffer that results of layers may stay in.
    prefetch
        Weights are loaded behind the layer before (section 4.4).
    kernel_a_layer
        Each layer is a kernel of its own; otherwise each instance.
    """

    fastest: Scope
    prefetch: bool = False
    kernel_a_layer: bool = False


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a cluster did.

    Attributes
    ----------
    seconds
        For all tasks.
    compute_seconds
        For arithmetic alone.
    traffic
        Bytes read and written at each level, weights included.
    tensors
        Pieces of tensors at each level, as the paper's table 3 counts them.
    kernels
        Started.
    """

    seconds: float
    compute_seconds: float
    traffic: Mapping[Scope, int]
    tensors: Mapping[Scope, int]
    kernels: int


def simulate(
    tasks: Sequence[LayerTask], device: MemoryHierarchy, rules: Optimisations
) -> Simulation:
    """Time tasks on one cluster.

    A task takes the longest of its arithmetic and its traffic at each level: tiles of a layer
    overlap these. Its weights are loaded before it, or behind the task before it. What of the
    global buffer tensors leave free keeps the weights that were used last.

    Parameters
    ----------
    tasks
        The tasks in the order in which they run.
    device
        Its figures; a cluster has its share of the peak and of the memory's bandwidth.
    rules
        What is switched on.
    """
    scopes = _scopes(tasks, device, rules)
    room = device.global_buffer - _most_at_once(tasks, scopes, Scope.GLOBAL)
    loads = _weight_loads(tasks, room)
    rates = {
        Scope.MEMORY: device.memory_bandwidth / device.clusters,
        Scope.GLOBAL: device.global_bandwidth,
        Scope.LOCAL: device.local_bandwidth,
    }
    peak = device.peak_flops / device.clusters
    traffic = dict.fromkeys(Scope, 0)
    seconds = compute_seconds = 0.0
    kernels = 0
    for place, task in enumerate(tasks):
        moved = dict.fromkeys(Scope, 0)
        for pieces in (task.reads, task.writes):
            for piece, size in pieces.items():
                moved[scopes[piece]] += size
        compute = task.flops / (peak * task.cores / device.cores)
        behind = place + 1 if rules.prefetch else place
        weights = {Scope.MEMORY: 0, Scope.GLOBAL: 0, Scope.LOCAL: 0}
        if behind < len(tasks):
            weights[Scope.MEMORY] = loads[behind]
            weights[Scope.GLOBAL] = tasks[behind].weights
        if rules.prefetch:
            seconds += max(compute, *((moved[s] + weights[s]) / rate for s, rate in rates.items()))
        else:
            seconds += max(compute, *(moved[s] / rate for s, rate in rates.items()))
            seconds += max(weights[s] / rate for s, rate in rates.items())
        compute_seconds += compute
        starts = rules.kernel_a_layer or not place or tasks[place - 1].instance != task.instance
        kernels += starts
        for scope in Scope:
            traffic[scope] += moved[scope]
        traffic[Scope.MEMORY] += loads[place]
        traffic[Scope.GLOBAL] += task.weights
    if rules.prefetch and tasks:
        seconds += loads[0] / rates[Scope.MEMORY]  # nothing runs before the first
    counts = dict.fromkeys(Scope, 0)
    for (maker, _), scope in scopes.items():
        counts[scope] += maker != INPUT
    seconds += kernels * device.kernel_overhead
    return Simulation(seconds, compute_seconds, traffic, counts, kernels)


def _scopes(
    tasks: Sequence[LayerTask], device: MemoryHierarchy, rules: Optimisations
) -> dict[Piece, Scope]:
    first: dict[Piece, int] = {}
    last: dict[Piece, int] = {}
    sizes: dict[Piece, int] = {}
    for place, task in enumerate(tasks):
        for piece, size in (*task.reads.items(), *task.writes.items()):
            first.setdefault(piece, place)
            last[piece] = place
            sizes[piece] = max(size, sizes.get(piece, 0))
    pieces = list(first)
    lives = [
        # The user's inputs come from memory.
        Live(sizes[p], first[p], last[p], Scope.MEMORY if p[0] == INPUT else rules.fastest)
        for p in pieces
    ]
    capacities = {
        Scope.LOCAL: device.cluster_local_buffer,
        Scope.GLOBAL: device.global_buffer,
    }
    return dict(zip(pieces, place_tensors(lives, capacities), strict=True))


def _most_at_once(tasks: Sequence[LayerTask], scopes: Mapping[Piece, Scope], scope: Scope) -> int:
    begins: dict[Piece, int] = {}
    ends: dict[Piece, int] = {}
    sizes: dict[Piece, int] = {}
    for place, task in enumerate(tasks):
        for piece, size in (*task.reads.items(), *task.writes.items()):
            if scopes[piece] is scope:
                begins.setdefault(piece, place)
                ends[piece] = place
                sizes[piece] = max(size, sizes.get(piece, 0))
    change = [0] * (len(tasks) + 1)
    for piece, begin in begins.items():
        change[begin] += sizes[piece]
        change[ends[piece] + 1] -= sizes[piece]
    held = most = 0
    for step in change:
        held += step
        most = max(most, held)
    return most


def _weight_loads(tasks: Sequence[LayerTask], room: int) -> list[int]:
    """Bytes of weights that each task has to fetch from memory; the last used ones are kept."""
    kept: OrderedDict[int, int] = OrderedDict()
    loads: list[int] = []
    for task in tasks:
        if task.layer in kept:
            kept.move_to_end(task.layer)
            loads.append(0)
            continue
        loads.append(task.weights)
        kept[task.layer] = task.weights
        while kept and sum(kept.values()) > room:
            kept.popitem(last=False)
    return loads
