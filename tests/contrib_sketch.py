"""Models of one operator of another domain than ONNX's, and what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.onnx_sketch import kinds, run_on
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

RNG = np.random.default_rng(0)
DOMAIN = "com.microsoft"


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


def f32(numbers: Sequence[float]) -> Array:
    return np.array(numbers, np.float32)


def i8(numbers: Sequence[int]) -> Array:
    return np.array(numbers, np.int8)


def ints(high: int, *shape: int, dtype: type = np.int32) -> Array:
    return RNG.integers(0, high, shape).astype(dtype)


def one(
    kind: str,
    inputs: list[Any],
    outputs: int | list[bool] = 1,
    *,
    variable: int = 1,
    version: int = 17,
    domain: str = DOMAIN,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one operator, and what it is fed: its first inputs; the others are constants."""
    names = ["" if value is None else f"i{n}" for n, value in enumerate(inputs)]
    there = [True] * outputs if isinstance(outputs, int) else outputs
    made = [f"o{n}" if is_there else "" for n, is_there in enumerate(there)]
    node = helper.make_node(kind, names, made, "one", domain=domain, **attributes)
    arrays = {n: np.asarray(v) for n, v in zip(names, inputs, strict=True) if v is not None}
    fed = [name for name in names[:variable] if name]

    def output(name: str) -> Any:
        if kind == "MultiHeadAttention":  # of whose scores ONNX Runtime infers no type
            return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.ValueInfoProto(name=name)

    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype), arrays[n].shape
            )
            for n in fed
        ],
        [output(name) for name in made if name],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed],
    )
    opsets = [helper.make_opsetid("", version), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {
        name: arrays[name] for name in fed
    }


def require_same(model: onnx.ModelProto, feeds: dict[str, Any], limit: float = 1e-5) -> Any:
    """Require that the simplified model has operators of ONNX alone, and the same results."""
    simple = simplify(model)
    assert all(node.domain in ("", "ai.onnx") for node in simple.graph.node), kinds(simple)
    results, expected = run_on(simple, feeds), run_on(model, feeds)
    for result, right in zip(results, expected, strict=True):
        assert (result.shape, result.dtype) == (right.shape, right.dtype)
        wide, largest = right.astype(np.float64), np.abs(right.astype(np.float64)).max()
        assert largest > 0
        assert np.abs(result - wide).max() <= limit * largest
    return simple


def packed(bits: int, rows: int, columns: int, block: int) -> tuple[list[Any], dict[str, Any]]:
    """Weights, scales and zero points of ``MatMulNBits``, and its attributes."""
    blocks = -(-rows // block)
    weight = ints(256, columns, blocks, block * bits // 8, dtype=np.uint8)
    scales = RNG.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)
    zeros = ints(256, columns, -(-blocks * bits // 8), dtype=np.uint8)
    return [weight, scales, zeros], {"bits": bits, "K": rows, "N": columns, "block_size": block}


#: Rows of features, a mask of them, and what projects them to heads.
X = normal(2, 5, 8)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
N, H = 2, 4
D = N * H
QKV = [normal(2, 5, 6), normal(6, 3 * D, scale=0.5), normal(3 * D)]
