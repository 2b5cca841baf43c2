"""Searching schedules of a Relax module with measured costs: its units, compiled for a device."""

from __future__ import annotations

from relay_passes.measuring_options import MeasuringOptions
from relay_passes.module_search import ModuleSearch
from relay_passes.prepare import Prepared, apply_schedule
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.targets import target_backend
from runtime_ext.tuning.log_use import LogUse
from runtime_ext.units.in_place import arrange
from runtime_ext.units.tir_calls import with_tir
from runtime_ext.units.unit import UnitSource
from tvm_ios.progress import Progress, Steps
from tvm_ios.schedule.schedule import Schedule


class MeasuredSearch(ModuleSearch):
    """Finds schedules of one prepared module on this machine; policies share measurements."""

    def __init__(
        self, prepared: Prepared, options: MeasuringOptions, progress: Progress | None = None
    ) -> None:
        self.backend = target_backend(
            options.resolved_target,
            options.lanes,
            options.cache / "kernels",
            database=options.database,
            precision=options.precision,
            cudnn=options.cudnn,
        )
        self.compiler, self.executor = self.backend.compiler, self.backend.executor
        functions = [prepared.outliner.unit(u).function for u in range(len(prepared.units))]
        self.memory = arrange(prepared.units, functions)
        super().__init__(
            prepared,
            options,
            self.compiler.target,
            self.compiler,
            self.backend.device,
            progress,
            parts=self.memory.parts,
            choose_forms=options.database is not None or self.backend.cudnn,
        )

    def source(self, units: tuple[int, ...]) -> UnitSource:
        """The function and layouts of a unit, or of merged ones."""
        outliner = self.prepared.outliner
        made = outliner.unit(units[0]) if len(units) == 1 else outliner.merged(units)
        function = with_tir(made.function, self.prepared.module)
        return self.memory.source(function, made.data, made.outputs)

    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """What a schedule makes of the module."""
        return build(
            apply_schedule(self.prepared, schedule),
            lanes=self.options.lanes,
            name=self.prepared.units.name,
            compiler=self.compiler,
            progress=progress,
        )

    def log_use(self) -> LogUse | None:
        """Of the kernels compiled so far."""
        return self.compiler.log_use()
