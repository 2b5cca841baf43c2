"""The units of a Relay module for a target: their functions, kernels and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import tvm

from relay_passes.pipeline import applied, for_target
from relay_passes.prepared import Prepared
from relay_passes.relay.expressions import shape_of_type
from relay_passes.relay.kernels import RelayUnitFunction, unit_concatenation
from relay_passes.relay.layouts.choice import alter_layouts
from relay_passes.relay.layouts.transforms import Border, blocking
from relay_passes.relay.outline import outlined
from relay_passes.relay.unit_kernels import RelayKernels
from relay_passes.search_options import SearchOptions
from runtime_ext.backend import Backend
from runtime_ext.cpu.device import CpuDevice
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.relay.build import build_calls
from runtime_ext.relay.in_place import SlicedTensors, arrange
from runtime_ext.relay.tuning_log import AutotvmLog
from runtime_ext.target_architecture import cuda_arch
from runtime_ext.targets import cuda_device
from runtime_ext.tuning_log.use import LogUse
from tvm_ios.errors import UserError
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import Schedule


class RelayUnits:
    """The units of a Relay module for a target: a ``TargetUnits``.

    See :class:`relay_passes.measured_module.TargetUnits`.
    """

    #: Tuned kernels come from the log that is given.
    choose_forms = False

    def __init__(self, prepared: Prepared, options: SearchOptions) -> None:
        _require_kernels_of_tvm(options)
        self.options = options
        self.prepared = for_target(prepared, options)
        self._layouts = self.prepared.outliner.layouts
        self._tuned = self._layouts.log
        self.backend = _backend(self._layouts.target, options.lanes, self._tuned)
        self.parts = self._memory.parts

    def plain(self, units: tuple[int, ...]) -> RelayUnitFunction:
        """Return the function of a unit, or of merged ones, in the layouts of the model."""
        outliner = self.prepared.outliner
        return outliner.unit(units[0]) if len(units) == 1 else outliner.merged(units)

    def source(self, units: tuple[int, ...]) -> RelayUnitFunction:
        """Return the function in the layouts and memory places of the sequential program."""
        sequential, borders = self._sequential
        function = sequential[units[0]] if len(units) == 1 else self._merged(units, borders)
        cuts = self._memory.of((*function.data, *function.outputs))
        if not any(cuts):
            return function
        return replace(function, cuts=cuts, silent=units[0] in self._memory.silent)

    def _merged(self, units: tuple[int, ...], borders: Mapping[int, Border]) -> RelayUnitFunction:
        merged = self.plain(units)
        if not borders:
            return merged
        tensors, types = self.prepared.units.tensors, {t: b.type for t, b in borders.items()}
        blocks = {t: blocking(tensors[t].shape, kind) for t, kind in types.items()}
        inputs = {t: Border(types[t], blocks[t]) for t in merged.data}
        results = {t: blocks[t] for t in merged.outputs}
        return alter_layouts([merged], inputs, results, self._layouts)[0][0]

    @cached_property
    def _sequential(self) -> tuple[list[RelayUnitFunction], dict[int, Border]]:
        units = range(len(self.prepared.units))
        return self.prepared.outliner.altered([self.plain((unit,)) for unit in units])

    @cached_property
    def _memory(self) -> SlicedTensors:
        """The arrangement of the sequential program's tensors that are parts of others."""
        functions, borders = self._sequential
        units = self.prepared.units
        shapes = {t: shape_of_type(b.type, units.tensors[t].name) for t, b in borders.items()}
        graph = replace(
            units,
            tensors=tuple(
                replace(tensor, shape=shapes.get(number, tensor.shape))
                for number, tensor in enumerate(units.tensors)
            ),
            operators=tuple(
                replace(op, inputs=unit.data)
                for op, unit in zip(units.operators, functions, strict=True)
            ),
        )
        on_cpu = self.backend.executor == "native"
        joined = map(unit_concatenation, functions) if on_cpu else [None] * len(functions)
        return arrange(graph, list(joined))

    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """Build the program of a schedule."""
        prepared, unrolled, attached = applied(self.prepared, schedule)
        main, calls = outlined(prepared.module, prepared.outliner, unrolled)
        return build_calls(
            main,
            calls,
            attached,
            target=self.backend.compiler.target,
            lanes=self.options.lanes,
            name=self.prepared.units.name,
            log=self.options.database,
        )

    def log_use(self) -> LogUse | None:
        """Count the tunable operators that the tuning log has and lacks; None without a log."""
        if self._tuned is None:
            return None
        tuned, tunable = self._tuned.coverage(self.prepared.module)
        return LogUse(tuned, tuned, tunable - tuned)


def _backend(
    target: tvm.target.Target, lanes: int, log: AutotvmLog | None
) -> Backend[RelayKernels]:
    """Return the kernels that ``relay.build`` makes, and the device on which they are timed."""
    kernels, arch = RelayKernels(target, log), cuda_arch(target)
    if arch is None:
        return Backend(kernels, CpuDevice(lanes), "native")
    return Backend(kernels, cuda_device(arch, lanes, "give --cost a device or a log"), "cuda")


def _require_kernels_of_tvm(options: SearchOptions) -> None:
    """Raise UserError for options that only kernels of Relax modules support."""
    if options.precision not in ("", "float32"):
        raise UserError(
            f"kernels of Relay compute in the types of the module, not in {options.precision}: "
            "leave out --precision, or convert the module by relay.transform.ToMixedPrecision"
        )
    if options.device is not None:
        raise UserError(
            f"programs of Relay are timed on GPUs, not on {options.device.name!r}: leave out "
            "--device, or --dialect relay"
        )
    if options.cudnn:
        raise UserError("programs of Relay do not call cuDNN: leave out --cudnn")
