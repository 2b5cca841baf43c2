"""Correct TVM's lowered functions at infinities, NaN and division by 0, as ONNX defines them.

TVM's reductions begin with the largest finite number, so that the maximum of infinities alone is
wrong, and ``argmax`` of them is -1; its maximum of two numbers drops a NaN on the left. Its
simplifier treats floating-point numbers as real ones: it takes ``a - a`` for 0, ``a == a`` for
true, and ``not a < b`` for ``b <= a``; its code takes ``a != b`` for false where one is NaN. Where
an integer is divided by zero, or the least one by -1, the processor ends the process. What becomes
of a float that an integer type lacks is left to LLVM.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

#: TVM's name of the block that pads the input of a pool.
_PADDED_POOL = "pad_temp"
#: TVM's kind of reduction axes, and the most iterations that LLVM unrolls.
_REDUCTION, _WINDOW = 2, 16
#: TVM's functions that lose NaN, and ours with the same arguments (``native/top_k.cc``).
_FUNCTIONS = {"tvm.contrib.sort.topk": "tvm_ios.top_k"}
FLOATS = ("float16", "float32", "float64")
#: Types of integers, with those that x86 converts floats to, of which they are the last bits.
INTEGERS = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "int32"),
    **dict.fromkeys(("uint32", "int64"), "int64"),
}
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def with_float_edges(function: Any) -> Any:
    """Return a PrimFunc in block form that is also right at infinities and NaN."""
    return tirx.PrimFunc(
        function.params, _statement(function.body), function.ret_type, function.attrs
    )


def extreme(operation: str, a: Any, b: Any, *, number: bool) -> Any:
    """Return the ``max`` or ``min`` of two values; NaN if one of them is.

    With ``number``, ``a`` is known not to be NaN.
    """
    # No comparison with NaN holds: Select then takes the right operand.
    chosen = tirx.Select(a > b if operation == "max" else a < b, a, b)
    # TVM takes ``a != a`` for false, so ``isnan`` is needed.
    return chosen if number else tirx.Select(tirx.isnan(a), a, chosen)


def difference(a: Any, b: Any) -> Any:
    """Return ``a - b``, protected from TVM's simplifier if both are the same."""
    return a + a * -1.0 if tvm_ffi.structural_equal(a, b) else a - b


def unsimplified(function: Any) -> Any:
    """Protect a PrimFunc from simplifications that are wrong for NaN, and define its results."""
    callbacks = [
        (tirx.Sub, _unsimplified_difference),
        ((tirx.EQ, tirx.NE), _unsimplified_equality),
        ((tirx.Not, tirx.And, tirx.Or), _unsimplified_logic),
        ((tirx.Div, tirx.FloorDiv, tirx.Mod, tirx.FloorMod), _defined_quotient),
        (tirx.Cast, _defined_conversion),
    ]
    body = tvm_ffi.structural_map(function.body, callbacks)
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)


def _unsimplified_difference(node: Any) -> Any:
    same = _is_float(node) and tvm_ffi.structural_equal(node.a, node.b)
    return difference(node.a, node.b) if same else node


def _unsimplified_equality(node: Any) -> Any:
    if not _is_float(node.a):
        return node
    # ``a <= a`` is false for NaN only, and is not simplified.
    same = tvm_ffi.structural_equal(node.a, node.b)
    equal = (tirx.LE if same else tirx.EQ)(node.a, node.b)
    # TVM's code of ``a != b`` is false for NaN: negate the equality instead.
    return equal if isinstance(node, tirx.EQ) else tirx.Not(_opaque(equal))


def _unsimplified_logic(node: Any) -> Any:
    if isinstance(node, tirx.Not):
        return tirx.Not(_opaque(node.a)) if _is_comparison(node.a) else node
    if not _is_comparison(node.a) or not _is_comparison(node.b):
        return node
    return type(node)(_opaque(node.a), _opaque(node.b))


def _defined_quotient(node: Any) -> Any:
    """Return an integer's quotient or remainder with 0 for division by 0; no overflow by -1."""
    divisor, dtype = node.b, str(node.ty.dtype)
    known = isinstance(divisor, tirx.IntImm) and divisor.value not in (0, -1)
    if known or "int" not in dtype:
        return node
    zero, one = tirx.const(0, dtype), tirx.const(1, dtype)
    inverts = divisor == tirx.const(-1, dtype) if dtype.startswith("int") else None
    is_bad = divisor == zero if inverts is None else tirx.Or(divisor == zero, inverts)
    # The remainder of a division by one is 0.
    value = type(node)(node.a, tirx.Select(is_bad, one, divisor))
    if isinstance(node, tirx.Mod | tirx.FloorMod):
        return value
    if inverts is not None:
        value = tirx.Select(inverts, zero - node.a, value)
    return tirx.Select(divisor == zero, zero, value)


def _defined_conversion(node: Any) -> Any:
    """Return a conversion to integers with the least one for NaN and numbers out of range."""
    value, to, dtype = node.value, str(node.ty.dtype), str(node.value.ty.dtype)
    wide = INTEGERS.get(to)
    if wide is None or dtype not in FLOATS:
        return node
    least, most = (tirx.const(bound, dtype) for bound in _bounds(dtype, wide))
    other = tirx.const(np.iinfo(wide).min, wide)
    whole = tirx.Select(value <= most, tirx.Cast(wide, value), other)
    whole = tirx.Select(value >= least, whole, other)
    return whole if wide == to else tirx.Cast(to, whole)


def _bounds(dtype: str, wide: str) -> tuple[float, float]:
    """Return the least and the most numbers of a type of floats that a type of integers holds."""
    limits, finite = np.iinfo(wide), np.finfo(dtype)
    if limits.max > float(finite.max):
        return float(finite.min), float(finite.max)
    most = np.array(limits.max).astype(dtype)
    if int(most) > limits.max:
        most = np.nextafter(most, np.zeros_like(most))
    return float(limits.min), float(most)


def _is_comparison(node: Any) -> bool:
    return isinstance(node, _COMPARISONS) and _is_float(node.a)


def _is_float(value: Any) -> bool:
    return "float" in str(value.ty.dtype)


def _opaque(truth: Any) -> Any:
    return tirx.Cast("bool", tirx.Cast("int8", truth))


def _statement(stmt: Any) -> Any:
    match stmt:
        case tirx.SeqStmt():
            return tirx.SeqStmt([_statement(part) for part in stmt.seq])
        case tirx.For():
            return tirx.For(
                stmt.loop_var,
                stmt.min,
                stmt.extent,
                stmt.kind,
                _statement(stmt.body),
                stmt.thread_binding,
                stmt.annotations,
                stmt.step,
            )
        case s_tir.SBlockRealize():
            return s_tir.SBlockRealize(stmt.iter_values, stmt.predicate, _block(stmt.block))
        case tirx.Evaluate():
            return tirx.Evaluate(_function_of_ours(stmt.value))
        case _:
            return stmt


def _function_of_ours(call: Any) -> Any:
    name, *rest = call.args if isinstance(call, tvm.ir.Call) else (None,)
    ours = _FUNCTIONS.get(name.value) if isinstance(name, tvm.ir.StringImm) else None
    return tirx.call_packed(ours, *rest) if ours else call


def _block(block: Any) -> Any:
    extents = [v.dom.extent for v in block.iter_vars if int(v.iter_type) == _REDUCTION]
    is_open = not all(isinstance(extent, tirx.IntImm) for extent in extents)
    is_window = not is_open and 1 < prod(map(int, extents)) <= _WINDOW
    body = _first_nan(_passing_nan(_statement(block.body), is_window=is_window))
    if block.name_hint == _PADDED_POOL:
        body = _padded(body)
    init = None if block.init is None else _identity(block.init, block.body)
    return s_tir.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        body,
        init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _passing_nan(stmt: Any, *, is_window: bool) -> Any:
    if not isinstance(stmt, tirx.BufferStore) or not isinstance(stmt.value, tirx.Max | tirx.Min):
        return stmt
    a: Any = stmt.value.a
    b: Any = stmt.value.b
    if not _is_float(a):
        return stmt
    if isinstance(b, tirx.FloatImm):
        a, b = b, a
    operation = "max" if isinstance(stmt.value, tirx.Max) else "min"
    if isinstance(a, tirx.FloatImm):
        value = extreme(operation, a, b, number=True)
    elif is_window:
        # LLVM vectorises a single Select in loops that it unrolls. In long loops each step would
        # wait twice as long for the one before as in the form below.
        value = tirx.Select(tirx.Or(tirx.isnan(a), a > b if operation == "max" else a < b), a, b)
    else:
        # TVM vectorises comparisons, but not calls such as ``isnan``.
        value = extreme(operation, a, b, number=True)
        value = tirx.Select(a <= tirx.FloatImm(str(a.ty.dtype), math.inf), value, a)
    return tirx.BufferStore(stmt.buffer, value, stmt.indices)


def _first_nan(stmt: Any) -> Any:
    """Make an ``argmax`` or ``argmin`` return the place of the first NaN."""
    if not isinstance(stmt, tirx.SeqStmt):
        return stmt
    return tirx.SeqStmt([_keeping_nan(part) for part in stmt.seq])


def _keeping_nan(part: Any) -> Any:
    value = part.value if isinstance(part, tirx.Bind) else None
    if not isinstance(value, tirx.Select):
        return part
    order: Any = value.condition.a if isinstance(value.condition, tirx.Or) else value.condition
    if not isinstance(order, tirx.LT | tirx.GT) or not _is_float(order.a):
        return part
    # The reduction begins with a number; once it holds NaN, keep that.
    so_far: Any = order.a
    kept = tirx.Select(so_far <= math.inf, value, value.true_value)
    return tirx.Bind(part.var, kept)


def _padded(store: Any) -> Any:
    """Make a max pool's padding minus infinity, which is less than any pixel."""
    value = store.value
    if isinstance(value, tvm.ir.Call) and len(value.args) == 3:
        inside, pixel, outside = value.args
        value = tirx.if_then_else(inside, pixel, _infinite(outside))
    return tirx.BufferStore(store.buffer, value, store.indices)


def _identity(init: Any, update: Any) -> Any:
    if isinstance(init, tirx.BufferStore):
        return tirx.BufferStore(init.buffer, _infinite(init.value), init.indices)
    stores = [_identity(store, update) for store in init.seq]
    place, value = stores if len(stores) == 2 else (None, None)
    if place is not None and value is not None and _first_of_equals(update):
        last = tirx.max_value(place.value.ty.dtype)
        stores[0] = tirx.BufferStore(place.buffer, last, place.indices)
    return tirx.SeqStmt(stores)


def _infinite(value: Any) -> Any:
    """Replace the largest or least finite number by an infinity."""
    if isinstance(value, tirx.FloatImm):
        dtype = str(value.ty.dtype)
        if abs(value.value) == tirx.max_value(dtype).value:
            return tirx.FloatImm(dtype, math.copysign(math.inf, value.value))
    return value


def _first_of_equals(update: Any) -> bool:
    """Return whether of equal elements the one with the smaller index is chosen."""
    choice = update.seq[0].value if isinstance(update, tirx.SeqStmt) else None
    if not isinstance(choice, tirx.Select) or not isinstance(choice.condition, tirx.Or):
        return False
    tie = choice.condition.b
    return isinstance(tie, tirx.And) and isinstance(tie.b, tirx.LT)
