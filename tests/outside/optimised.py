"""Files that ONNX Runtime's optimiser and quantiser write."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator

from tests.outside.case import Case, floats, kind, node, onnx_model
from tvm_ios.files.array_files import Array


def _encoder(rng: Generator, length: int, heads: int) -> tuple[Any, dict[str, Array]]:
    """Return a layer of a transformer, and its input."""
    size = 8
    width = heads * size
    weights = {
        **{n: floats(rng, width, width) / np.float32(np.sqrt(width)) for n in "qkvo"},
        **{f"{n}_bias": floats(rng, width) * np.float32(0.1) for n in "qkvo"},
        "up": floats(rng, width, 2 * width) / np.float32(np.sqrt(width)),
        "down": floats(rng, 2 * width, width) / np.float32(np.sqrt(2 * width)),
        "up_bias": floats(rng, 2 * width) * np.float32(0.1),
        "gamma": np.abs(floats(rng, width)) + np.float32(0.5),
        "beta": floats(rng, width),
        "split": np.array([0, 0, heads, size]),
        "join": np.array([0, 0, width]),
        "scale": np.float32(np.sqrt(size)),
        "root": np.float32(np.sqrt(2)),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    nodes: list[Any] = []

    def op(kind_: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(nodes)}"
        nodes.append(node(kind_, inputs, [name], name=name, **attributes))
        return name

    def heads_of(name: str, perm: list[int]) -> str:
        dense = op("Add", op("MatMul", "x", name), f"{name}_bias")
        return op("Transpose", op("Reshape", dense, "split"), perm=perm)

    q, k, v = (heads_of(n, [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv")
    chosen = op("Softmax", op("Div", op("MatMul", q, k), "scale"), axis=-1)
    mixed = op("Transpose", op("MatMul", chosen, v), perm=[0, 2, 1, 3])
    dense = op("Add", op("MatMul", op("Reshape", mixed, "join"), "o"), "o_bias")
    normal = op("LayerNormalization", op("Add", dense, "x"), "gamma", "beta", epsilon=1e-5)
    wide = op("Add", op("MatMul", normal, "up"), "up_bias")
    erf = op("Add", op("Erf", op("Div", wide, "root")), "one")
    active = op("Mul", op("Mul", wide, erf), "half")
    out = op("Add", op("MatMul", active, "down"), normal)
    nodes.append(node("LayerNormalization", [out, "gamma", "beta"], ["y"], name="last"))
    feeds = {"x": floats(rng, 1, length, width)}
    return onnx_model(nodes, feeds, ["y"], weights, opset=17), feeds


def _image(rng: Generator) -> tuple[Any, dict[str, Array]]:
    weights = {
        "a": floats(rng, 8, 3, 3, 3) * np.float32(0.2),
        "b": floats(rng, 8, 8, 1, 1) * np.float32(0.3),
        "c": floats(rng, 8, 5) * np.float32(0.3),
        "bias": floats(rng, 8),
    }
    nodes = [
        node("Conv", ["x", "a", "bias"], ["n0"], name="first", pads=[1, 1, 1, 1]),
        node(str(rng.choice(["Relu", "Sigmoid"])), ["n0"], ["n1"], name="active"),
        node("Conv", ["n1", "b"], ["n2"], name="second"),
        node("Add", ["n2", "n1"], ["n3"], name="sum"),
        node("GlobalAveragePool", ["n3"], ["n4"], name="mean"),
        node("Flatten", ["n4"], ["n5"], name="flat"),
        node("MatMul", ["n5", "c"], ["y"], name="classes"),
    ]
    feeds = {"x": floats(rng, 1, 3, 10, 10)}
    return onnx_model(nodes, feeds, ["y"], weights, opset=17), feeds


@kind("optimised by ONNX Runtime")
def _optimised(rng: Generator) -> Case:
    import onnxruntime

    model, feeds = _encoder(rng, 6, 2) if rng.integers(2) else _image(rng)
    options: Any = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_EXTENDED if rng.integers(3) else levels.ORT_ENABLE_BASIC
    )
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return Case(onnx.load(options.optimized_model_filepath), feeds)


@kind("quantised by ONNX Runtime")
def _quantised(rng: Generator) -> Case:
    from onnxruntime import quantization

    logging.getLogger().setLevel(logging.ERROR)
    dynamic = bool(rng.integers(2))
    model, feeds = _encoder(rng, 6, 2) if dynamic else _image(rng)
    with tempfile.TemporaryDirectory() as folder:
        before, after = str(Path(folder) / "m.onnx"), str(Path(folder) / "q.onnx")
        onnx.save(model, before)
        if dynamic:
            quantization.quantize_dynamic(before, after, per_channel=bool(rng.integers(2)))
        else:
            form = quantization.QuantFormat
            quantization.quantize_static(
                before,
                after,
                _Reader([feeds]),
                quant_format=form.QDQ if rng.integers(2) else form.QOperator,
            )
        return Case(onnx.load(after), feeds, rtol=5e-2)


class _Reader:
    """Calibration data of one sample."""

    def __init__(self, samples: list[dict[str, Array]]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> dict[str, Array] | None:
        return next(self._samples, None)
