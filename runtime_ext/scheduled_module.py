"""Read a scheduled Relax module: calls of private unit functions, stage by stage."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.allocated import empty_constant, is_allocation
from runtime_ext.called_unit import called_unit
from runtime_ext.ir_form import (
    GROUP,
    KERNEL,
    STAGE,
    UNIT,
    ModuleError,
    attached_schedule,
    output_names,
)
from runtime_ext.kernels.relax_function import with_tir
from runtime_ext.scheduled_units import (
    ScheduledUnits,
    latencies_of_calls,
    placed_stages,
    stages_of_calls,
)
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule


def read_scheduled_module(module: tvm.IRModule, name: str = "model") -> ScheduledUnits:
    """Read a module that ``IOSSchedule`` made.

    Raise ModuleError if it carries no schedule, or ``main`` has anything but calls of units.
    """
    schedule = attached_schedule(module)
    if schedule is None:
        raise ModuleError("the module has no schedule: run IOSSchedule() on it first")
    main = module["main"]
    if not isinstance(main, relax.Function) or not isinstance(main.body, relax.SeqExpr):
        raise ModuleError("main is not in A-normal form: run relax.transform.Normalize() on it")
    reader = _Reader(module)
    inputs = tuple(reader.add(p) for p in main.params)
    for block in main.body.blocks:
        for binding in block.bindings:
            reader.read(binding)
    outputs = reader.numbers_of(main.body.body)
    names = output_names(module, len(outputs))
    for tensor, unit_name in zip(outputs, names, strict=True):
        if tensor not in inputs:
            reader.rename(tensor, unit_name)
    graph = OpGraph(name, tuple(reader.operators), tuple(reader.tensors), inputs, outputs)
    applied = Schedule.from_json(schedule)
    # The schedule numbers the units as they were before any were merged; names are the same.
    call_by_name = {op.name: unit for unit, op in enumerate(graph.operators)}
    calls = {
        u: call_by_name[unit_name]
        for u, unit_name in enumerate(schedule["units"])
        if unit_name in call_by_name
    }
    stages = placed_stages(stages_of_calls(reader.places, applied), applied, calls)
    return ScheduledUnits(
        graph=graph,
        stages=stages,
        functions=tuple(reader.functions),
        constants=tuple(reader.constants),
        schedule=schedule,
        constant_outputs=reader.constant_outputs,
        output_names=names,
        kernels={
            i: str(function.attrs[KERNEL])
            for i, function in enumerate(reader.functions)
            if KERNEL in function.attrs
        },
        unit_latencies=latencies_of_calls(applied, calls),
    )


class _Reader:
    def __init__(self, module: tvm.IRModule) -> None:
        self.module = module
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.functions: list[relax.Function] = []
        self.constants: list[tuple[GenericConst, ...]] = []
        self.constant_outputs: dict[int, GenericConst] = {}
        self.places: list[tuple[int, int]] = []
        self._names: set[str] = set()
        self._number: dict[Any, int] = {}
        self._tuples: dict[Any, tuple[int, ...]] = {}

    def add(self, variable: relax.Var) -> int:
        number = self._add_type(variable.name, variable.ty)
        self._number[variable] = number
        return number

    def _add_type(self, name: str, kind: Any, *, constant: bool = False) -> int:
        extents = kind.shape if isinstance(kind, relax.TensorType) else None
        if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
            raise ModuleError(
                f"{name!r} of main is no tensor of known shape but {kind}: run IOSSchedule() after "
                "the pass that made it so"
            )
        if name in self._names:
            name = f"{name}.{len(self.tensors)}"
        self._names.add(name)
        self.tensors.append(Tensor(name, tuple(map(int, extents)), str(kind.dtype), constant))
        return len(self.tensors) - 1

    def rename(self, tensor: int, name: str) -> None:
        old = self.tensors[tensor]
        self.tensors[tensor] = Tensor(name, old.shape, old.dtype, old.constant)

    def numbers_of(self, expression: Any) -> tuple[int, ...]:
        if isinstance(expression, relax.Tuple):
            return tuple(n for field in expression.fields for n in self.numbers_of(field))
        if expression in self._tuples:
            return self._tuples[expression]
        if expression in self._number:
            return (self._number[expression],)
        if isinstance(expression, GenericConst):
            return (self._constant(expression),)
        raise ModuleError(
            f"main returns {expression}, which is no tensor of a unit: run IOSSchedule() again"
        )

    def _constant(self, constant: GenericConst) -> int:
        number = self._add_type(f"constant{len(self.tensors)}", constant.ty, constant=True)
        self._number[constant] = number
        self.constant_outputs[number] = constant
        return number

    def _constant_of(self, expression: Any) -> GenericConst | None:
        """Return the constant that a variable is another name of, or None."""
        return self.constant_outputs.get(self._number.get(expression, -1))

    def read(self, binding: relax.Binding) -> None:
        value, variable = binding.value, binding.var
        if isinstance(binding, relax.MatchCast):
            raise ModuleError("main casts shapes (match_cast): run IOSSchedule() on it again")
        if isinstance(value, relax.Var | relax.Tuple | GenericConst):
            numbers = self.numbers_of(value)
            if isinstance(value, relax.Tuple) or value in self._tuples:
                self._tuples[variable] = numbers
            else:
                self._number[variable] = numbers[0]
        elif isinstance(value, relax.TupleGetItem):
            self._number[variable] = self.numbers_of(value.tuple_value)[value.index]
        elif is_allocation(value):
            self._number[variable] = self._constant(empty_constant(value))
        elif isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            self._read_call(value, variable)
        else:
            raise ModuleError(
                f"main has {_described(value)} outside of any unit, so a later pass changed it: "
                "run IOSSchedule() on it again"
            )

    def _read_call(self, call: relax.Call, variable: relax.Var) -> None:
        arguments = [self._constant_of(argument) or argument for argument in call.args]
        function, data, constants = called_unit(relax.Call(call.op, arguments), self.module)
        if isinstance(variable.ty, relax.TupleType):
            outputs = tuple(
                self._add_type(f"{variable.name}.{i}", field)
                for i, field in enumerate(variable.ty.fields)
            )
            self._tuples[variable] = outputs
        else:
            outputs = (self.add(variable),)
        name = str(function.attrs[UNIT])
        inputs = tuple(n for a in data for n in self.numbers_of(a))
        self.operators.append(Operator(name, "unit", inputs, outputs))
        function = with_tir(function, self.module)
        _require_operators(name, function)
        self.functions.append(function)
        self.constants.append(constants)
        self.places.append((int(function.attrs[STAGE]), int(function.attrs[GROUP])))


def _require_operators(unit: str, function: relax.Function) -> None:
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    for value in values:
        if isinstance(value, relax.Call) and not isinstance(value.op, tvm.ir.Op):
            raise ModuleError(
                f"the unit {unit} calls what is no operator, so a later pass changed it: run "
                "IOSSchedule() after that pass"
            )


def _described(value: Any) -> str:
    if isinstance(value, GenericConst):
        return "a constant"
    if isinstance(value, relax.Call):
        return getattr(value.op, "name", None) or "a call of a function"
    return {"If": "control flow (If)"}.get(type(value).__name__, type(value).__name__)
