"""The plan of an accelerator: the instances of each cluster, their order, cores and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graphturbo.cluster.engines import Engine
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.graphturbo.cluster.simulate import Simulation
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import ClusterProgram, Step
from tvm_ios.graphturbo.cluster.variants import Chosen, Variants
from tvm_ios.progress import Progress, silent


@dataclass(frozen=True)
class AcceleratorPlan:
    """GraphTurbo's schedule of a model on a described accelerator, and its simulation.

    ``graph`` has the batch of a cluster, ``batch`` is that of all clusters together. ``chosen``
    says how instances were sized and ordered.
    """

    graph: OpGraph
    device: MemoryHierarchy
    batch: int
    placement: Placement
    chosen: Chosen
    program: ClusterProgram
    simulation: Simulation

    @property
    def warning(self) -> str | None:
        """A sentence that warns if the instances' order needs more than its buffer, or None."""
        peak, buffer = self.chosen.order.peak, self.chosen.capacity
        if peak <= buffer:
            return None
        return (
            f"the {self.chosen.order.name} order of the instances needs {kib(peak)} KiB at its "
            f"peak, and the buffer that each fits has {kib(buffer)} KiB: what lives longest goes "
            "to slower memory; a smaller --batch avoids that"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data: names of operators and tensors, bytes, milliseconds."""
        simulation, order = self.simulation, self.chosen.order
        instances = self.program.instances
        key = [[i.subgraph, i.part] for i in instances.instances]
        spans = self.spans()
        return {
            "format": "tvm-ios accelerator plan",
            "version": 1,
            "model": self.graph.name,
            "fingerprint": self.graph.fingerprint,
            "policy": "graphturbo",
            "device": self.device.name,
            "placement": self.placement,
            "batch": self.batch,
            "clusters": self.device.clusters,
            "batch_of_a_cluster": self.graph.batch,
            "latency_ms": simulation.seconds * 1e3,
            "compute_units_busy": {
                engine.name.lower(): simulation.usage(engine) for engine in Engine
            },
            "kernels": simulation.kernels,
            "tensors_in": _by_level(simulation.tensors),
            "bytes_moved": _by_level(simulation.traffic),
            "instances_fit_bytes": self.chosen.capacity,
            "order": {
                "name": order.name,
                "peak_bytes": order.peak,
                "proven": order.proven,
                "instances": [key[number] for number in self.program.order],
            },
            "warning": self.warning,
            "subgraphs": [self._subgraph(n) for n in range(len(instances.subgraphs))],
            "instances": [self._instance(n, *spans[n]) for n in self.program.order],
            "moves": [
                {
                    "movement": move.movement.value,
                    "tensor": self.graph.tensors[move.tensor].name,
                    "before": key[move.reader],
                    "from": [key[producer] for producer in move.producers],
                    "binding": move.binding,
                    "bytes": move.nbytes,
                }
                for move in self.program.moves
            ],
        }

    def spans(self) -> dict[int, tuple[float, float]]:
        """Return the begin and end of each instance, in seconds."""
        spans: dict[int, tuple[float, float]] = {}
        for step, (begin, end) in zip(self.program.steps, self.simulation.spans, strict=True):
            before = spans.get(step.instance, (begin, end))
            spans[step.instance] = min(before[0], begin), max(before[1], end)
        return spans

    def _subgraph(self, number: int) -> dict[str, Any]:
        subgraph = self.program.instances.subgraphs[number]
        one = next(i for i in self.program.order if self._subgraph_of(i) == number)
        return {
            "operators": sum(
                len(self.program.instances.layers.members[layer]) for layer in bits(subgraph.layers)
            ),
            "instances": subgraph.factor,
            "axis": subgraph.split.axis if subgraph.split and subgraph.factor > 1 else None,
            "runs": [self._run(step) for step in self.program.steps if step.instance == one],
        }

    def _run(self, step: Step) -> dict[str, Any]:
        """Return a run's layers, and the extents of its tiles along the axes that are cut."""
        layers, tiling = self.program.instances.layers, step.tiling
        operators = self.graph.operators
        return {
            "layers": [
                {
                    "operators": [operators[op].name for op in layers.members[task.layer]],
                    "binding": task.binding,
                }
                for task in step.tasks
            ],
            "tile": [[axis, size] for axis, size in tiling.loops],
            "tiles": tiling.tiles,
            "weight_passes": tiling.weight_passes,
            "input_passes": tiling.input_passes,
            "local_bytes": tiling.nbytes,
        }

    def _instance(self, number: int, begin: float, end: float) -> dict[str, Any]:
        instance, bindings = self.program.instances.instances[number], self.program.bindings
        scopes = self.simulation.scopes
        return {
            "subgraph": instance.subgraph,
            "part": instance.part,
            "binding": bindings.bind[number],
            "scope": bindings.scope[number].value,
            "peak_bytes": instance.work.peak,
            "outputs": {
                self.graph.tensors[tensor].name: scopes[number, tensor].value
                for tensor in instance.owned
                if (number, tensor) in scopes
            },
            "begin_ms": begin * 1e3,
            "end_ms": end * 1e3,
        }

    def _subgraph_of(self, instance: int) -> int:
        return self.program.instances.instances[instance].subgraph


def plan_for(
    graph: OpGraph,
    device: MemoryHierarchy,
    batch: int,
    placement: Placement = Placement.FASTEST,
    progress: Progress = silent,
) -> AcceleratorPlan:
    """Schedule a model for an accelerator, with all of GraphTurbo's optimisations.

    ``graph`` is one of operators with the batch of a cluster, ``batch`` that of all clusters
    together.
    """
    variants = Variants(graph, device, placement, progress)
    chosen, program = variants.split("prefetch")
    simulation = variants["prefetch"]
    return AcceleratorPlan(graph, device, batch, placement, chosen, program, simulation)


def _by_level(figures: Mapping[Scope, int]) -> dict[str, int]:
    return {scope.value: figures[scope] for scope in Scope}
