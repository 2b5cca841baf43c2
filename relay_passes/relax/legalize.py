"""Replace the units of a scheduled module by calls of TIR functions with our kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.unit_function import unit_function
from runtime_ext.execution.model_program import require_kernel
from runtime_ext.ir_form import UNIT, without_schedule
from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.machine.this_machine import available_lanes, cache_folder, host_target
from runtime_ext.module_copies import with_functions
from runtime_ext.scheduled_module import read_scheduled_module
from runtime_ext.scheduled_units import ScheduledUnits
from runtime_ext.unit_build import arrangement
from runtime_ext.units.in_place import Arrangement
from runtime_ext.units.unit import UnitPlan


def legalized(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Return a scheduled module with calls of TIR functions in the place of its units.

    ``target`` and errors are those of :class:`relay_passes.legalize_units.LegalizeUnits`.
    """
    units = read_scheduled_module(module)
    target = target or tvm.target.Target.current(allow_none=True)
    target = target or host_target(available_lanes())
    compiler = KernelCompiler(target, 1, cache_folder() / "kernels")
    # A result of call_tir does not lie in another.
    memory = arrangement(units, compiler).apart
    others = {
        variable: function
        for variable, function in module.functions_items()
        if variable.name_hint != "main" and UNIT not in (function.attrs or {})
    }
    builder = FunctionBuilder(with_functions(without_schedule(module), others))
    main, graph = module["main"], units.graph
    names = [binding.value.op.name_hint for binding in _calls(main)]
    values: dict[int, Any] = dict(zip(graph.inputs, main.params, strict=True))
    values |= units.constant_outputs
    with builder.function("main", list(main.params), main.attrs and dict(main.attrs.items())):
        with builder.dataflow():
            for number, name in enumerate(names):
                op, plan = graph.operators[number], _plan(units, number, memory, compiler)
                function = unit_function(plan, compiler.target, compiler.space.isa)
                weights = _packed(plan, units.constants[number])
                data = [values[tensor] for tensor in op.inputs]
                # Outputs and scratch: TVM plans the memory of both.
                written = function.params[len(data) + len(weights) :]
                types = [relax.TensorType(b.ty.shape, b.ty.dtype) for b in written]
                call = relax.call_tir(builder.add_func(function, name), [*data, *weights], types)
                result = builder.emit(call, op.name)
                several = len(types) > 1
                for place, tensor in enumerate(op.outputs):
                    values[tensor] = relax.TupleGetItem(result, place) if several else result
            outputs = iter([values[tensor] for tensor in graph.outputs])
            results = builder.emit_output(_results(main.ret_ty, outputs))
        builder.emit_func_output(results)
    return relax.transform.DeadCodeElimination()(builder.finalize())


def _calls(main: relax.Function) -> list[Any]:
    """Return the bindings of ``main`` that call units."""
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    calls = [binding for binding in bindings if isinstance(binding.value, relax.Call)]
    return [binding for binding in calls if isinstance(binding.value.op, tvm.ir.GlobalVar)]


def _plan(
    units: ScheduledUnits, number: int, memory: Arrangement, compiler: KernelCompiler
) -> UnitPlan:
    """Return a unit's plan by the kernel that the schedule names, or else by the default one."""
    op, kernel = units.graph.operators[number], units.kernels.get(number)
    function, constants = units.functions[number], units.constants[number]
    source = memory.source(function, op.inputs, op.outputs, constants)
    if kernel is not None:
        require_kernel(op.name, kernel, compiler.rkernels(source))
    return compiler.plan(source, kernel)


def _packed(plan: UnitPlan, constants: Sequence[Any]) -> list[Any]:
    """Return a unit's constants in the layouts of its kernels."""
    return [
        relax.const(
            use.transform.apply(constants[use.parameter - len(plan.inputs)].value.numpy()),
            kind.dtype,
        )
        for use, kind in zip(plan.constants, plan.constant_types, strict=True)
    ]


def _results(kind: Any, tensors: Iterator[Any]) -> Any:
    """Return tensors, in order, as a result of a type."""
    if isinstance(kind, relax.TupleType):
        return relax.Tuple([_results(field, tensors) for field in kind.fields])
    return next(tensors)
