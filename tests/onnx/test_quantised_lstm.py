"""LSTMs of ONNX Runtime's quantiser become cells that compute what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.onnx.test_recurrent import BATCH, FEATURES, HIDDEN, STEPS, layer
from tests.onnx_sketch import Sketch, kinds, run_on
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.file import read_onnx
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
LSTM = "DynamicQuantizeLSTM"


def quantised(model: onnx.ModelProto, folder: Path, **options: Any) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    onnx.save(model, folder / "float.onnx")
    options = {"op_types_to_quantize": ["LSTM"], **options}
    quantize_dynamic(folder / "float.onnx", folder / "quantised.onnx", **options)
    quantised = onnx.load(folder / "quantised.onnx")
    assert LSTM in kinds(quantised)
    return quantised


def difference(model: onnx.ModelProto, seeds: int = 3) -> float:
    """The largest one of any output to ONNX Runtime's, for some inputs."""
    simple = simplify(model)
    assert LSTM not in kinds(simple)
    assert [o.name for o in simple.graph.output] == [o.name for o in model.graph.output]
    (source,) = model.graph.input
    shape = tuple(extent.dim_value for extent in source.type.tensor_type.shape.dim)
    largest = 0.0
    for seed in range(seeds):
        x = np.random.default_rng(seed).standard_normal(shape, np.float32)
        for ours, theirs in zip(run_on(simple, {"x": x}), run_on(model, {"x": x}), strict=True):
            assert ours.shape == theirs.shape
            largest = max(largest, float(np.abs(ours - theirs).max()))
    return largest


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"inputs": ()},
        {"steps": 1, "inputs": ("bias", "state")},
        {"inputs": ("state",), "direction": "reverse"},
        {"inputs": ("bias", "state", "memory", "peepholes"), "direction": "bidirectional"},
        {"inputs": ("bias", "lengths", "memory"), "input_forget": 1},
        {"clip": 0.4},
        {"opset": 11},
    ],
    ids=str,
)
def test_a_layer_rounds_as_onnx_runtime_does(
    options: dict[str, Any], per_channel: bool, tmp_path: Path
) -> None:
    # A number that is rounded otherwise makes a difference of 1e-3 and more.
    assert difference(quantised(layer("LSTM", **options), tmp_path, per_channel=per_channel)) < 1e-6


def test_unsigned_weights_and_zero_points(tmp_path: Path) -> None:
    model = quantised(layer("LSTM", inputs=("bias", "state")), tmp_path)
    (node,) = (node for node in model.graph.node if node.op_type == LSTM)
    arrays = {w.name: w for w in model.graph.initializer}
    for weight, zero_point in ((1, 9), (2, 11)):
        integers = numpy_helper.to_array(arrays[node.input[weight]])
        moved = (integers.astype(np.int32) + 131).clip(0, 255).astype(np.uint8)
        arrays_of: dict[int, Any] = {weight: moved, zero_point: np.array([131], np.uint8)}
        for place, array in arrays_of.items():
            old = arrays[node.input[place]]
            old.CopyFrom(numpy_helper.from_array(array, old.name))
    assert difference(model) < 1e-6


def test_layers_behind_one_another(tmp_path: Path) -> None:
    """ONNX knows nothing of the shape that the first one makes."""
    s = Sketch(STEPS, BATCH, FEATURES)
    x, features = "x", FEATURES
    for _ in range(2):
        weights = [s.normal(2, 4 * HIDDEN, extent) for extent in (features, HIDDEN)]
        y = s.op("LSTM", x, *weights, outputs=3, hidden_size=HIDDEN, direction="bidirectional")[0]
        moved = s.op("Transpose", y, perm=[0, 2, 1, 3])
        x, features = s.op("Reshape", moved, s.const(np.array([0, 0, -1]))), 2 * HIDDEN
    assert difference(quantised(s.model(x), tmp_path), seeds=2) < 1e-6


def test_computed_weights_are_refused(tmp_path: Path) -> None:
    model = quantised(layer("LSTM"), tmp_path)
    (node,) = (node for node in model.graph.node if node.op_type == LSTM)
    model.graph.input.append(onnx.ValueInfoProto())
    scale = next(w for w in model.graph.initializer if w.name == node.input[8])
    kind = onnx.helper.make_tensor_value_info(scale.name, scale.data_type, list(scale.dims))
    model.graph.input[-1].CopyFrom(kind)
    model.graph.initializer.remove(scale)
    with refused(GraphError, LSTM, "weights", "computed"):
        simplify(model)


def test_a_file_of_one_is_read(tmp_path: Path) -> None:
    model = quantised(layer("LSTM"), tmp_path)
    onnx.save(model, tmp_path / "lstm.onnx")
    assert "DynamicQuantizeLSTM" in kinds(model)
    assert "DynamicQuantizeLSTM" not in kinds(simplify(read_onnx(tmp_path / "lstm.onnx")))
