"""Searching schedules of a TVM module with measured costs: its units, compiled for a device."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import tvm

from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import Prepared
from runtime_ext.backend import backend
from runtime_ext.in_place import arrange
from runtime_ext.kernels.unit import UnitSource
from runtime_ext.measure import Progress, StageTimer
from runtime_ext.scheduled_module import reject_tir
from runtime_ext.stage_search import StageSearch
from tvm_ios.blocks import cut_blocks
from tvm_ios.cost.log import LogError, LogHeader, MeasurementLog, ReadOnlyLog, read_header
from tvm_ios.schedule import Schedule
from tvm_ios.search.lazy import LazyStatistics
from tvm_ios.search.network import SearchStatistics
from tvm_ios.search.policies import GRAPHTURBO, HOLISTIC

if TYPE_CHECKING:
    from relay_passes.instance_search import InstanceSearch


class MeasuredSearch(StageSearch):
    """Finds schedules of one prepared module on this machine; policies share measurements."""

    def __init__(
        self, prepared: Prepared, options: MeasuringOptions, progress: Progress | None = None
    ) -> None:
        self.prepared = prepared
        self.options = options
        self.backend = backend(
            options.resolved_target,
            options.lanes,
            options.cache / "kernels",
            database=options.database,
            precision=options.precision,
        )
        self.compiler, device = self.backend.compiler, self.backend.device
        functions = [prepared.outliner.unit(u).function for u in range(len(prepared.units))]
        self._found: dict[tuple[str, int | None], tuple[Schedule, LazyStatistics | None]] = {}
        self._instances: InstanceSearch | None = None
        self.memory = arrange(prepared.units, functions)
        self._header = LogHeader(device.name, str(self.compiler.target), tvm.__version__)
        timer = StageTimer(
            prepared.units, self.source, self.compiler, device, self._log(), self.memory.parts
        )
        blocks = cut_blocks(prepared.units, options.max_block)
        tuned = options.database is not None
        super().__init__(timer, blocks, options, progress, choose_forms=tuned)

    def schedule(
        self, policy: str, memory_budget: int | None = None
    ) -> tuple[Schedule, LazyStatistics | None]:
        """The schedule of a policy, found once; see :meth:`StageSearch.schedule`.

        Raises
        ------
        SearchError
            If the policy is unknown, or runs instances and the target is no CPU.
        """
        key = (policy, memory_budget)
        if key not in self._found:
            self._found[key] = self._schedule(policy, memory_budget)
        return self._found[key]

    def _schedule(
        self, policy: str, memory_budget: int | None
    ) -> tuple[Schedule, LazyStatistics | None]:
        if policy not in (GRAPHTURBO, HOLISTIC) or self.backend.executor != "native":
            return super().schedule(policy, memory_budget)
        from relay_passes.instance_search import InstanceSearch

        if self._instances is None:
            self._instances = InstanceSearch(self)
        instances = self._instances
        return instances.graphturbo() if policy == GRAPHTURBO else instances.holistic()

    def recorded(
        self, policy: str, log: Path, memory_budget: int | None = None
    ) -> tuple[Schedule, SearchStatistics | None]:
        """The best schedule of stages that a log holds; no stage is measured.

        Where the options name a target, any machine's log for it will do: one that a bundle
        brought back, say.

        Raises
        ------
        LogError
            If the file is no log, or one for another device, target or TVM, or does not hold every
            unit, or of policies that co-schedule the times of their rTasks.
        """
        if not log.exists():
            raise LogError(f"there is no measurement log {log}")
        found = read_header(log)
        header = self._header
        if self.options.target is not None:
            header = replace(header, device=found.device)
        made, took = self.recorded_schedule(policy, ReadOnlyLog(log, header), memory_budget)
        return replace(made, device=header.device), took

    def source(self, units: tuple[int, ...]) -> UnitSource:
        """The function and layouts of a unit, or of merged ones."""
        outliner = self.prepared.outliner
        made = outliner.unit(units[0]) if len(units) == 1 else outliner.merged(units)
        reject_tir(made.function, made.name)
        return self.memory.source(made.function, made.data, made.outputs)

    def _log(self) -> MeasurementLog:
        """One log file for each device, target and TVM, so that none is ever refused."""
        digest = hashlib.sha256(repr(self._header).encode()).hexdigest()[:16]
        return MeasurementLog(self.options.cache / "logs" / f"{digest}.jsonl", self._header)
