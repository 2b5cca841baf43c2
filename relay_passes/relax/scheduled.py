"""Collect the functions, constants and stages that a schedule of a Relax module runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relay_passes.dialect import DialectError
from relay_passes.prepared import Applied
from relay_passes.unit_outliner import UnitFunction
from runtime_ext.ir_form import output_names
from runtime_ext.kernels.relax_function import with_tir
from runtime_ext.scheduled_units import (
    ScheduledUnits,
    latencies_of_calls,
    placed_stages,
    stages_of_calls,
)
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph


def scheduled_units(applied: Applied) -> ScheduledUnits:
    """Return the functions of units and merged units that a schedule runs, and their constants.

    Raise ScheduleError if units cannot be merged.
    """
    prepared, schedule, attached = applied
    units, module = prepared.units, prepared.module
    calls = prepared.outliner.calls(schedule)
    numbers: dict[int, int] = {}
    tensors: list[Tensor] = []

    def add(tensor: int) -> int:
        numbers[tensor] = len(tensors)
        tensors.append(units.tensors[tensor])
        return numbers[tensor]

    inputs = tuple(map(add, units.inputs))
    operators: list[Operator] = []
    for call in calls:
        function = call.function
        _require_types(function, units)
        data = tuple(numbers[tensor] for tensor in function.data)
        outputs = tuple(map(add, function.outputs))
        operators.append(Operator(function.name, "unit", data, outputs))
    constants = [t for t in dict.fromkeys(units.outputs) if units.tensors[t].constant]
    constant_outputs = {add(tensor): prepared.outliner.value(tensor) for tensor in constants}
    outputs = tuple(numbers[tensor] for tensor in units.outputs)
    names = output_names(module, len(outputs))
    for tensor, name in zip(outputs, names, strict=True):
        if tensor not in inputs:
            tensors[tensor] = replace(tensors[tensor], name=name)
    alone = {call.units[0]: place for place, call in enumerate(calls) if len(call.units) == 1}
    stages = stages_of_calls([(call.stage, call.group) for call in calls], schedule)
    stages = placed_stages(stages, schedule, alone)
    return ScheduledUnits(
        graph=OpGraph(units.name, tuple(operators), tuple(tensors), inputs, outputs),
        stages=stages,
        functions=tuple(with_tir(call.function.function, module) for call in calls),
        constants=tuple(call.function.constants for call in calls),
        schedule=attached,
        constant_outputs=constant_outputs,
        output_names=names,
        kernels={place: call.kernel for place, call in enumerate(calls) if call.kernel is not None},
        unit_latencies=latencies_of_calls(schedule, alone),
    )


def _require_types(unit: UnitFunction, units: OpGraph) -> None:
    """Raise DialectError if a function's result types are not those of its unit's outputs."""
    whole: Any = unit.function.ret_ty
    results = whole.fields if len(unit.outputs) > 1 else [whole]
    for tensor, kind in zip(unit.outputs, results, strict=True):
        expected = units.tensors[tensor]
        if (tuple(map(int, kind.shape)), str(kind.dtype)) != (expected.shape, expected.dtype):
            raise DialectError(
                f"unit {unit.name!r} would return {kind} instead of {expected.dtype} of shape "
                f"{list(expected.shape)}: report this as a bug, with the model"
            )
