"""Write units as private functions, and ``main`` as their calls in schedule order."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.calls import emit_calls
from relay_passes.relax.expressions import constant
from relay_passes.relax.merge import merged_function
from relay_passes.unit_outliner import UnitFunction, UnitOutliner, identifier
from runtime_ext.allocated import allocated_if_empty
from runtime_ext.ir_form import CHAIN, GROUP, KERNEL, STAGE, UNIT
from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.module_copies import with_functions
from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.schedule.schedule import Schedule


class Outliner(UnitOutliner[UnitFunction]):
    """An outliner of units as private Relax functions; ``num_input`` counts data parameters."""

    def _type(self, tensor: int) -> Any:
        return self.value(tensor).ty

    def _array(self, value: Any) -> Array:
        return value.value.numpy()

    def _constants(self, kernel: Array, bias: Array) -> tuple[Any, Any]:
        return constant(kernel), constant(bias)

    def _merge(
        self,
        plan: MergePlan,
        data: int,
        weights: tuple[Any, Any],
        outputs: tuple[int, ...],
        name: str,
    ) -> UnitFunction:
        function = merged_function(plan, self._type(data), weights)
        return UnitFunction(function, (data,), weights, outputs, name)

    def _outline(self, *units: int) -> UnitFunction:
        operators = [self.units.operators[unit] for unit in units]
        data, constants = self._interface(*units)
        read = (*data, *constants)
        parameters = [relax.Var(f"p{i}", self._type(t)) for i, t in enumerate(read)]
        values = dict(zip((self._origin[t] for t in read), parameters, strict=True))
        builder = FunctionBuilder()
        attributes = {"num_input": len(data)} | ({CHAIN: 1} if len(units) > 1 else {})
        with builder.function("unit", parameters, attrs=attributes, private=True):
            with builder.dataflow():
                for member in (member for op in operators for member in op.members):
                    emit_calls(builder.emit, self.extraction, member, values)
                results = [values[self._origin[t]] for t in operators[-1].outputs]
                whole = results[0] if len(results) == 1 else relax.Tuple(results)
                result = builder.emit_output(whole)
            variable = builder.emit_func_output(result)
        function = builder.finalize()[variable]
        weights = tuple(self.value(t) for t in constants)
        name = "+".join(op.name for op in operators)
        return UnitFunction(function, data, weights, operators[-1].outputs, name)


def outline(module: tvm.IRModule, outliner: Outliner, schedule: Schedule) -> tvm.IRModule:
    """Return the module with units as private functions, called by ``main`` in schedule order.

    Functions other than ``main`` stay. Raise ScheduleError if units cannot be merged.
    """
    old = module["main"]
    units = outliner.units
    others = {v: f for v, f in module.functions_items() if v.name_hint != "main"}
    builder = FunctionBuilder(tvm.IRModule(others))
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    value: dict[int, Any] = dict(zip(units.inputs, parameters, strict=True))
    calls = outliner.calls(schedule)
    variables: list[Any] = []
    for call in calls:
        places = {UNIT: call.function.name, STAGE: call.stage, GROUP: call.group}
        if call.kernel is not None:
            places[KERNEL] = call.kernel
        function = call.function.function.with_attrs(places)
        name = f"unit_{len(variables)}_{outliner.operators(call.units)}"
        variables.append(builder.add_func(function, name))
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for variable, call in zip(variables, calls, strict=True):
                unit = call.function
                arguments = [*(value[t] for t in unit.data), *unit.constants]
                result = builder.emit(relax.Call(variable, arguments), identifier(unit.name))
                if len(unit.outputs) == 1:
                    value[unit.outputs[0]] = result
                    continue
                for field, tensor in enumerate(unit.outputs):
                    value[tensor] = builder.emit(relax.TupleGetItem(result, field))
            for tensor in units.outputs:
                if tensor not in value:
                    value[tensor] = builder.emit(allocated_if_empty(outliner.value(tensor)))
            results = [value[tensor] for tensor in units.outputs]
            whole = results[0]
            if len(results) > 1 or isinstance(old.ret_ty, relax.TupleType):
                whole = relax.Tuple(results)
            result = builder.emit_output(whole)
        builder.emit_func_output(result)
    return with_functions(module, dict(builder.finalize().functions_items()))
