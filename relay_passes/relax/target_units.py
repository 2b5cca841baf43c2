"""The units of a Relax module for a target: their functions, kernels and device."""

from __future__ import annotations

from relay_passes.pipeline import applied
from relay_passes.prepared import Prepared
from relay_passes.relax.scheduled import scheduled_units
from relay_passes.search_options import SearchOptions
from runtime_ext.execution.buffers import PackedConstants
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.kernels.relax_function import with_tir
from runtime_ext.targets import target_backend
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.unit_build import build_units
from runtime_ext.units.in_place import arrange
from runtime_ext.units.unit import UnitSource
from tvm_ios.program.bfloat16 import require_precision
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import Schedule


class RelaxUnits:
    """The units of a Relax module for a target: a ``TargetUnits``.

    See :class:`relay_passes.measured_module.TargetUnits`.
    """

    def __init__(self, prepared: Prepared, options: SearchOptions) -> None:
        self.prepared = prepared
        self.options = options
        self.backend = target_backend(
            options.target_for(unit.kind for unit in prepared.units.operators),
            options.lanes,
            options.cache / "kernels",
            database=options.database,
            precision=options.precision,
            cudnn=options.cudnn,
            without=options.without,
            device=options.device,
            fleet=options.fleet,
        )
        self.choose_forms = options.database is not None or self.backend.has_named_forms
        functions = [prepared.outliner.unit(u).function for u in range(len(prepared.units))]
        compiler = self.backend.compiler
        self._memory = arrange(prepared.units, functions, compiler.encodings, compiler.line)
        self.parts = self._memory.parts
        self._packed = PackedConstants()

    def source(self, units: tuple[int, ...]) -> UnitSource:
        """Return the function and layouts of a unit, of a chain or of merged units."""
        unit = self.prepared.outliner.piece(units)
        function = with_tir(unit.function, self.prepared.module)
        return self._memory.source(function, unit.data, unit.outputs, unit.constants)

    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """Build the program of a schedule."""
        names = schedule.kernels.values()
        require_precision(schedule.policy, names, self.options.precision)
        units = scheduled_units(applied(self.prepared, schedule))
        options, compiler = self.options, self.backend.compiler
        return build_units(units, compiler, options.lanes, progress, self._packed)

    def log_use(self) -> LogUse | None:
        """Count the compiled kernels that the tuning log has and lacks; None without a log."""
        return self.backend.compiler.log_use()
