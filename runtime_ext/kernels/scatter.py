"""Scatters of rows, in parallel over columns, where TVM's function goes element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from runtime_ext.kernels.cut import largest_divisor
from runtime_ext.kernels.float_edges import extreme
from runtime_ext.kernels.relax_function import is_float, operator_name, static_shape
from tvm_ios.shapes.extent import is_open

#: Columns that are written together, at most and at least.
_MOST, _LEAST = 64, 8
#: What becomes of an element and what is scattered there.
_COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": lambda old, new: extreme("max", old, new, number=False),
    "min": lambda old, new: extreme("min", old, new, number=False),
}


def scatter_of_rows(function: Any) -> Any | None:
    """Return the PrimFunc in block form of a Relax function that scatters rows, None of others.

    Rows are of a matrix of floats, and their indices in range. They are scattered one after
    another, so that sums are added up as by ONNX Runtime.
    """
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    call, *others = (value for value in values if isinstance(value, relax.Call))
    if others or operator_name(call) != "relax.scatter_nd" or list(call.args) != [*function.params]:
        return None
    data, indices, _ = (argument.ty for argument in call.args)
    shape, (count, *numbers) = static_shape(data), static_shape(indices)
    if numbers != [1] or len(shape) != 2 or any(map(is_open, (*shape, count))):
        return None
    rows, columns = shape
    width = largest_divisor(columns, _MOST)
    if width < _LEAST or not is_float(data):
        return None
    combined, dtype = _COMBINED[str(call.attrs.reduction)], str(data.dtype)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("scatter_of_rows")
        old = T.arg("data", T.buffer((rows, columns), dtype))
        places = T.arg("indices", T.buffer((count, 1), str(indices.dtype)))
        added = T.arg("updates", T.buffer((count, columns), dtype))
        result = T.arg("result", T.buffer((rows, columns), dtype))
        with T.grid(columns // width) as loop, T.sblock("scatter"):
            begin = T.axis.spatial(columns // width, loop) * width
            of_part = slice(begin, begin + width)
            T.reads(old[0:rows, of_part], places[0:count, 0], added[0:count, of_part])
            T.writes(result[0:rows, of_part])
            with T.serial(rows) as number, T.vectorized(width) as column:
                T.buffer_store(result, old[number, begin + column], [number, begin + column])
            with T.serial(count) as number:
                place = places[number, 0]
                with T.vectorized(width) as column:
                    new = combined(result[place, begin + column], added[number, begin + column])
                    T.buffer_store(result, new, [place, begin + column])
    return builder.get()
