"""Searching schedules of a TVM module with measured costs: what the dialects share."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import Prepared
from runtime_ext.execution.built_model import BuiltModel
from tvm_ios.costs.log import LogError, LogHeader, MeasurementLog, ReadOnlyLog, read_header
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.ios.lazy import LazyStatistics
from tvm_ios.ios.network import SearchStatistics
from tvm_ios.ios.strategies import GRAPHTURBO, HOLISTIC
from tvm_ios.measuring.device import Device, Kernels
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_search import StageSearch
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.program.program_builder import NO_PARTS
from tvm_ios.progress import Progress, Steps
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.instance_search import InstanceSearch
    from runtime_ext.tuning.log_use import LogUse
    from tvm_ios.program.program import Part


class ModuleSearch(StageSearch):
    """Finds schedules of one prepared module; policies share measurements.

    Parameters
    ----------
    prepared
        The module.
    options
        How to measure.
    target
        Of the kernels.
    kernels
        Makes the code of units.
    device
        Times it.
    progress
        Called with (what, done, total).
    parts
        Tensors that lie in others.
    choose_forms
        As of :class:`tvm_ios.measuring.stage_search.StageSearch`.
    """

    #: Which executor runs what is built: ``native`` or ``cuda``.
    executor: str = "native"

    def __init__(
        self,
        prepared: Prepared,
        options: MeasuringOptions,
        target: tvm.target.Target,
        kernels: Kernels,
        device: Device,
        progress: Progress | None = None,
        *,
        parts: Mapping[int, Part] = NO_PARTS,
        choose_forms: bool = False,
    ) -> None:
        self.prepared = prepared
        self.options = options
        self.target = target
        self._header = LogHeader(device.name, str(target), tvm.__version__)
        units = MeasuredUnits(prepared.units, self.source, kernels, device, self._log(), parts)
        self._found: dict[tuple[str, int | None], tuple[Schedule, LazyStatistics | None]] = {}
        self._instances: InstanceSearch | None = None
        blocks = cut_blocks(prepared.units, options.max_block)
        super().__init__(StageTimer(units), blocks, options, progress, choose_forms=choose_forms)

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
        if policy not in (GRAPHTURBO, HOLISTIC) or self.executor != "native":
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

    @abstractmethod
    def source(self, units: tuple[int, ...]) -> Any:
        """The function of a unit, or of merged ones, as the kernels' maker takes it."""

    @abstractmethod
    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """What a schedule makes of the module; ``progress`` gets kernels done and all of them."""

    @abstractmethod
    def log_use(self) -> LogUse | None:
        """What the tuning log had; None without a log."""

    def _log(self) -> MeasurementLog:
        """One log file for each device, target and TVM, so that none is ever refused."""
        digest = hashlib.sha256(repr(self._header).encode()).hexdigest()[:16]
        return MeasurementLog(self.options.cache / "logs" / f"{digest}.jsonl", self._header)
