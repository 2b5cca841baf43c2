"""Draft a unit's kernels: an anchor each, with element-wise operators before and after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tvm import relax

from runtime_ext.kernels.generic import Scheduled
from runtime_ext.kernels.operator_function import leaves
from runtime_ext.kernels.relax_function import (
    is_float,
    operator_name,
    results,
    static_shape,
    tensor_types,
)
from runtime_ext.kernels.spec import Encoding
from runtime_ext.tuning_log.log import TunedStep
from runtime_ext.units.rules.fusing import element_wise_rule
from runtime_ext.units.rules.generic import generic_rule, opaque
from runtime_ext.units.rules.registry import OF_ANY_TYPES, RULES
from runtime_ext.units.storing import copy, in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Layout, Stored


def drafted(
    function: Any,
    layouts: Sequence[Layout],
    in_place: Collection[int] = (),
    steps: Mapping[Any, TunedStep] | None = None,
    *,
    inline: bool = True,
    encodings: Sequence[Encoding | None] = (),
) -> UnitDraft:
    """Cut a unit into drafts of kernels; other parameters are those of :class:`UnitDraft`.

    ``steps`` maps variables to scheduled functions that compute them. Raise ValueError if the
    layouts do not fit the function, or it contains an expression that is no operator.
    """
    unit = UnitDraft(function, layouts, in_place, inline, encodings)
    for block in function.body.blocks:
        for binding in block.bindings:
            _bind(unit, binding.var, binding.value, steps or {})
    for output, (var, item) in zip(unit.outputs, results(function), strict=True):
        _finish_output(unit, output, var, item)
    return unit


def _bind(unit: UnitDraft, var: Any, expr: Any, steps: Mapping[Any, TunedStep]) -> None:
    """Record the value of a variable; add kernels for values that cannot be deferred."""
    if unit.is_bound(var):
        return  # by the rule of an operator before it
    if isinstance(expr, relax.Var):
        unit.bind(var, unit.value_or_items(expr))
    elif isinstance(expr, relax.Tuple):
        unit.bind(var, [unit.value(field) for field in expr.fields])
    elif isinstance(expr, relax.TupleGetItem):
        items = unit.value_or_items(expr.tuple_value)
        assert isinstance(items, list)
        value = items[expr.index]
        unit.bind_view(var, value)
    elif var in steps:
        step = steps[var]
        opaque(unit, var, step.arguments, lambda s: Scheduled(step.function, s))
    else:
        _bind_operator(unit, var, expr)


def _bind_operator(unit: UnitDraft, var: Any, expr: Any) -> None:
    """Apply the first rule that fits an operator: element-wise, its own, or TVM's code."""
    name = operator_name(expr)
    types = [*tensor_types(var.ty), *(leaf.ty for leaf in leaves(expr))]
    is_of_floats = name in OF_ANY_TYPES or all(map(is_float, types))
    # A product may widen what it reads; TVM's lowering of buffers wants one axis at least.
    if is_of_floats and not _has_number(var, expr):
        if element_wise_rule(unit, var, name, expr):
            return
        rule = RULES.get(name)
        if rule is not None and rule(unit, var, expr):
            return
    generic_rule(unit, var, expr)


def _has_number(var: Any, call: Any) -> bool:
    """Return whether the result or a variable that is read is a scalar (has no axes)."""
    read = (leaf for leaf in leaves(call) if isinstance(leaf, relax.Var))
    types = [*tensor_types(var.ty), *(leaf.ty for leaf in read)]
    return not all(static_shape(ty) for ty in types)


def _finish_output(unit: UnitDraft, output: Stored, var: Any, item: int | None) -> None:
    """Store a result in its output buffer, unless it is there."""
    value = unit.value_or_items(var)
    if item is not None:
        assert isinstance(value, list)
        value = value[item]
    assert not isinstance(value, list)
    stored = in_memory(unit, value)
    if stored.storage != output.storage:
        copy(unit, stored, output)
