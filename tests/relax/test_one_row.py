"""Convolutions and pools along one axis are those of images of one row, as from ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from tests.onnx_sketch import relative_error
from tests.relax.relax_sketch import (
    RelaxSketch,
    inputs_of,
    module_of,
    operators,
    require_same_outputs,
    run,
)

nn = relax.op.nn


def _check(module: tvm.IRModule) -> tvm.IRModule:
    """In canonical form it computes the same, and no window is of one axis."""
    canonical = canonicalise(module)
    assert not [name for name in operators(canonical) if "1d" in name]
    require_same_outputs(canonical, module)
    return canonical


@pytest.mark.parametrize(
    ("call", "weight", "attributes"),
    [
        (nn.conv1d, (6, 4, 3), {"padding": [2, 1], "strides": 2, "dilation": 2}),
        (nn.conv1d, (8, 1, 5), {"padding": 2, "groups": 4}),
        (nn.conv1d_transpose, (4, 6, 3), {"strides": 2, "padding": 1, "output_padding": 1}),
    ],
)
def test_convolutions(call: Any, weight: tuple[int, ...], attributes: dict[str, Any]) -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return s.emit(call(x, s.normal(*weight), **attributes))

    _check(module_of([(2, 4, 17)], body))


@pytest.mark.parametrize(
    ("call", "attributes"),
    [
        (nn.max_pool1d, {"pool_size": 3, "strides": 2, "padding": [1, 0], "ceil_mode": True}),
        (nn.max_pool1d, {"pool_size": 3, "dilation": 2}),
        (nn.avg_pool1d, {"pool_size": 4, "padding": [2, 1], "count_include_pad": True}),
        (nn.avg_pool1d, {"pool_size": 2, "padding": [1, 0], "count_include_pad": False}),
    ],
)
def test_pools(call: Any, attributes: dict[str, Any]) -> None:
    _check(module_of([(2, 4, 16)], lambda s, x: s.emit(call(x, **attributes))))


def test_between_convolutions_no_shape_changes() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        first = s.emit(nn.conv1d(x, s.normal(8, 4, 3), padding=1))
        first = s.emit(nn.silu(s.norm(s.emit(relax.op.add(first, s.normal(1, 8, 1))))))
        second = s.emit(nn.conv1d(first, s.normal(8, 8, 3), padding=1))
        second = s.emit(relax.op.multiply(second, s.normal(20)))
        summed = s.emit(relax.op.add(first, second))
        for axis in (1, 2, -1):
            summed = s.emit(relax.op.concat([summed, summed], axis=axis))
        return s.emit(nn.max_pool1d(summed, 2, strides=2))

    canonical = _check(module_of([(1, 4, 20)], body))
    names = operators(canonical)
    assert [n for n in names if n in ("relax.expand_dims", "relax.squeeze", "relax.reshape")] == [
        "relax.expand_dims",
        "relax.squeeze",
    ]
    # The batch norm is in the convolution before it.
    assert not [name for name in names if "sqrt" in name or "norm" in name]
    kinds = {operator.kind for operator in extract(canonical).graph.operators}
    assert kinds >= {"conv2d", "bias_add", "max_pool2d"}


def test_what_reads_rows_has_them() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        first = s.emit(nn.conv1d(x, s.normal(6, 4, 3)))
        turned = s.emit(relax.op.permute_dims(s.emit(nn.relu(first)), [0, 2, 1]))
        mean = s.emit(relax.op.mean(first, 2, True))
        product = s.emit(relax.op.matmul(turned, s.normal(6, 5)))
        return product, s.emit(relax.op.add(first, mean)), first

    _check(module_of([(1, 4, 10)], body))


def test_other_layouts_and_computed_weights_stay() -> None:
    def body(s: RelaxSketch, x: Any, w: Any) -> Any:
        turned = s.emit(relax.op.permute_dims(x, [0, 2, 1]))
        innermost = s.emit(
            nn.conv1d(turned, s.normal(6, 4, 3), data_layout="NWC", kernel_layout="OIW")
        )
        return innermost, s.emit(nn.conv1d(x, w))

    module = module_of([(1, 4, 10), (6, 4, 3)], body)
    canonical = canonicalise(module)
    assert [name for name in operators(canonical) if "conv" in name] == ["relax.nn.conv1d"] * 2
    inputs = [np.asarray(array) for array in inputs_of(module)]
    assert relative_error(run(canonical, inputs), run(module, inputs)) < 1e-5
