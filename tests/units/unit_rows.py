"""Softmax, layer norms and products of data as units."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tests.kernels.kernel_harness import make_unit

op = relax.op


def softmax(shape: tuple[int, ...]) -> Any:
    return make_unit(
        [shape], [], lambda emit, x: op.nn.softmax(emit(op.divide(x, relax.const(0.3))), axis=-1)
    )


def layer_norm(shape: tuple[int, ...]) -> Any:
    row = shape[-1:]
    return make_unit(
        [shape],
        [row, row],
        lambda emit, x, scale, bias: op.nn.layer_norm(x, scale, bias, [-1], epsilon=1e-3),
    )


def product(a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    def body(emit: Any, x: Any, y: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.matmul(x, y)), relax.const(0.5))))

    return make_unit([a, b], [], body)
