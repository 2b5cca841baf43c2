"""The pass that splits ``main`` into sub-graphs and runs their instances out of fast memory."""

from __future__ import annotations

from typing import Any

import tvm

from relay_passes.dialect import dialect_of
from relay_passes.instances.subgraph_functions import (
    is_partitioned,
    outline_instances,
    without_subgraphs,
)
from relay_passes.ios_schedule import let_pass
from relay_passes.shown_pass import module_pass
from runtime_ext.cpu.hierarchy import cpu_hierarchy
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy, load_hierarchy
from tvm_ios.errors import UserError
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter


@module_pass
class GraphTurboPartition:
    """Partition ``main`` into coarse sub-graphs and split these along the batch (GraphTurbo).

    The result is a valid module of the same dialect that computes the same. Each sub-graph is a
    private function of a part of the batch, with the attribute ``graphturbo.subgraph``; ``main``
    calls it once for each instance, in the order that needs the least fast memory. The module
    attribute ``graphturbo.partition`` holds the factors and the order. A module that is
    partitioned already is returned unchanged, unless something has changed its ``main`` since.
    Relay modules need the virtual machine, the only executor of Relay that calls such functions.

    Parameters
    ----------
    device
        ``"cpu"`` for this machine, where an instance must fit into the L2 cache of the lane that
        runs it; or a memory hierarchy, its name or its file, where an instance must fit into the
        local buffers of a cluster.
    capacity
        Bytes of fast memory of an instance, instead of the device's.
    """

    def __init__(
        self, device: str | MemoryHierarchy = "cpu", *, capacity: int | None = None
    ) -> None:
        if capacity is not None and capacity < 1:
            raise UserError(f"an instance cannot live in {capacity} bytes of fast memory")
        if isinstance(device, str) and device != "cpu":
            device = load_hierarchy(device)
        self.device = device
        self.capacity = capacity

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the partitioned module; called by :class:`tvm.transform.Pass`."""
        try:
            return mod if is_partitioned(mod) else self._partition(mod)
        except UserError as error:
            let_pass(type(error))
            raise

    def _partition(self, module: tvm.IRModule) -> tvm.IRModule:
        device = self._hierarchy()
        capacity = self.capacity or (
            device.local_buffer if device.name == "cpu" else device.cluster_local_buffer
        )
        dialect = dialect_of(module)
        canonical = without_subgraphs(dialect, dialect.canonicalise(module))
        extraction = dialect.extract(canonical, "model")
        layers = form_layers(extraction.graph)
        splitter = Splitter(layers, capacity, device.cores, axes=(0,))
        instances = split_into_instances(layers, group(splitter))
        best = order_instances(instances, exact=False)[0]
        return outline_instances(dialect, canonical, extraction, instances, best.order)

    def _hierarchy(self) -> MemoryHierarchy:
        if isinstance(self.device, MemoryHierarchy):
            return self.device
        return cpu_hierarchy(available_lanes())
