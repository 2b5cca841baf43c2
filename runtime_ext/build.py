"""Compile a scheduled module, of Relax or Relay, to a model that runs."""

# TVM's nodes get their attributes at run time.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm

from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.machine.this_machine import available_lanes, cache_folder, host_target
from runtime_ext.targets import target_backend
from tvm_ios.progress import Steps

if TYPE_CHECKING:
    from runtime_ext.units.unit_compiler import UnitCompiler


def build(
    module: tvm.IRModule,
    *,
    target: Any = None,
    lanes: int | None = None,
    name: str = "model",
    compiler: UnitCompiler | None = None,
    progress: Steps | None = None,
) -> BuiltModel:
    """Compile a module that ``IOSSchedule`` made.

    Parameters
    ----------
    module
        A module that carries a schedule. For one of Relay :func:`runtime_ext.relay.build.build`
        takes a tuning log, too.
    target
        A TVM target; this machine by default.
    lanes
        Threads; all that the process may use by default.
    name
        The name of the model.
    compiler
        A compiler that may have the kernels already; by default a new one of the target.
    progress
        Called with the number of compiled kernels and that of all.

    Raises
    ------
    ModuleError
        If the module is not in the scheduled form.
    UserError
        If the schedule names an rKernel that a unit does not have.
    """
    if any(type(f).__module__.startswith("tvm.relay") for f in module.functions.values()):
        from runtime_ext.relay.build import build as build_relay

        return build_relay(module, target=target, lanes=lanes, name=name)
    # The TVM that has Relay lacks modules that these import.
    from runtime_ext.scheduled_module import read_scheduled_module
    from runtime_ext.unit_build import build_units

    lanes = lanes or available_lanes()
    units = read_scheduled_module(module, name)
    if compiler is None:
        target = target or host_target(lanes, forms=set(units.kernels.values()))
        compiler = target_backend(target, lanes, cache_folder() / "kernels").compiler
    return build_units(units, compiler, lanes, progress)  # pyright: ignore[reportArgumentType]
