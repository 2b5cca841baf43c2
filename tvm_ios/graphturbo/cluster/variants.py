"""Layer by layer, and the four variants of the paper's figure 15, on a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.cluster.simulate import Optimisations, Simulation, simulate
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import LayerTask, tasks_of
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import Layers, form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter

#: Figure 15's bars, each with what the one before has.
VARIANTS = ("layers", "global", "local", "instances", "prefetch")

#: Of so many instances at most the exact order is searched.
_EXACT = 32


@dataclass(frozen=True, slots=True)
class Variants:
    """The simulated variants of one network at one batch.

    Attributes
    ----------
    batch
        Images of a cluster.
    simulations
        By the names of :data:`VARIANTS`: layer by layer through memory; results kept in the
        global buffer; in the local buffers; in instances; with weights fetched ahead.
    level
        The buffer that the instances were sized to.
    """

    batch: int
    simulations: Mapping[str, Simulation]
    level: Scope

    def throughput(self, variant: str, device: MemoryHierarchy) -> float:
        """Images a second of all clusters."""
        return self.batch * device.clusters / self.simulations[variant].seconds


def simulate_variants(graph: OpGraph, device: MemoryHierarchy) -> Variants:
    """Simulate all variants on the images of one cluster.

    Parameters
    ----------
    graph
        The graph of operators, with the batch of a cluster.
    device
        The device to simulate.
    """
    layers = form_layers(graph)
    alone = _tasks(_unsplit(layers), device)
    simulations = {
        "layers": simulate(alone, device, Optimisations(Scope.MEMORY, kernel_a_layer=True)),
        "global": simulate(alone, device, Optimisations(Scope.GLOBAL)),
        "local": simulate(alone, device, Optimisations(Scope.LOCAL)),
    }
    best: tuple[float, Scope, tuple[LayerTask, ...]] | None = None
    for level in (Scope.LOCAL, Scope.GLOBAL):
        tasks = _tasks(partition(graph, device, level, layers), device)
        seconds = simulate(tasks, device, Optimisations(Scope.LOCAL)).seconds
        if best is None or seconds < best[0]:
            best = (seconds, level, tasks)
    assert best is not None
    simulations["instances"] = simulate(best[2], device, Optimisations(Scope.LOCAL))
    simulations["prefetch"] = simulate(best[2], device, Optimisations(Scope.LOCAL, prefetch=True))
    return Variants(graph.batch, simulations, best[1])


def partition(
    graph: OpGraph,
    device: MemoryHierarchy,
    level: Scope = Scope.LOCAL,
    layers: Layers | None = None,
) -> Instances:
    """Group a graph, and split it into instances that fit a buffer of the device.

    Parameters
    ----------
    graph
        The graph of operators.
    device
        Whose buffers and cores.
    level
        The local buffers of a cluster together, or its global buffer (section 3.6).
    layers
        The graph's, if they are known already.
    """
    layers = layers or form_layers(graph)
    room = device.cluster_local_buffer if level is Scope.LOCAL else device.global_buffer
    splitter = Splitter(layers, room, device.cores)
    return split_into_instances(layers, group(splitter))


def tune_batch(
    run: Callable[[int], float], most: int, fits: Callable[[int], bool] = lambda _: True
) -> int:
    """The batch of a cluster with the highest throughput (section 5.1).

    Parameters
    ----------
    run
        Seconds that a cluster takes for a batch.
    most
        Powers of two up to this are tried.
    fits
        Tells which of them can run at all; one always can.
    """
    batches = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return max((b for b in batches if b == 1 or fits(b)), key=lambda b: b / run(b))


def _unsplit(layers: Layers) -> Instances:
    """All layers as one sub-graph: each is computed for the whole batch."""
    return split_into_instances(layers, [SubGraph((1 << len(layers)) - 1, None)])


def _tasks(instances: Instances, device: MemoryHierarchy) -> tuple[LayerTask, ...]:
    order = order_instances(instances, exact=len(instances) <= _EXACT)[0].order
    return tasks_of(instances, order, device.cores)
