"""ONNX models as torch modules: the same numbers as ONNX Runtime, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tvm_ios.files.array_files import Array
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.simplify import simplify

torch: Any = pytest.importorskip("torch")

from runtime_ext.peers.torch_import.network import UnsupportedOperator, torch_network  # noqa: E402

Body = Callable[[Sketch, str], Any]


def run(model: Any) -> list[Array]:
    """Outputs for the input that the sketch's own runner takes."""
    rng = np.random.default_rng(0)
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input]
    tensors = [torch.from_numpy(rng.standard_normal(s, dtype=np.float32)) for s in shapes]
    with torch.inference_mode():
        return [out.numpy() for out in torch_network(model)(*tensors)]


def ints(s: Sketch, *values: int) -> str:
    return s.const(np.array(values, np.int64))


OPERATORS: dict[str, Body] = {
    "convolution": lambda s, x: s.conv(x, 6, 8, strides=[2, 1], dilations=[1, 2]),
    "groups, bias": lambda s, x: s.op(
        "Conv", x, s.normal(6, 2, 3, 3), s.normal(6), group=3, pads=[0, 1, 2, 0]
    ),
    "dense": lambda s, x: s.op("Gemm", s.op("Flatten", x), s.normal(6 * 99, 5), s.normal(5)),
    "matmul, bias": lambda s, x: s.op("Add", s.op("MatMul", x, s.normal(11, 4)), s.normal(4)),
    "matmul of data": lambda s, x: s.op("MatMul", x, s.op("Transpose", x, perm=[0, 1, 3, 2])),
    "relu": lambda s, x: s.op("Relu", x),
    "clip": lambda s, x: s.op("Clip", x, s.const(np.float32(-0.5)), s.const(np.float32(1))),
    "leaky": lambda s, x: s.op("LeakyRelu", x, alpha=0.2),
    "arithmetic": lambda s, x: s.op("Div", s.op("Sub", x, s.op("Tanh", x)), s.positive(6, 1, 1)),
    "max pool": lambda s, x: s.op(
        "MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1]
    ),
    "max pool, ceiling": lambda s, x: s.op(
        "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
    ),
    "average pool": lambda s, x: s.op(
        "AveragePool", x, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1]
    ),
    "average pool, one side": lambda s, x: s.op(
        "AveragePool", x, kernel_shape=[3, 3], pads=[0, 0, 1, 1]
    ),
    "average pool, counting": lambda s, x: s.op(
        "AveragePool", x, kernel_shape=[3, 3], pads=[1, 0, 1, 1], count_include_pad=1
    ),
    "global mean": lambda s, x: s.op("GlobalAveragePool", x),
    "global maximum": lambda s, x: s.op("GlobalMaxPool", x),
    "mean": lambda s, x: s.op("ReduceMean", x, axes=[1, -1], keepdims=0),
    "sum": lambda s, x: s.op("ReduceSum", x, ints(s, 2), keepdims=1),
    "concat": lambda s, x: s.op("Concat", x, s.op("Sigmoid", x), axis=1),
    "softmax": lambda s, x: s.op("Softmax", x, axis=1),
    "reshape": lambda s, x: s.op("Reshape", x, ints(s, 2, 3, -1)),
    "shuffle": lambda s, x: s.op(
        "Transpose", s.op("Reshape", x, ints(s, 1, 2, 3, 99)), perm=[0, 2, 1, 3]
    ),
    "pad": lambda s, x: s.op("Pad", x, ints(s, 0, 0, 1, 2, 0, 0, 0, -1)),
    "slice": lambda s, x: s.op(
        "Slice", x, ints(s, 1, 8), ints(s, 6, 0), ints(s, 1, 2), ints(s, 2, -3)
    ),
    "split": lambda s, x: s.op("Mul", *s.op("Split", x, outputs=2, axis=1)),
    "lrn": lambda s, x: s.op("LRN", x, size=3, alpha=0.3),
    "layer norm": lambda s, x: s.op(
        "LayerNormalization", x, s.positive(9, 11), s.normal(9, 11), axis=2
    ),
    "gelu by erf": lambda s, x: s.op("Mul", x, s.op("Erf", x)),
    "hard swish": lambda s, x: s.op("HardSwish", x),
    "hard sigmoid": lambda s, x: s.op("HardSigmoid", x, alpha=0.3, beta=0.4),
    "power, root": lambda s, x: s.op("Sqrt", s.op("Pow", x, s.const(np.float32(2)))),
    "gather": lambda s, x: s.op("Gather", x, ints(s, 3, -1, 0), axis=1),
    "where": lambda s, x: s.op("Where", s.op("Greater", x, s.normal(1)), x, s.normal(6, 1, 1)),
    "transposed convolution": lambda s, x: s.op(
        "ConvTranspose", x, s.normal(6, 4, 2, 2), s.normal(4), strides=[2, 2]
    ),
    "resize, nearest": lambda s, x: s.op(
        "Resize", x, "", s.const(np.float32([1, 1, 2, 2])), mode="nearest"
    ),
    "resize, linear": lambda s, x: s.op(
        "Resize", x, "", s.const(np.float32([1, 1, 2, 2])), mode="linear"
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    sketch = Sketch(1, 6, 9, 11)
    model = sketch.model(OPERATORS[name](sketch, "x"))
    assert relative_error(run(simplify(model)), run_onnxruntime(model)) <= 1e-5


@pytest.mark.parametrize("name", ["inception_block", "nasnet_cell"])
def test_networks(name: str) -> None:
    model = load_onnx(name)
    assert relative_error(run(model), run_onnxruntime(model)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inception_v1", "densenet121", "shufflenet"])
def test_real_networks(name: str) -> None:
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = load_onnx(ModelSource(str(folder / f"light_{name}.onnx"), 0))
    assert relative_error(run(model), run_onnxruntime(model)) <= 1e-5


def test_several_outputs_one_with_readers() -> None:
    sketch = Sketch(1, 6, 9, 11)
    inner = sketch.op("Relu", sketch.conv("x", 6, 4))
    model = sketch.model(inner, sketch.op("Sigmoid", inner))
    assert relative_error(run(simplify(model)), run_onnxruntime(model)) <= 1e-5


@pytest.mark.parametrize(
    ("operator", "attributes", "reason"),
    [
        ("RandomNormalLike", {}, ""),
        ("Resize", {"mode": "cubic"}, ": cubic by half_pixel is not known"),
    ],
)
def test_what_is_unknown_is_named(operator: str, attributes: Any, reason: str) -> None:
    sketch = Sketch(1, 6, 8, 8)
    scales = ["", sketch.const(np.float32([1, 1, 2, 2]))] if operator == "Resize" else []
    model = simplify(sketch.model(sketch.op(operator, "x", *scales, **attributes)))
    with pytest.raises(UnsupportedOperator) as caught:
        torch_network(model)
    name = model.graph.node[0].name
    assert str(caught.value) == (
        f"the operator {operator} (node {name!r}) has no torch function here{reason}; "
        "compare without torch"
    )


def test_weights_are_those_of_a_module() -> None:
    """Or neither a memory format nor freezing would reach them."""
    network = torch_network(load_onnx("inception_block"))
    network.to(memory_format=torch.channels_last)
    weights = [w for w in network.buffers() if w.ndim == 4 and w.shape[2] > 1]
    assert weights
    assert all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)
