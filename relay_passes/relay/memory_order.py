"""Reorder a Relay module: the stages of a scheduled one, or the units of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm
from tvm import relay

from relay_passes.pipeline import apply_schedule, prepare_canonical
from relay_passes.relay.expressions import arguments, shape_of_type
from relay_passes.reordering import Reordering
from runtime_ext.ir_form import STAGE, without_schedule
from runtime_ext.relay.module_copies import with_main
from runtime_ext.relay.scheduled_main import let, marked, read_scheduled_main
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.stage import Stage, Strategy


def operators_of(module: tvm.IRModule) -> Reordering:
    """Return the units of a canonical module, which can be reordered.

    Relay's ``main`` is an expression, and TVM keeps only the order of ``let`` bindings. So the
    reordered module is a scheduled one, with one unit per stage.
    """
    prepared = prepare_canonical(module)
    plain = sequential_schedule(prepared.units)

    def apply(order: Sequence[int]) -> tvm.IRModule:
        stages = tuple(plain.stages[unit] for unit in order)
        return apply_schedule(prepared, replace(plain, policy="memory", stages=stages))

    return Reordering(prepared.units, tuple(range(len(prepared.units))), apply)


def stages_of(module: tvm.IRModule) -> tuple[OpGraph, tuple[Stage, ...]]:
    """Return the kernel calls of a scheduled module as a graph, and its stages as groups of them.

    Raise ModuleError if a later pass changed the calls.
    """
    scheduled = read_scheduled_main(module)
    tensors: list[Tensor] = []
    numbers: dict[tuple[Any, int], int] = {}

    def add(variable: relay.Var) -> tuple[int, ...]:
        kind = variable.checked_type
        fields = kind.fields if isinstance(kind, relay.TupleType) else [kind]
        for place, field in enumerate(fields):
            numbers[variable, place] = len(tensors)
            shape = shape_of_type(field, f"value {variable.name_hint!r}")
            name = f"{variable.name_hint}.{len(tensors)}"
            tensors.append(Tensor(name, shape, str(field.dtype)))
        return tuple(numbers[variable, place] for place in range(len(fields)))

    def read(values: Sequence[Any]) -> tuple[int, ...]:
        entries = (
            (value.tuple_value, value.index)
            if isinstance(value, relay.TupleGetItem)
            else (value, 0)
            for value in values
        )
        return tuple(numbers[entry] for entry in entries if entry in numbers)

    inputs = tuple(number for parameter in module["main"].params for number in add(parameter))
    operators: list[Operator] = []
    for variable, call in scheduled.bindings:
        data = read(arguments(call))
        name = f"{variable.name_hint}.{len(operators)}"
        operators.append(Operator(name, "kernel", data, add(variable)))
    result = scheduled.result
    outputs = read(result.fields if isinstance(result, relay.Tuple) else [result])
    graph = OpGraph("main", tuple(operators), tuple(tensors), inputs, outputs)
    stages: dict[int, dict[int, list[int]]] = {}
    for number, (_, stage, group) in enumerate(scheduled.places):
        stages.setdefault(stage, {}).setdefault(group, []).append(number)
    return graph, tuple(
        Stage(Strategy.CONCURRENT, tuple(map(tuple, stages[stage].values())))
        for stage in sorted(stages)
    )


def with_stages(module: tvm.IRModule, order: Sequence[int]) -> tvm.IRModule:
    """Return a scheduled module with the calls of its stages in another order."""
    old, scheduled = module["main"], read_scheduled_main(module)
    new = {stage: place for place, stage in enumerate(order)}
    bindings = sorted(
        (
            (variable, marked(call, (unit, new[stage], group)))
            for (variable, call), (unit, stage, group) in zip(
                scheduled.bindings, scheduled.places, strict=True
            )
        ),
        key=lambda binding: int(binding[1].attrs[STAGE]),
    )
    body = let(bindings, scheduled.result)
    main = relay.Function(old.params, body, None, old.type_params, old.attrs)
    return with_main(without_schedule(module), main)
