from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.onnx_sketch import Sketch, kinds, relative_error, run
from tvm_ios.files.array_files import Array
from tvm_ios.models.random_weights import randomize_constant_weights
from tvm_ios.onnx.simplify import simplify

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def light(name: str) -> Any:
    path = LIGHT / f"light_{name}.onnx"
    if not path.is_file():
        pytest.skip("this onnx has no light models")
    return onnx.load(str(path))


def weights(model: Any) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def constant_model() -> Any:
    """Convolution, batch norm and dense layer whose weights are constant-valued."""
    s = Sketch(1, 3, 6, 6)
    y = s.op("Conv", "x", s.const(np.full((8, 3, 3, 3), 0.02)), s.const(np.full(8, 0.1)))
    y = s.op("BatchNormalization", y, *(s.const(np.full(8, v)) for v in (1.0, 0.0, 0.0, 1.0)))
    y = s.op("Mul", s.op("Relu", y), s.const(0.25))
    y = s.op("Reshape", y, s.const(np.array([1, 128])))
    shape = s.const(np.array([5, 128]))
    value = numpy_helper.from_array(np.array([0.01], np.float32))
    weight = s.op("ConstantOfShape", shape, value=value)
    return s.model(s.op("Gemm", y, weight, transB=1))


def test_every_constant_weight_varies_and_nothing_else() -> None:
    model = constant_model()
    random = randomize_constant_weights(model, 7)
    onnx.checker.check_model(random, full_check=True)
    assert "ConstantOfShape" not in kinds(random)
    before, after = weights(model), weights(random)
    varied = {name for name, array in after.items() if array.size > 1 and np.ptp(array) > 0}
    assert len([name for name in varied if after[name].dtype == np.float32]) == 7
    for name, array in after.items():
        if array.dtype == np.int64 or array.size == 1:
            np.testing.assert_array_equal(array, before[name])


def test_variances_are_positive_and_convolutions_have_hes_scale() -> None:
    random = randomize_constant_weights(constant_model(), 7)
    conv, norm = (n for n in random.graph.node if n.op_type in ("Conv", "BatchNormalization"))
    arrays = weights(random)
    assert arrays[norm.input[4]].min() > 0
    assert arrays[norm.input[1]].min() > 0
    assert arrays[conv.input[1]].std() == pytest.approx(np.sqrt(2 / 27), rel=0.2)


def test_the_seed_decides() -> None:
    digests = [
        hashlib.sha256(
            randomize_constant_weights(constant_model(), seed).SerializeToString()
        ).hexdigest()
        for seed in (3, 3, 4)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_weights_that_vary_are_kept() -> None:
    s = Sketch(1, 3, 6, 6)
    model = s.model(s.op("Conv", "x", s.normal(4, 3, 3, 3), s.normal(4)))
    kept, before = weights(randomize_constant_weights(model, 0)), weights(model)
    for name in before:
        np.testing.assert_array_equal(kept[name], before[name])


def test_data_that_is_no_weight_is_kept() -> None:
    s = Sketch(1, 3, 6, 6)
    low, high = s.const(np.float32(-1)), s.const(np.float32(1))
    scales = s.const(np.array([1.0, 1.0, 1.0, 1.0]))
    y = s.op("Resize", s.op("Clip", "x", low, high), "", scales)
    model = s.model(y)
    random = randomize_constant_weights(model, 0)
    assert relative_error(run(random), run(model)) == 0.0


@pytest.mark.parametrize(
    "name",
    [
        *("squeezenet", "shufflenet"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("inception_v1", "resnet50")),
    ],
)
def test_outputs_of_light_networks_vary_with_input_and_class(name: str) -> None:
    model = light(name)
    (flat,) = run(simplify(model), 1)
    assert np.ptp(flat) <= 1e-6 * np.abs(flat).max(), "the light models' outputs are constant"
    random = simplify(randomize_constant_weights(model, 0))
    (one,), (two,) = run(random, 1), run(random, 2)
    assert np.isfinite(one).all()
    assert one.std() > 0.01 * np.abs(one).max()
    assert np.abs(one - two).max() > 1e-3 * np.abs(one).max()
    # Not only the winner: a saturated softmax would hide errors of all other classes.
    assert np.median(one) > 1e-9 * one.max()


def test_models_whose_constants_are_nodes() -> None:
    s = Sketch(1, 3, 6, 6)
    filled = numpy_helper.from_array(np.full((4, 3, 1, 1), 0.5, np.float32))
    s.nodes.append(helper.make_node("Constant", [], ["filled"], value=filled))
    model = s.model(s.op("Conv", "x", "filled"))
    random = randomize_constant_weights(model, 0)
    assert kinds(random) == ["Conv"]
    assert np.ptp(weights(random)["filled"]) > 0
