"""A cluster that runs tasks one after the other: a model of time from a hierarchy's figures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

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
        The time of all tasks.
    compute_seconds
        The time of arithmetic alone.
    traffic
        Bytes read and written at each level, weights included.
    tensors
        Pieces of tensors at each level, as the paper's table 3 counts them.
    kernels
        How many kernels were started.
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
    lives = _lives(tasks, rules.fastest)
    capacities = {
        Scope.LOCAL: device.cluster_local_buffer,
        Scope.GLOBAL: device.global_buffer,
    }
    return dict(zip(lives, place_tensors(list(lives.values()), capacities), strict=True))


def _lives(tasks: Sequence[LayerTask], fastest: Scope) -> dict[Piece, Live]:
    """When each piece is in use, and its size."""
    lives: dict[Piece, Live] = {}
    for place, task in enumerate(tasks):
        for piece, size in (*task.reads.items(), *task.writes.items()):
            # The user's inputs come from memory.
            scope = Scope.MEMORY if piece[0] == INPUT else fastest
            live = lives.get(piece, Live(size, place, place, scope))
            lives[piece] = replace(live, nbytes=max(size, live.nbytes), last=place)
    return lives


def _most_at_once(tasks: Sequence[LayerTask], scopes: Mapping[Piece, Scope], scope: Scope) -> int:
    change = [0] * (len(tasks) + 1)
    for piece, live in _lives(tasks, scope).items():
        if scopes[piece] is scope:
            change[live.first] += live.nbytes
            change[live.last + 1] -= live.nbytes
    return max(accumulate(change))


def _weight_loads(tasks: Sequence[LayerTask], room: int) -> list[int]:
    """Bytes of weights that each task has to fetch from memory; the last used ones are kept."""
    cached: OrderedDict[int, int] = OrderedDict()
    loads: list[int] = []
    for task in tasks:
        if task.layer in cached:
            cached.move_to_end(task.layer)
            loads.append(0)
            continue
        loads.append(task.weights)
        cached[task.layer] = task.weights
        while cached and sum(cached.values()) > room:
            cached.popitem(last=False)
    return loads
