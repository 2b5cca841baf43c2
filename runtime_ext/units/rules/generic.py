"""Compile any operator with TVM's code; its buffers are whole and in the model's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.generic import Generic, Scheduled
from runtime_ext.kernels.operator_function import leaves, outlined
from runtime_ext.kernels.relax_function import static_shape, tensor_types, with_tir
from runtime_ext.units.kernel_draft import PLAIN
from runtime_ext.units.storing import copy, in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Stored, Value


def generic_rule(unit: UnitDraft, var: Any, call: Any) -> None:
    """Make an operator a kernel of TVM's; its tensors are first brought into the IR's layout."""
    arguments = [a for a in leaves(call) if not isinstance(a, GenericConst)]
    arguments = list(dict.fromkeys(arguments))
    function = with_tir(outlined(call, arguments), unit.function)
    opaque(unit, var, arguments, lambda shapes: Generic(function, shapes))


def opaque(
    unit: UnitDraft,
    var: Any,
    arguments: Sequence[Any],
    make: Callable[[tuple[tuple[tuple[int, ...], str], ...]], Generic | Scheduled],
) -> None:
    """Bind a variable to the result of a kernel whose buffers are whole and in the IR's layout.

    ``arguments`` are the variables that it reads, in the order of its parameters; ``make`` makes
    its spec from the shapes and types of its buffers.
    """
    storages = [_plain(unit, unit.value(a)).storage for a in arguments]
    fields = tensor_types(var.ty)
    results: list[Value] = []
    for field in fields:
        shape = static_shape(field)
        home = unit.home(var) if len(fields) == 1 else None
        if home is None or not unit.is_whole(home):
            home = unit.scratch(shape, str(field.dtype), layout="")
        results.append(home)
        storages.append(home.storage)
    buffers = [unit.storages[s] for s in storages]
    spec = make(tuple((s.shape, s.dtype) for s in buffers))
    number = unit.add_placed(spec, storages, PLAIN)
    for storage in buffers[len(arguments) :]:
        storage.producer = number
    unit.bind(var, results[0] if not isinstance(var.ty, relax.TupleType) else results)


def _plain(unit: UnitDraft, value: Value) -> Stored:
    """Return the value as a whole buffer in the IR's layout, copied if necessary."""
    stored = in_memory(unit, value)
    if unit.is_whole(stored):
        return stored
    target = unit.scratch(stored.shape, layout="")
    copy(unit, stored, target)
    return target
