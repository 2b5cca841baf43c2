"""The rule of recurrent layers: one kernel of all steps."""

from __future__ import annotations

from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.recurrence_operator import Recurrent
from runtime_ext.kernels.relax_function import is_float, static_shape, tensor_types
from runtime_ext.kernels.spec import Recurrence
from runtime_ext.units.kernel_draft import PLAIN
from runtime_ext.units.storing import copy, in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Stored, Value


def recurrence(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan all steps of a recurrent layer in float32 with constant weights; else return False."""
    recurrent = Recurrent.of(call)
    arguments = recurrent.arguments(call)
    shape = static_shape(call.args[1].ty)
    names = ("weight", "scale", "bias", "peepholes")
    constants = [arguments[name] for name in names if name in arguments]
    of_floats = [argument for name, argument in arguments.items() if name != "weight"]
    types = [*tensor_types(var.ty), *(argument.ty for argument in of_floats)]
    dtype = str(call.args[1].ty.dtype)
    if not all(map(is_float, types)) or dtype != ("int8" if "scale" in arguments else "float32"):
        return False
    if min(map(unit.constant, constants)) < 0:
        return False
    steps, batch, _ = static_shape(call.args[0].ty)
    places: list[int] = []

    def buffer(storage: int) -> int:
        if storage not in places:
            places.append(storage)
        return places.index(storage)

    def access(value: Stored) -> Access:
        step, row, _ = value.strides
        return Access(buffer(value.storage), value.offset, (step, row, 0, 1))

    def read(name: str) -> Access | None:
        return access(_in_rows(unit, arguments[name])) if name in arguments else None

    def whole(name: str) -> int | None:
        return buffer(unit.constant(arguments[name])) if name in arguments else None

    gates, state, memory = (read(name) for name in ("gates", "state", "memory"))
    assert gates is not None
    packed = unit.weight(arguments["weight"], shape)
    unit.storages[packed].dtype = dtype
    weight = buffer(packed)
    scale, bias, peepholes = whole("scale"), whole("bias"), whole("peepholes")
    results = _results(unit, var)
    written = [access(result) for result in results]
    spec = Recurrence(
        tuple(unit.storages[place].physical for place in places),
        recurrent.kind,
        recurrent.activations,
        recurrent.reverse,
        recurrent.late,
        steps,
        batch,
        shape[2],
        gates,
        weight,
        0,
        scale,
        bias,
        peepholes,
        state,
        memory,
        written[0],
        written[1] if recurrent.memory else None,
    )
    number = unit.add_placed(spec, places, PLAIN)
    for result in results:
        unit.written(result, number)
    bound: list[Value] = list(results)
    unit.bind(var, bound if recurrent.memory else results[0])
    return True


def _results(unit: UnitDraft, var: Any) -> list[Stored]:
    """Return where the results are to be stored, at the unit's outputs if they are such."""
    if isinstance(var.ty, relax.TupleType):
        homes = [unit.home_of_item(var, item) for item in range(len(tensor_types(var.ty)))]
    else:
        homes = [unit.home(var)]
    return [
        home if home is not None and _is_in_rows(home) else unit.scratch(static_shape(ty))
        for home, ty in zip(homes, tensor_types(var.ty), strict=True)
    ]


def _in_rows(unit: UnitDraft, argument: Any) -> Stored:
    """Return an argument in memory, the elements of its last axis one after another."""
    stored = in_memory(unit, unit.value(argument), "")
    if _is_in_rows(stored):
        return stored
    target = unit.scratch(stored.shape, layout="")
    copy(unit, stored, target)
    return target


def _is_in_rows(value: Stored) -> bool:
    return value.strides[2] == 1 or value.shape[2] == 1
