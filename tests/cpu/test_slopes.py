"""PReLU: a slope for each channel, in the kernel of what it activates or fused with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from tests.kernels.kernel_harness import check, make_unit

op = relax.op
NHWC = ("NHWC", "NHWC")
IMAGE = (2, 12, 7, 9)


def convolved(groups: int) -> Any:
    """A convolution, depthwise or not, with its bias."""

    def body(emit: Any, x: Any, w: Any, b: Any, slopes: Any) -> Any:
        y = emit(op.nn.conv2d(x, w, padding=1, groups=groups))
        return op.nn.prelu(emit(op.add(y, b)), slopes, axis=1)

    weight = (12, 12 // groups, 3, 3)
    return make_unit([IMAGE], [weight, (1, 12, 1, 1), (12,)], body)


def residual() -> Any:
    def body(emit: Any, x: Any, y: Any, w: Any, slopes: Any) -> Any:
        total = emit(op.add(emit(op.nn.conv2d(x, w)), y))
        return op.nn.prelu(total, slopes, axis=1)

    return make_unit([IMAGE, IMAGE], [(12, 12, 1, 1), (12,)], body)


def dense(rows: tuple[int, ...]) -> Any:
    def body(emit: Any, x: Any, w: Any, slopes: Any) -> Any:
        return op.nn.prelu(emit(op.matmul(x, w)), slopes, axis=len(rows))

    return make_unit([(*rows, 20)], [(20, 33), (33,)], body)


def pooled() -> Any:
    def body(emit: Any, x: Any, slopes: Any) -> Any:
        return op.nn.prelu(emit(op.nn.max_pool2d(x, (2, 2), (2, 2))), slopes, axis=1)

    return make_unit([IMAGE], [(12,)], body)


def alone(axis: int, slopes: int) -> Any:
    def body(emit: Any, x: Any, s: Any) -> Any:
        return op.tanh(emit(op.nn.prelu(emit(op.add(x, x)), s, axis=axis)))

    return make_unit([IMAGE], [(slopes,)], body)


CASES: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "convolution": (convolved(1), NHWC, "contraction"),
    "depthwise": (convolved(12), NHWC, "pooling"),
    "as the model has it": (convolved(1), ("", ""), "contraction"),
    "residual": (residual(), ("NHWC",) * 3, "contraction"),
    "dense": (dense((5,)), ("", ""), "contraction"),
    "dense of a batch": (dense((3, 5)), ("", ""), "contraction"),
    "pool": (pooled(), NHWC, "pooling"),
    "alone": (alone(1, 12), NHWC, "pointwise"),
    "alone, one slope": (alone(3, 1), NHWC, "pointwise"),
    "alone, along rows": (alone(2, 7), ("", ""), "pointwise"),
}


@pytest.mark.parametrize("name", CASES)
def test_slopes(name: str, kernels_folder: Path) -> None:
    function, layouts, form = CASES[name]
    unit = check(str(kernels_folder), function, layouts)
    assert unit.forms == (form,)
