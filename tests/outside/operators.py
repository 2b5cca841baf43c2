"""Operators of ONNX Runtime's own domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.outside.case import Case, floats, kind, node, onnx_model
from tvm_ios.files.array_files import Array

_DOMAIN = "com.microsoft"


def _case(
    operator: str,
    feeds: dict[str, Array],
    weights: dict[str, Array],
    order: Sequence[str],
    outputs: Sequence[str] | dict[str, Any] = ("y",),
    rtol: float = 1e-3,
    steps: int = 0,
    **attributes: Any,
) -> Case:
    made = node(operator, order, [*outputs], domain=_DOMAIN, **attributes)
    model = onnx_model([made], feeds, outputs, weights, opset=17, domains=[_DOMAIN])
    return Case(model, feeds, rtol=rtol, steps=steps)


@kind("activations of com.microsoft")
def _activations(rng: Generator) -> Case:
    x, bias = floats(rng, 2, 3, 8), floats(rng, 8)
    operator = str(rng.choice(["Gelu", "BiasGelu", "FastGelu", "QuickGelu", "BiasSoftmax"]))
    if operator == "BiasGelu" or (operator == "FastGelu" and rng.integers(2)):
        return _case(operator, {"x": x}, {"b": bias}, ["x", "b"])
    if operator == "BiasSoftmax":
        mask = floats(rng, 2, 1, 8)
        attributes = {"axis": 2, "is_inner_broadcast": 1}
        return _case(operator, {"x": x, "m": mask}, {}, ["x", "m"], **attributes)
    return _case(operator, {"x": x}, {}, ["x"])


@kind("products of com.microsoft")
def _products(rng: Generator) -> Case:
    x = floats(rng, 2, 6, 6)
    chosen = int(rng.integers(4))
    if chosen == 0:
        flags = {f"trans{side}": int(rng.integers(2)) for side in "AB"}
        other, alpha = floats(rng, 2, 6, 6), float(rng.choice([1.0, 0.5]))
        return _case("FusedMatMul", {"x": x, "z": other}, {}, ["x", "z"], alpha=alpha, **flags)
    if chosen == 1:
        activation = str(rng.choice(["Relu", "Sigmoid", "Tanh"]))
        weights = {"w": floats(rng, 6, 4), "c": floats(rng, 4)}
        feeds = {"x": x[0]}
        return _case("FusedGemm", feeds, weights, ["x", "w", "c"], activation=activation)
    if chosen == 2:
        image = floats(rng, 1, 3, 5, 5)
        weights = {"w": floats(rng, 4, 3, 3, 3), "b": floats(rng, 4)}
        activation = str(rng.choice(["Relu", "Sigmoid", "LeakyRelu"]))
        more = {"activation_params": [0.2]} if activation == "LeakyRelu" else {}
        order = ["x", "w", "b"]
        return _case("FusedConv", {"x": image}, weights, order, activation=activation, **more)
    bits = int(rng.choice([4, 8]))
    k, n, block = 32, 6, 16
    weights = {
        "w": rng.integers(0, 256, (n, k // block, block * bits // 8)).astype(np.uint8),
        "s": np.abs(floats(rng, n * (k // block))) * np.float32(0.1),
    }
    sizes = {"K": k, "N": n, "bits": bits, "block_size": block}
    return _case("MatMulNBits", {"x": floats(rng, 3, k)}, weights, ["x", "w", "s"], **sizes)


@kind("normalisations of com.microsoft")
def _normalisations(rng: Generator) -> Case:
    x, other = floats(rng, 2, 3, 8), floats(rng, 2, 3, 8)
    gamma, beta, bias = (floats(rng, 8) for _ in range(3))
    chosen = str(rng.choice(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]))
    if chosen == "SkipLayerNormalization":
        weights, order = {"g": gamma, "b": beta}, ["x", "z", "g", "b"]
    else:
        weights, order = {"g": gamma}, ["x", "z", "g"]
    if rng.integers(2):
        weights["e"], order = bias, [*order, "e"]
    return _case(chosen, {"x": x, "z": other}, weights, order, epsilon=1e-5)


@kind("attention of com.microsoft")
def _attention(rng: Generator) -> Case:
    batch, length, heads, size = 2, 5, 2, 4
    width = heads * size
    if rng.integers(2):
        x = floats(rng, batch, length, width)
        weights = {"w": floats(rng, width, 3 * width), "b": floats(rng, 3 * width)}
        order = ["x", "w", "b"]
        if rng.integers(2):
            weights["m"] = np.array([length, 3], np.int32)
            order.append("m")
        more = {"unidirectional": int(rng.integers(2))}
        return _case("Attention", {"x": x}, weights, order, num_heads=heads, **more)
    feeds = {name: floats(rng, batch, length, width) for name in ("q", "k", "v")}
    return _case("MultiHeadAttention", feeds, {}, ["q", "k", "v"], num_heads=heads)


@kind("eight bits of com.microsoft")
def _eight_bits(rng: Generator) -> Case:
    x = floats(rng, 4, 16)
    weight = rng.integers(-127, 128, (16, 8)).astype(np.int8)
    scale = np.float32(0.02)
    weights: dict[str, Array] = {"w": weight, "s": np.asarray(scale), "z": np.zeros((), np.int8)}
    if rng.integers(2):
        return _case("DynamicQuantizeMatMul", {"x": x}, weights, ["x", "w", "s", "z"], rtol=1e-2)
    operator = str(rng.choice(["QLinearAdd", "QLinearMul"]))
    numbers = {n: rng.integers(0, 256, (2, 8)).astype(np.uint8) for n in ("a", "b")}
    scales = {f"{n}s": np.float32(s) for n, s in (("a", 0.1), ("b", 0.05), ("y", 0.2))}
    zeros = {f"{n}z": np.uint8(z) for n, z in (("a", 120), ("b", 3), ("y", 128))}
    order = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    return _case(operator, numbers, {**scales, **zeros}, order, {"y": np.uint8}, steps=1)
