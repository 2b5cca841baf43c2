"""``--state``: steps of a recurrent network, beside ONNX Runtime with its states handed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command_line import tvm_ios
from tvm_ios.files.array_files import Array, read_arrays

FEATURES, WIDTH, STEPS = 4, 8, 6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``h_out = tanh(x W + h R)``, and sums of it."""
    random = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype("float32"), name)

    def value(name: str, width: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])

    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("MatMul", ["h.in", "R"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["h.out"]),
        helper.make_node("MatMul", ["h.out", "V"], ["y"]),
    ]
    inputs = [value("x", FEATURES), value("h.in", WIDTH)]
    outputs = [value("y", 3), value("h.out", WIDTH)]
    constants = [weights("W", FEATURES, WIDTH), weights("R", WIDTH, WIDTH), weights("V", WIDTH, 3)]
    graph = helper.make_graph(nodes, "steps", inputs, outputs, constants)
    path = tmp_path_factory.mktemp("steps") / "steps.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def handed(model: Path, x: Array, state: Array, steps: int) -> tuple[Array, Array]:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    y = np.zeros(0)
    for _ in range(steps):
        y, state = session.run(None, {"x": x, "h.in": state})
    return y, state


def test_steps_are_those_of_onnx_runtime(model: Path, tmp_path: Path) -> None:
    quick = ("--policy", "sequential", "--lanes", 1, "--json")
    optimized = tvm_ios("optimize", model, *quick, "--state", "h.out=h.in", "-o", tmp_path / "out")
    assert optimized.code == 0, optimized.stderr
    x = np.random.default_rng(1).standard_normal((1, FEATURES)).astype("float32")
    zeros, some = np.zeros((1, WIDTH), "float32"), np.full((1, WIDTH), 0.3, "float32")
    for first, given in ((zeros, {"x": x}), (some, {"x": x, "h.in": some})):
        np.savez(tmp_path / "in.npz", **given)
        done = tvm_ios(
            *("run", tmp_path / "out", "--input", tmp_path / "in.npz", "--repeat", STEPS),
            *("--output", tmp_path / "out.npz", "--json"),
        )
        assert done.json["states"] == ["h.in"]
        outputs = read_arrays(tmp_path / "out.npz")
        for name, wanted in zip(("y", "h.out"), handed(model, x, first, STEPS), strict=True):
            np.testing.assert_allclose(outputs[name], wanted, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("states", "names"),
    [
        (("h.out=h.in", "y=x"), ("'y'", "[1, 3]", "'x'", "[1, 4]")),
        (("h_out=h.in",), ("h_out", "h.out")),
        (("h.out=h",), ("'h'", "h.in")),
    ],
)
def test_what_does_not_fit_is_refused_before_a_search(
    model: Path, states: tuple[str, ...], names: tuple[str, ...]
) -> None:
    given = [word for state in states for word in ("--state", state)]
    tvm_ios("optimize", model, *given).refuses(*names)


def test_what_is_no_pair_is_a_wrong_use(model: Path, tmp_path: Path) -> None:
    for text in ("h", "h=", "=h"):
        assert tvm_ios("optimize", model, "--state", text).code == 2
    several = ("--lanes", "1,2", "-o", tmp_path / "app")
    assert tvm_ios("optimize", model, "--state", "h.out=h.in", *several).code == 2
