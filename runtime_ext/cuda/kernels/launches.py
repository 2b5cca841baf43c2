"""TVM's code that is no loop nest, such as sorting: its launches become root statements.

TVM writes sorting, scattering and scans by hand, in blocks without loops of their own: kernel
launches one after another, some of them in rounds, or a parallel loop over rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_ios.devices.device import WARP


def rows_bound(function: Any) -> Any:
    """Bind the parallel loops of an unscheduled PrimFunc to threads, an iteration each."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _bound))
    return tirx.PrimFunc(function.params, body, function.ret_type, attrs=function.attrs)


def launches_at_root(function: Any) -> Any:
    """Flatten a scheduled PrimFunc in block form, so that every root statement is one launch.

    Raise ValueError if something is computed outside of kernels.
    """
    root = function.body.block
    allocated = list(root.alloc_buffers)
    body = tvm_ffi.structural_map(root.body, (tvm.ir.Call, _logarithm))
    statements = list(_launches(body, allocated))
    block = type(root)(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt(statements) if len(statements) > 1 else statements[0],
        None,
        allocated,
        root.match_buffers,
        root.annotations,
    )
    body = type(function.body)(function.body.iter_values, function.body.predicate, block)
    return tirx.PrimFunc(function.params, body, function.ret_type, attrs=function.attrs)


def _launches(statement: Any, allocated: list[Any]) -> Iterator[Any]:
    """Yield the launches of a statement in order; add memory they share to ``allocated``."""
    if isinstance(statement, tirx.SeqStmt):
        local: list[Any] = []
        for part in statement.seq:
            if not isinstance(part, tirx.AllocBuffer):
                yield from (_beginning_with(local, each) for each in _launches(part, allocated))
            elif part.buffer.scope() == "global":
                allocated.append(part.buffer)
            else:
                local.append(part)
    elif isinstance(statement, tvm.s_tir.SBlockRealize) and not statement.iter_values:
        allocated += statement.block.alloc_buffers
        yield from _launches(statement.block.body, allocated)
    elif isinstance(statement, tirx.IfThenElse):
        branch = statement.then_case if _number(statement.condition) else statement.else_case
        if branch is not None:
            yield from _launches(branch, allocated)
    elif isinstance(statement, tirx.AttrStmt):
        yield from _attributed(statement, allocated)
    elif isinstance(statement, tirx.For):
        yield from _looped(statement, allocated)
    elif not isinstance(statement, tirx.Evaluate) or not isinstance(statement.value, tirx.IntImm):
        raise ValueError(f"TVM has {type(statement).__name__} outside of kernels")


def _attributed(statement: Any, allocated: list[Any]) -> Iterator[Any]:
    key, value = statement.attr_key, statement.value
    if key == "thread_extent":
        yield tvm_ffi.structural_map(statement, (tirx.AttrStmt, _with_extent))
        return
    for launch in _launches(statement.body, allocated):
        # A pragma is for what stands around it.
        yield launch if "pragma" in key else tirx.AttrStmt(statement.node, key, value, launch)


def _looped(loop: Any, allocated: list[Any]) -> Iterator[Any]:
    if loop.thread_binding is not None:
        yield loop
        return
    for number in range(_number(loop.extent)):
        value = loop.min + tirx.const(number, str(loop.loop_var.ty.dtype))
        yield from _launches(_substituted(loop.body, loop.loop_var, value), allocated)


def _bound(loop: Any) -> Any:
    """Bind the iterations of a parallel loop without blocks to threads, in blocks of a warp."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tvm.s_tir.SBlock, blocks.append))
    if loop.kind != tirx.ForKind.PARALLEL or blocks:
        return loop
    extent, dtype = int(loop.extent), str(loop.loop_var.ty.dtype)
    block, thread = tirx.Var("block", dtype), tirx.Var("thread", dtype)
    place = block * tirx.const(WARP, dtype) + thread
    body = _substituted(loop.body, loop.loop_var, loop.min + place)
    statement: Any = tirx.IfThenElse(place < tirx.const(extent, dtype), body, None)
    axes = ((thread, "threadIdx.x", WARP), (block, "blockIdx.x", -(-extent // WARP)))
    for var, tag, size in axes:
        first, count = tirx.const(0, dtype), tirx.const(size, dtype)
        axis = tirx.IterVar(tvm.ir.Range(first, count), var, tirx.IterVar.ThreadIndex, tag)
        statement = tirx.AttrStmt(axis, "thread_extent", count, statement)
    return statement


def _beginning_with(statements: list[Any], launch: Any) -> Any:
    """Return a launch whose threads run some statements first."""
    if not statements:
        return launch
    if isinstance(launch, tirx.AttrStmt):
        body = _beginning_with(statements, launch.body)
        return tirx.AttrStmt(launch.node, launch.attr_key, launch.value, body)
    return tirx.SeqStmt([*statements, launch])


def _substituted(statement: Any, variable: Any, value: Any) -> Any:
    return tvm_ffi.structural_map(
        statement, (tirx.Var, lambda node: value if node.same_as(variable) else node)
    )


def _with_extent(node: Any) -> Any:
    if node.attr_key != "thread_extent":
        return node
    count = tirx.const(_number(node.value), str(node.value.ty.dtype))
    return tirx.AttrStmt(node.node, node.attr_key, count, node.body)


def _logarithm(call: Any) -> Any:
    """Evaluate a logarithm of a constant, which TVM uses to count rounds."""
    if getattr(call.op, "name", "") != "prim.log2" or not isinstance(call.args[0], tirx.FloatImm):
        return call
    return tirx.const(math.log2(call.args[0].value), str(call.ty.dtype))


def _number(expr: Any) -> int:
    number = tvm.sym.Analyzer().simplify(expr)
    if not isinstance(number, tirx.IntImm):
        raise ValueError(f"TVM computes {number} outside of kernels")
    return int(number.value)
