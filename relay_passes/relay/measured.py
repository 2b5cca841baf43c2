"""Searching schedules of a Relay module with measured costs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import tvm

from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import Prepared
from relay_passes.relay.outline import RelayUnitFunction
from relay_passes.relay.unit_kernels import RelayKernels
from runtime_ext.cpu_device import CpuDevice
from runtime_ext.measure import Progress, StageTimer
from runtime_ext.relay.library import host_target
from runtime_ext.relay.tuning_log import read_autotvm_log
from runtime_ext.stage_search import StageSearch
from tvm_ios.blocks import cut_blocks
from tvm_ios.cost.log import LogHeader, MeasurementLog
from tvm_ios.schedule import Schedule, Strategy
from tvm_ios.search.down_sets import SearchError
from tvm_ios.search.lazy import LazyStatistics
from tvm_ios.search.policies import strategies_of
from tvm_ios.search.rammer import RAMMER


class MeasuredRelaySearch(StageSearch):
    """Finds schedules of one prepared Relay module on this machine."""

    def __init__(
        self, prepared: Prepared, options: MeasuringOptions, progress: Progress | None = None
    ) -> None:
        self.prepared = prepared
        target = tvm.target.Target(options.target or host_target(options.lanes))
        device = CpuDevice(options.lanes)
        header = LogHeader(device.name, str(target), tvm.__version__)
        digest = hashlib.sha256(repr(header).encode()).hexdigest()[:16]
        log = MeasurementLog(Path(options.cache) / "logs" / f"{digest}.jsonl", header)
        tuned = read_autotvm_log(options.database, target) if options.database else None
        kernels = RelayKernels(target, tuned)
        timer = StageTimer(prepared.units, self.source, kernels, device, log)
        blocks = cut_blocks(prepared.units, options.max_block)
        super().__init__(timer, blocks, options, progress)

    def schedule(
        self, policy: str, memory_budget: int | None = None
    ) -> tuple[Schedule, LazyStatistics | None]:
        """The schedule of a policy; see :meth:`runtime_ext.stage_search.StageSearch.schedule`.

        Raises
        ------
        SearchError
            If the policy co-schedules: calls in the IR say nothing of tiles.
        """
        if policy == RAMMER or Strategy.CO_SCHEDULE in strategies_of(policy):
            raise SearchError(
                f"the policy {policy!r} places tiles, which is measured for Relax modules only: "
                "choose ios-both, or give the cost of a device"
            )
        return super().schedule(policy, memory_budget)

    def source(self, units: tuple[int, ...]) -> RelayUnitFunction:
        """The function of a unit, or of merged ones."""
        outliner = self.prepared.outliner
        return outliner.unit(units[0]) if len(units) == 1 else outliner.merged(units)
