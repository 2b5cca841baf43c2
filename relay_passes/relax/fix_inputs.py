"""Bind the symbolic dimensions of a module's inputs to numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import DialectError, static_shape
from tvm_ios.shapes.input_shapes import Extent, InputShapeError, resolve_shapes


def fix_inputs(
    module: tvm.IRModule, shapes: Mapping[str, Sequence[int]] | None = None
) -> tvm.IRModule:
    """Return the module with inputs of static shape; ``shapes`` gives those of dynamic inputs.

    Raise InputShapeError if an input stays dynamic or cannot have the shape given, and DialectError
    if an input is not a tensor of known rank.
    """
    main = module["main"]
    labels: dict[Any, str] = {}
    declared: dict[str, list[Extent] | None] = {}
    for parameter in main.params:
        kind = parameter.ty
        if not isinstance(kind, relax.TensorType) or kind.shape is None:
            raise DialectError(f"input {parameter.name!r} is not a tensor of known rank")
        declared[parameter.name] = [_extent(extent, labels) for extent in kind.shape]
    fixed = resolve_shapes(declared, shapes or {})
    numbers = {
        extent: number
        for parameter in main.params
        for extent, number in zip(parameter.ty.shape, fixed[parameter.name], strict=True)
        if isinstance(extent, tvm.ir.Var)
    }
    if not numbers:
        return module
    _require_in_bounds(main, numbers)
    bound = relax.transform.BindSymbolicVars(numbers, "main")(module)
    for parameter in bound["main"].params:
        if static_shape(parameter) != fixed[parameter.name]:
            raise InputShapeError(
                f"input {parameter.name!r} cannot have the shape {list(fixed[parameter.name])}: "
                f"by the shapes of the others it is {list(static_shape(parameter))}"
            )
    return bound


def _extent(extent: Any, labels: dict[Any, str]) -> Extent:
    if isinstance(extent, tvm.tirx.IntImm):
        return int(extent)
    if not isinstance(extent, tvm.ir.Var):
        return str(extent)
    if extent not in labels:
        # Two variables may have one name.
        used = set(labels.values())
        labels[extent] = extent.name if extent.name not in used else f"{extent.name}_{len(used)}"
    return labels[extent]


def _require_in_bounds(main: relax.Function, numbers: Mapping[Any, int]) -> None:
    """Raise InputShapeError for a number outside the bounds that a program was exported for."""
    attributes = dict(main.attrs.items()) if main.attrs else {}
    for variable, number in numbers.items():
        low, high = (
            attributes.get(f"tir_var_{side}_bound", {}).get(variable.name)
            for side in ("lower", "upper")
        )
        if (low is not None and number < int(low)) or (high is not None and number > int(high)):
            raise InputShapeError(
                f"the dimension {variable.name!r} was exported for {low} to "
                f"{'any' if high is None else high}, not for {number}"
            )
