"""Files that runtimes take, although ``onnx.checker`` does not or they state things otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_sketch import Sketch, relative_error, run
from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.onnx.file import read_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.tolerated import normalised


def chain() -> Any:
    """Operators of which one holds a graph that reads what another one makes."""
    s = Sketch(2, 4, 6, 6)
    left = s.op("Relu", s.conv("x", 4, 4))
    branches = [
        helper.make_graph(
            [helper.make_node(kind, [left], ["inside"])],
            kind,
            [],
            [helper.make_tensor_value_info("inside", TensorProto.FLOAT, None)],
        )
        for kind in ("Neg", "Exp")
    ]
    taken = s.op("If", s.const(np.array(True)), then_branch=branches[0], else_branch=branches[1])
    return s.model(s.op("Add", s.op("Sigmoid", left), taken))


def unsorted(model: Any) -> None:
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def no_shape(model: Any) -> None:
    model.graph.output[0].type.tensor_type.ClearField("shape")


def no_type(model: Any) -> None:
    model.graph.output[0].ClearField("type")


def no_name(model: Any) -> None:
    model.graph.ClearField("name")


@pytest.mark.parametrize("edit", [unsorted, no_shape, no_type, no_name])
def test_what_runtimes_take(edit: Callable[[Any], None], tmp_path: Path) -> None:
    model = chain()
    expected = run(model)
    edit(model)
    with pytest.raises(Exception, match=r"."):
        onnx.checker.check_model(model)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    read = read_onnx(tmp_path / "m.onnx")
    assert relative_error(run(simplify(read)), expected) < 1e-6


def test_a_circle_is_refused(tmp_path: Path) -> None:
    model = chain()
    model.graph.node[0].input[0] = model.graph.node[-1].output[0]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with refused(ModelError, "m.onnx", "its own result"):
        read_onnx(tmp_path / "m.onnx")


def test_group_norms_of_groups_scales_are_no_mistake(tmp_path: Path) -> None:
    """Only a newer opset gave them another meaning, and the old one a name in the past."""
    s = Sketch(2, 4, 6, opset=18)
    model = s.model(s.op("GroupNormalization", "x", s.normal(2), s.normal(2), num_groups=2))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert relative_error(run(simplify(read_onnx(tmp_path / "m.onnx"))), run(model)) < 1e-5


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("as_node", [True, False])
def test_sparse_weights_become_dense(flat: bool, as_node: bool, tmp_path: Path) -> None:
    whole = np.zeros((4, 5), np.float32)
    whole[[0, 2, 3], [1, 4, 0]] = [2, -3, 5]
    places = np.flatnonzero(whole) if flat else np.argwhere(whole)
    values = numpy_helper.from_array(whole[whole != 0], "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places), whole.shape)
    s = Sketch(3, 4)
    s.op("MatMul", "x", "w")
    model = s.model("v0_0")
    if as_node:
        node = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
        model.graph.node.insert(0, node)
    else:
        model.graph.sparse_initializer.append(sparse)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    (y,) = run(simplify(read_onnx(tmp_path / "m.onnx")))
    assert np.allclose(y, x @ whole, atol=1e-6)


def training_norm(s: Sketch, *unwanted: str) -> Any:
    weights = [s.positive(4) for _ in range(4)]
    (y, *_) = s.op("BatchNormalization", "x", *weights, outputs=3, training_mode=1)
    s.nodes[-1].output[1:] = unwanted
    return s.model(y)


@pytest.mark.parametrize("unwanted", [("", ""), ("", "moved")])
def test_outputs_without_a_name_are_not_there(unwanted: tuple[str, str]) -> None:
    simplified = simplify(training_norm(Sketch(2, 4, 6, 6), *unwanted))
    assert [value.name for value in simplified.graph.input] == ["x"]
    # ONNX Runtime ends where these have no names.
    named = training_norm(Sketch(2, 4, 6, 6), "mean", "moved")
    assert relative_error(run(simplified), run(named)) < 1e-5


def test_outputs_that_onnx_wants_are_there(tmp_path: Path) -> None:
    s = Sketch(2, 4)
    y, _ = s.op("TopK", "x", s.const(np.array([2])), outputs=2)
    expected = run(s.model(y))
    s.nodes[-1].output[1] = ""
    models = {"topk": s.model(y), "norm": training_norm(Sketch(2, 4, 6, 6), "", "")}
    for name, model in models.items():
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
        computed = run(simplify(read_onnx(tmp_path / f"{name}.onnx")))
        assert name == "norm" or relative_error(computed, expected) == 0


def test_a_mask_without_a_name_is_not_there() -> None:
    s = Sketch(2, 4)
    y, _ = s.op("Dropout", "x", outputs=2)
    s.nodes[-1].output[1] = ""
    assert run(simplify(s.model(y)))[0].shape == (2, 4)


def test_parts_without_a_name_are_still_parts() -> None:
    s = Sketch(6, 2)
    parts = s.op("Split", "x", outputs=3)
    model = s.model(parts[1])
    expected = run(model)
    model.graph.node[0].output[:] = ["", parts[1], ""]
    assert len(normalised(model).graph.node[0].output) == 3
    assert relative_error(run(simplify(model)), expected) == 0
