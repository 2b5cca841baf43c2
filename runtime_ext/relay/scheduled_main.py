"""Read ``main`` of a scheduled Relay module: calls of kernels, each with its unit and place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from runtime_ext.ir_form import CALLS, GROUP, STAGE, UNIT, ModuleError, attached_schedule
from runtime_ext.relay.module_copies import with_main

#: The unit, stage and group of a call.
Place = tuple[str, int, int]


@dataclass(frozen=True)
class ScheduledMain:
    """The calls of ``main`` in a scheduled module."""

    #: The module, with a ``main`` that binds nothing but calls of kernels.
    module: tvm.IRModule
    #: The variable and the call of each kernel, in order.
    bindings: tuple[tuple[relay.Var, relay.Call], ...]
    #: The expression that it returns.
    result: Any
    #: For each call its unit, stage and group.
    places: tuple[Place, ...]


def marked(call: relay.Call, place: Place) -> relay.Call:
    """Return the call with its place as attributes.

    They are not on the kernel, so that equal kernels stay equal.
    """
    unit, stage, group = place
    attributes = tvm.ir.make_node("DictAttrs", **{UNIT: unit, STAGE: stage, GROUP: group})
    return relay.Call(call.op, call.args, attributes, call.type_args, call.span)


def let(bindings: Sequence[tuple[relay.Var, Any]], result: Any) -> Any:
    """Return the expression that binds values in order and evaluates to a result."""
    for variable, value in reversed(bindings):
        result = relay.Let(variable, value, result)
    return result


def read_scheduled_main(module: tvm.IRModule) -> ScheduledMain:
    """Read a module that ``IOSSchedule`` made.

    Raise ModuleError if it carries no schedule, or a later pass changed the calls of ``main``.
    """
    if attached_schedule(module) is None:
        raise ModuleError("the module has no schedule: run IOSSchedule() on it first")
    old = module["main"]
    if not isinstance(old, relay.Function):
        raise ModuleError("main is not a Relay function: run IOSSchedule() on it before lowering")
    bindings, result = _bindings(old.body)
    places = _places(module, [call for _, call in bindings])
    count = 0
    body = old.body
    while isinstance(body, relay.Let):
        count, body = count + 1, body.body
    if count > len(bindings):
        main = relay.Function(old.params, let(bindings, result), None, old.type_params, old.attrs)
        module = with_main(module, main)
        bindings, result = _bindings(module["main"].body)
    return ScheduledMain(module, tuple(bindings), result, tuple(places))


def _bindings(body: Any) -> tuple[list[tuple[relay.Var, relay.Call]], Any]:
    """Return the calls that an expression binds, and its result.

    Constants, kernels and fields of tuples, which passes such as ``ToANormalForm`` bind as well,
    are substituted.
    """
    known: dict[Any, Any] = {}

    def resolved(value: Any) -> Any:
        if isinstance(value, relay.Var):
            return known.get(value, value)
        if isinstance(value, relay.Tuple) and known:
            return relay.Tuple([resolved(field) for field in value.fields])
        if isinstance(value, relay.TupleGetItem) and known:
            whole = resolved(value.tuple_value)
            if isinstance(whole, relay.Tuple):
                return whole.fields[value.index]
            return relay.TupleGetItem(whole, value.index)
        return value

    bindings: list[tuple[relay.Var, relay.Call]] = []
    while isinstance(body, relay.Let):
        variable, value = body.var, body.value
        if isinstance(value, relay.Call):
            callee = resolved(value.op)
            if known:
                arguments = [resolved(argument) for argument in value.args]
                value = relay.Call(callee, arguments, value.attrs, value.type_args, value.span)
            if not isinstance(callee, relay.Function):
                raise _changed(f"a call of {_name(callee)} outside of any unit")
            bindings.append((variable, value))
        else:
            known[variable] = resolved(value)
        body = body.body
    result = resolved(body)
    fields = result.fields if isinstance(result, relay.Tuple) else [result]
    for field in fields:
        if isinstance(field, relay.Call | relay.Function | relay.If):
            raise _changed("calls that are not bound in an order")
    return bindings, result


def _places(module: tvm.IRModule, calls: Sequence[relay.Call]) -> list[Place]:
    """Return the unit, stage and group of each call."""
    if CALLS in module.attrs:
        # Modules of earlier versions have this attribute.
        places = [tuple(place) for place in json.loads(str(module.attrs[CALLS]))]
        if len(places) != len(calls):
            raise _changed(f"{len(calls)} kernels, of which its schedule has {len(places)},")
        return places
    if not all(isinstance(call.attrs, tvm.ir.DictAttrs) and UNIT in call.attrs for call in calls):
        raise _changed("calls without a unit")
    marks = [call.attrs for call in calls]
    return [(str(mark[UNIT]), int(mark[STAGE]), int(mark[GROUP])) for mark in marks]


def _changed(what: str) -> ModuleError:
    return ModuleError(
        f"main has {what}, so a later pass changed it: run IOSSchedule() on it again"
    )


def _name(callee: Any) -> str:
    return str(getattr(callee, "name", None) or getattr(callee, "name_hint", "a value"))
