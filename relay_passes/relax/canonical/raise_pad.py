"""A pass that raises the TIR function that the ONNX importer writes for Pad to ``relax.nn.pad``."""

from __future__ import annotations

from typing import Any

import tvm
import tvm.sym
import tvm_ffi
from tvm import relax, tirx

from relay_passes.relax.expressions import operator_name, rebuild, static_shape, substitute


@tvm.transform.module_pass(opt_level=0, name="RaisePad")
class RaisePad:
    """A pass that replaces ``call_tir(pad, (x,))`` with a constant value by ``relax.nn.pad(x)``."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with padding raised; called by :class:`tvm.transform.Pass`."""

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = substitute(binding.value, new)
            if operator_name(value) == "relax.call_tir" and len(value.args[1].fields) == 1:
                data = value.args[1].fields[0]
                padding = _padding(mod[binding.value.args[0]], data, binding.var)
                if padding is not None:
                    widths, fill = padding
                    return builder.emit(relax.op.nn.pad(data, widths, "constant", fill))
            return builder.emit(value)

        return rebuild(mod, "main", emit, ["relax.call_tir"])


def _padding(function: Any, data: Any, result: Any) -> tuple[list[int], float] | None:
    """Return the widths (begin, end of each axis) and fill value, or None unless it only pads."""
    choices: list[Any] = []

    def call(node: Any) -> None:
        if getattr(node.op, "name", "") == "prim.if_then_else":
            choices.append(node)

    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tvm.ir.Call, call), (tirx.BufferStore, stores.append)])
    if len(stores) != 1 or len(choices) != 1 or not choices[0].same_as(stores[0].value):
        return None
    condition, load, fill = choices[0].args
    if not isinstance(load, tvm.ir.TensorLoad) or not isinstance(fill, tirx.FloatImm | tirx.IntImm):
        return None
    # A mask (a triangle, say) looks alike, but leaves out elements that lie inside the data.
    analyzer = tvm.sym.Analyzer()
    indices: list[Any] = list(load.indices)
    extents = zip(indices, static_shape(data), strict=True)
    inside = tirx.all(*(tirx.all(index >= 0, index < extent) for index, extent in extents))
    with analyzer.constraint_scope(inside):
        if not analyzer.can_prove(condition):
            return None
    begins: list[int] = []
    for index, position in zip(indices, stores[0].indices, strict=True):
        shift = analyzer.simplify(position - index)
        if not isinstance(shift, tirx.IntImm):
            return None
        begins.append(int(shift.value))
    extents = zip(begins, static_shape(data), static_shape(result), strict=True)
    return [w for b, small, large in extents for w in (b, large - small - b)], float(fill.value)
