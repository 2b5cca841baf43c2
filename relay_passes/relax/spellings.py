"""Recognise operators that Relax writes as several: local response norms, and clips."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.relax.expressions import (
    bindings_of,
    data_type,
    operator_name,
    static_shape,
    uses_of,
)
from relay_passes.same_attributes import Attrs, ints

Group = tuple[relax.VarBinding, ...]

_LRN = (
    "relax.multiply",
    "relax.expand_dims",
    "relax.nn.avg_pool3d",
    "relax.squeeze",
    "relax.multiply",
    "relax.add",
    "relax.power",
    "relax.divide",
)


def operator_groups(function: relax.Function) -> list[Group]:
    """Return the bindings one by one, but those that together are one operator as one group."""
    bindings, uses = bindings_of(function), uses_of(function)
    groups: list[Group] = []
    position = 0
    while position < len(bindings):
        group = tuple(bindings[position : position + len(_LRN)])
        if tuple(operator_name(b.value) for b in group) != _LRN or not _is_lrn(group):
            both = tuple(_limit(binding.value) for binding in group[:2])
            group = group[: 2 if both == _LIMITS and _is_clip(group[0], group[1], uses) else 1]
        groups.append(group)
        position += len(group)
    return groups


def spelled_kind_and_attrs(group: Group) -> tuple[str, Attrs] | None:
    """Return kind and attributes of a group that is a local response norm or a clip, else None."""
    if len(group) == len(_LRN):
        return "lrn", _lrn_attrs(group)
    if _limit(group[0].value) is None:
        return None
    # NumPy has no bfloat16; its exponents are float32's.
    dtype = np.dtype(data_type(group[0].var).replace("bfloat16", "float32"))
    representable = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    limits: Attrs = {"min": float(representable.min), "max": float(representable.max)}
    for binding in group:
        limits[str(_limit(binding.value))] = float(binding.value.args[1].value.numpy())
    return "clip", limits


_LIMITS = ("min", "max")


def _limit(value: Any) -> str | None:
    """Return the limit of a clip, "min" or "max", that an operator with a number is, or None."""
    limit = {"relax.maximum": "min", "relax.minimum": "max"}.get(operator_name(value))
    if limit is None or not isinstance(value.args[1], GenericConst):
        return None
    number = not static_shape(value.args[1]) and isinstance(value.args[0], relax.Var)
    return limit if number else None


def _is_clip(low: relax.VarBinding, high: relax.VarBinding, uses: Counter[Any]) -> bool:
    return bool(high.value.args[0].same_as(low.var)) and uses[low.var] == 1


def _is_lrn(group: Group) -> bool:
    """Return whether these operators are what the importer writes for a local response norm."""
    square, expand, pool, squeeze, *arithmetic = (binding.value for binding in group)
    data = square.args[0]
    links = all(
        after.value.args[1 if after is group[-1] else 0].same_as(before.var)
        for before, after in pairwise(group)
    )
    window = pool.attrs
    size = int(window.pool_size[0])
    half = size // 2
    return (
        links
        and bool(square.args[1].same_as(data))
        and bool(arithmetic[-1].args[0].same_as(data))
        and len(static_shape(data)) == 4
        and ints(expand.attrs.axis) == ints(squeeze.attrs.axis or ()) == (1,)
        and (size % 2, ints(window.pool_size), str(window.layout)) == (1, (size, 1, 1), "NCDHW")
        and ints(window.padding) == (half, 0, 0, half, 0, 0)
        and set(ints(window.strides)) == set(ints(window.dilation)) == {1}
        and bool(window.count_include_pad)
        and all(isinstance(step.args[1], GenericConst) for step in arithmetic[:3])
        and all(static_shape(step.args[1]) == () for step in arithmetic[:3])
    )


def _lrn_attrs(group: Group) -> Attrs:
    size = int(group[2].value.attrs.pool_size[0])
    # The importer divides by the window in the pool, so its factor is alpha itself.
    alpha, bias, beta = (float(group[i].value.args[1].value.numpy()) for i in (4, 5, 6))
    return {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
