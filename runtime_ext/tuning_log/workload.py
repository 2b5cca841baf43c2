"""A contraction as a MetaSchedule workload: blocks that define only what is computed.

The tensors lie in memory as the program has them, each flattened to one axis; weights are
``[kernel row][kernel column][input channel][output channel]``. Equal contractions have equal
workloads, whatever their cuts, so the workload names them in a tuning log.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T

from runtime_ext.kernels.code import constant
from runtime_ext.kernels.expression import ACC, Access, Expr, emit, reads_nothing
from runtime_ext.kernels.spec import Contraction, Statement, extents
from runtime_ext.kernels.transcendental import dividing

_SCALARS = dividing(partial(constant, lanes=1), lambda value: value)


def contraction_workload(spec: Contraction, precision: str = "float32") -> tvm.IRModule:
    """Build the module of a contraction: a block ``sum``, and a block ``store_i`` per statement.

    The kernel's precision is a part of the workload; the contraction's blocking is not.
    """
    channels, (rows, columns) = sum(spec.parts), spec.window.output
    weights = prod(spec.window.kernel) * spec.channels * channels
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        marks = {} if precision == "float32" else {"ios.precision": precision}
        T.func_attr({"tirx.noalias": True, **marks})
        buffers = [
            T.arg(
                f"b{i}",
                T.buffer((weights if i == spec.weight else prod(extents(shape)),), "float32"),
            )
            for i, shape in enumerate(spec.buffers)
        ]
        acc = T.sblock_alloc_buffer((spec.batch, rows, columns, channels), "float32")
        _sum(spec, buffers, acc)
        for number, statement in enumerate(spec.statements):
            _store(spec, statement, buffers, acc, number)
    return tvm.IRModule({"main": builder.get()})


def _sum(spec: Contraction, buffers: list[Any], acc: Any) -> None:
    window, channels = spec.window, sum(spec.parts)
    spatial = (spec.batch, *window.output, channels)
    reduced = (*window.kernel, spec.channels)
    with T.grid(*spatial, *reduced) as loops, T.sblock("sum"):
        n, y, x, c = _axes(T.axis.spatial, spatial, loops[:4])
        ky, kx, ci = _axes(T.axis.reduce, reduced, loops[4:])
        with T.init():
            T.buffer_store(acc, tirx.FloatImm("float32", 0.0), [n, y, x, c])
        row = y * window.strides[0] + ky * window.dilations[0] - window.pads[0]
        column = x * window.strides[1] + kx * window.dilations[1] - window.pads[1]
        channel: Any = ci
        if spec.groups > 1:
            channel = tirx.floordiv(c, channels // spec.groups) * spec.channels + ci
        value = _expression(spec.prologue, _read(buffers, spec.data, (n, row, column, channel)))
        outside = any(window.pads) or any(
            (o - 1) * s + (k - 1) * d >= i
            for o, s, k, d, i in zip(
                window.output,
                window.strides,
                window.kernel,
                window.dilations,
                window.input,
                strict=True,
            )
        )
        if outside:
            inside = tirx.all(
                row >= 0, row < window.input[0], column >= 0, column < window.input[1]
            )
            value = tirx.if_then_else(inside, value, tirx.FloatImm("float32", 0.0))
        at = ((ky * window.kernel[1] + kx) * spec.channels + ci) * channels + c
        partial_sum = tirx.BufferLoad(acc, [n, y, x, c])
        product = value * tirx.BufferLoad(buffers[spec.weight], [at])
        T.buffer_store(acc, partial_sum + product, [n, y, x, c])


def _store(
    spec: Contraction, statement: Statement, buffers: list[Any], acc: Any, number: int
) -> None:
    extents = (spec.batch, *spec.window.output, statement.count)
    with T.grid(*extents) as loops, T.sblock(f"store_{number}"):
        n, y, x, c = _axes(T.axis.spatial, extents, loops)
        total = tirx.BufferLoad(acc, [n, y, x, c + statement.begin])

        def read(access: Access) -> Any:
            return _read(buffers, access, (n, y, x, c))

        value = emit(statement.value, total, read, _SCALARS)
        target = statement.target
        T.buffer_store(buffers[target.buffer], value, [_offset(target, (n, y, x, c))])


def _axes(axis: Any, extents: tuple[int, ...], loops: Any) -> list[Any]:
    return [axis(extent, loop) for extent, loop in zip(extents, loops, strict=True)]


def _expression(expr: Expr, acc: Any) -> Any:
    if expr == ACC:
        return acc

    return emit(expr, acc, reads_nothing, _SCALARS)


def _read(buffers: list[Any], access: Access, point: tuple[Any, ...]) -> Any:
    return tirx.BufferLoad(buffers[access.buffer], [_offset(access, point)])


def _offset(access: Access, point: tuple[Any, ...]) -> Any:
    terms = [axis * stride for axis, stride in zip(point, access.strides, strict=True) if stride]
    return sum(terms, tirx.IntImm("int32", access.offset))
