"""Operators that ONNX Runtime has on GPUs only, beside what they are of ONNX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.contrib_sketch import X, normal, one
from tests.onnx_sketch import run_on
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")

IMAGE = normal(1, 6, 6, 3)
#: Operators that ONNX Runtime has on GPUs only, and what they are of ONNX's.
ON_GPUS: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "BiasAdd": ("BiasAdd", [X, normal(8), normal(2, 5, 8)], {}, "s = Add(a, b) y = Add(s, c)"),
    "BiasSplitGelu": (
        "BiasSplitGelu",
        [X, normal(8)],
        {},
        "s = Add(a, b) l, r = Split <axis = -1, num_outputs = 2> (s) g = Gelu(r) y = Mul(l, g)",
    ),
    "BiasSoftmax": (
        "BiasSoftmax",
        [X, normal(2, 1, 8)],
        {"axis": 2, "is_inner_broadcast": 1},
        "s = Add(a, b) y = Softmax(s)",
    ),
    "BiasSoftmax of two axes": (
        "BiasSoftmax",
        [X, normal(5, 8)],
        {"axis": 1, "is_inner_broadcast": 0},
        """s = Add(a, b) f = Flatten(s) z = Softmax(f)
        t = Constant <value_ints = [2, 5, 8]> () y = Reshape(z, t)""",
    ),
    "GemmFastGelu": (
        "GemmFastGelu",
        [X, normal(8, 3), normal(3)],
        {},
        """p = MatMul(a, b) s = Add(p, c) y = Gelu <approximate = "tanh"> (s)""",
    ),
    "FusedMatMulActivation": (
        "FusedMatMulActivation",
        [X, normal(3, 8)],
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
        """t = Transpose <perm = [1, 0]> (b) p = MatMul(a, t)
        h = Constant <value_float = 0.5> () m = Mul(p, h) y = LeakyRelu <alpha = 0.2> (m)""",
    ),
    "NhwcConv": (
        "NhwcConv",
        [IMAGE, normal(4, 3, 5, 1), normal(4)],
        {},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) k = Conv(x, b, c)
        y = Transpose <perm = [0, 2, 3, 1]> (k)""",
    ),
    "NhwcConv, channels of weights last": (
        "NhwcConv",
        [IMAGE, normal(4, 5, 2, 3)],
        {"strides": [1, 2]},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) w = Transpose <perm = [0, 3, 1, 2]> (b)
        k = Conv <strides = [1, 2]> (x, w) y = Transpose <perm = [0, 2, 3, 1]> (k)""",
    ),
    "NhwcFusedConv": (
        "NhwcFusedConv",
        [IMAGE, normal(4, 3, 3, 3), normal(4), normal(1, 4, 4, 4)],
        {"activation": "Relu"},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) k = Conv(x, b, c)
        l = Transpose <perm = [0, 2, 3, 1]> (k) s = Add(l, d) y = Relu(s)""",
    ),
}


@pytest.mark.parametrize("case", ON_GPUS)
def test_operators_of_gpus(case: str) -> None:
    kind, inputs, attributes, text = ON_GPUS[case]
    model, feeds = one(kind, inputs, variable=9, **attributes)
    named = dict(zip("abcd", inputs, strict=False))
    types = [f"float[{', '.join(map(str, v.shape))}] {n}" for n, v in named.items()]
    extents = ", ".join("klmn"[: inputs[0].ndim])
    meant = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        meant ({", ".join(types)}) => (float[{extents}] y) {{ {text} }}"""
    )
    (right,) = run_on(meant, named)
    (result,) = run_on(simplify(model), feeds)
    assert result.shape == right.shape
    assert np.allclose(result, right, atol=1e-5)
