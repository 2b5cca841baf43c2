from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
import pytest

from tests.refusals import refused
from tests.zoo.test_published_counts import parameters
from tvm_ios import zoo
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.zoo.writing.network import ImageNetwork

SMALL = (
    "inception_block",
    "nasnet_cell",
    "lstm_small",
    "squeezenet",
    "lstm_gates_small",
    "seq2seq_small",
    "deepspeech2_small",
    "conformer_small",
    "transformer_small",
    "unet",
    "two_inputs",
    "several_outputs",
)
LARGE = tuple(name for name in zoo.names() if name not in SMALL)


def digest(model: Any) -> str:
    return hashlib.sha256(model.SerializeToString()).hexdigest()


def run(model: Any, seed: int) -> Array:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model.SerializeToString(), options)
    rng = np.random.default_rng(seed)
    inputs = {
        port.name: rng.integers(0, 2 if port.name == "segments" else 50, port.shape)
        if port.type == "tensor(int64)"
        else rng.standard_normal(port.shape, dtype=np.float32)
        for port in session.get_inputs()
    }
    return session.run(["output"], inputs)[0]


def check_network(name: str) -> None:
    """Valid ONNX of the described shape, whose logits vary with input and class."""
    model = zoo.build(name)
    onnx.checker.check_model(model, full_check=True)
    description = zoo.describe(name)
    shapes = {
        source.name: tuple(d.dim_value for d in source.type.tensor_type.shape.dim)
        for source in model.graph.input
    }
    assert shapes == description.input_shapes
    one, two = run(model, 1), run(model, 2)
    (output,) = (port for port in model.graph.output if port.name == "output")
    assert one.shape == tuple(d.dim_value for d in output.type.tensor_type.shape.dim)
    assert np.isfinite(one).all()
    largest = np.abs(one).max()
    # Two logits are nearer to each other than a thousand.
    spread = 0.03 if one.shape[-1] == 2 else 0.1
    assert one.size == 1 or one.std() > spread * largest
    assert np.abs(one - two).max() > 2e-3 * largest


@pytest.mark.parametrize("name", SMALL)
def test_small_networks(name: str) -> None:
    check_network(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_networks(name: str) -> None:
    check_network(name)


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_every_byte(name: str) -> None:
    first = digest(zoo.build(name, 5))
    assert first == digest(zoo.build(name, 5))
    assert first != digest(zoo.build(name, 6))


def test_squeezenet_has_the_convolutions_of_the_complex_bypass() -> None:
    bypass = sum(i * o + o for i, o in ((96, 128), (128, 256), (256, 384), (384, 512)))
    assert parameters(zoo.build("squeezenet")) == 1_248_424 + bypass


def test_work_is_as_published() -> None:
    def gigaflops(name: str) -> float:
        return sum(op.flops for op in graph_from_onnx(zoo.build(name)).operators) / 1e9

    assert gigaflops("densenet121") == pytest.approx(5.7, rel=0.02)
    assert gigaflops("mobilenet_v2") == pytest.approx(0.62, rel=0.02)
    assert gigaflops("shufflenet_v2") == pytest.approx(0.294, rel=0.02)


def test_an_unknown_network_names_the_known_ones() -> None:
    for look_up in (zoo.build, zoo.describe):
        with refused(KeyError, "'lenet'", "inception_v3, squeezenet"):
            look_up("lenet")


@pytest.mark.parametrize("extent", range(7, 12))
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_rounds_up_and_is_odd_at_the_end(extent: int, stride: int) -> None:
    net = ImageNetwork("pads", 0, (3, extent, extent))
    x = net.max_pool(net.conv(net.input, 4, (2, 5), stride), 3, 2, "valid", ceil_mode=True)
    model = net.finish(x.value, (1, 4, x.height, x.width))
    onnx.checker.check_model(model, full_check=True)
    pads = next(a.ints for a in model.graph.node[0].attribute if a.name == "pads")
    assert all(0 <= end - begin <= 1 for begin, end in zip(pads[:2], pads[2:], strict=True))
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    value = next(v for v in inferred.graph.value_info if v.name == "conv.out")
    extents = [d.dim_value for d in value.type.tensor_type.shape.dim]
    assert extents[2:] == [-(-extent // stride)] * 2
