"""Several ONNX models as one: what each computes, under names of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest

from tests.dynamic_models.detection import ssd
from tests.onnx_sketch import Sketch, run_on
from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.files.array_files import Array
from tvm_ios.models.identity import model_identity
from tvm_ios.models.load import load_graph, load_onnx, read_model
from tvm_ios.models.source import Form, ModelSource
from tvm_ios.onnx.join import join

#: By what is in it. All names but ``n`` are in several.
MODELS = {
    "plain": """<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y)
        <float[3] c = {1, 2, 3}> { t = Add(x, c) y = Relu(t) }""",
    "older": """<ir_version: 7, opset_import: ["": 13]> g (float[2, 3] x, float[3] n) =>
        (float[2, 3] y) <float[3] c = {4, 5, 6}> { t = Mul(x, c) u = Sub(t, n) y = Tanh(u) }""",
    "branches": """<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x, bool b) =>
        (float[2, 3] y, float[2, 3] t) <float[3] c = {7, 8, 9}> {
        t = Neg(x)
        y = If(b) <
            then_branch = f1 () => (float[2, 3] r) { s = Add(t, c) r = Relu(s) },
            else_branch = f2 () => (float[2, 3] r) <float[3] c = {1, 1, 2}> { r = Mul(t, c) }
        > }""",
    "function": """<ir_version: 9, opset_import: ["": 17, "own": 1]> g (float[2, 3] x) =>
        (float[2, 3] y) { y = own.twice(x) }
        <domain: "own", opset_import: ["": 17]> twice (x) => (y) { t = Add(x, x) y = Neg(t) }""",
    "returned": """<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) =>
        (float[2, 3] y, float[3] c) <float[3] c = {1, 2, 3}> { y = Exp(x) }""",
}


def model_named(name: str) -> Any:
    return onnx.parser.parse_model(MODELS[name])


def values(model: Any, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [extent.dim_value for extent in kind.shape.dim]
        boolean = kind.elem_type == onnx.TensorProto.BOOL
        if value.name not in weights:
            drawn = rng.standard_normal(shape, dtype=np.float32)
            feeds[value.name] = np.asarray(drawn > 0) if boolean else drawn
    return feeds


@pytest.mark.parametrize("seed", range(2))
def test_each_computes_what_it_does_alone(seed: int) -> None:
    models = {name: model_named(name) for name in MODELS}
    joined = join(models)
    onnx.checker.check_model(joined, full_check=True)
    feeds: dict[str, Array] = {}
    expected: dict[str, Array] = {}
    for name, model in models.items():
        own = values(model, seed)
        feeds |= {n if n in ("n", "b") else f"{name}.{n}": value for n, value in own.items()}
        outputs = [value.name for value in model.graph.output]
        for n, array in zip(outputs, run_on(model, own), strict=True):
            expected[n if n in ("t", "c") else f"{name}.{n}"] = array
    assert {value.name for value in joined.graph.input} == feeds.keys()
    assert [value.name for value in joined.graph.output] == list(expected)
    for array, (name, wanted) in zip(run_on(joined, feeds), expected.items(), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-6, err_msg=name)


def test_models_are_not_changed() -> None:
    models = {name: model_named(name) for name in MODELS}
    before = [model.SerializeToString() for model in models.values()]
    join(models)
    assert [model.SerializeToString() for model in models.values()] == before


def test_a_name_that_looks_like_another_models_is_not_kept() -> None:
    left = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] a) => (float[2] y) { y = Relu(a) }'
    )
    right = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] q) => (float[2] r) { r = Neg(q) }'
    )
    # The parser takes no points in names.
    right.graph.input[0].name = right.graph.node[0].input[0] = "left.a"
    joined = join({"left": left, "right": right})
    assert [value.name for value in joined.graph.input] == ["a", "right.left.a"]


def save(path: Path, channels: int, **how: Any) -> Path:
    sketch = Sketch(how.pop("batch", 1), 3, 8, 8, **how)
    onnx.save(sketch.model(sketch.op("Relu", sketch.conv("x", 3, channels))), path)
    return path


def test_batch_shapes_and_weights_are_given_for_all(tmp_path: Path) -> None:
    files = [str(save(tmp_path / f"{name}.onnx", 4, seed=n)) for n, name in enumerate("ab")]
    source = ModelSource.together(files, batch=5)
    assert (source.name, source.form) == ("a+b", Form.TOGETHER)
    graph = load_graph(source)
    assert [graph.tensors[t].shape for t in graph.inputs] == [(5, 3, 8, 8)] * 2
    free = [str(save(tmp_path / f"{name}.onnx", 4, batch="N")) for name in "cd"]
    shapes = {"c.x": (2, 3, 8, 8), "d.x": (3, 3, 8, 8)}
    graph = load_graph(ModelSource.together(free, shapes=shapes))
    assert [graph.tensors[t].shape for t in graph.inputs] == list(shapes.values())
    assert load_onnx(ModelSource.together(files, random_weights=1)).graph.name == "a+b"


def test_identities_of_others_differ(tmp_path: Path) -> None:
    files = [str(save(tmp_path / f"{name}.onnx", 4, seed=n)) for n, name in enumerate("abc")]
    ab, ba, ac = ([files[0], files[1]], [files[1], files[0]], [files[0], files[2]])
    assert len({model_identity(ModelSource.together(each)) for each in (ab, ba, ac)}) == 3
    assert model_identity(ModelSource.together(files[:1])) == model_identity(files[0])


@pytest.mark.parametrize("other", ["m.pt2", "m.bundle", "graph.json"])
def test_what_is_no_onnx_model_runs_alone(tmp_path: Path, other: str) -> None:
    if other.endswith(".json"):
        graph = load_graph("inception_block")
        (tmp_path / other).write_text(json.dumps(graph.to_json()))
    with refused(ModelError, other):
        ModelSource.together(["squeezenet", str(tmp_path / other)])


def test_names_tell_models_apart(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    files = [str(save(folder / "net.onnx", 4)) for folder in (tmp_path, tmp_path / "b")]
    with refused(ModelError, "net"):
        ModelSource.together(files)


def test_other_domains_have_one_version() -> None:
    models = {name: model_named("plain") for name in ("a", "b")}
    for version, model in enumerate(models.values(), 1):
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", version))
    with refused(ModelError, "b", "com.microsoft", 1, 2):
        join(models)


@pytest.mark.parametrize(("opset", "kind"), [(9, "Upsample"), (10, "Resize")])
def test_old_resizing_means_what_it_did(opset: int, kind: str) -> None:
    old = onnx.parser.parse_model(
        f"""<ir_version: 4, opset_import: ["": {opset}]> g (float[1, 1, 3, 3] q) =>
        (float[1, 1, 6, 6] r) <float[4] s = {{1, 1, 2, 2}}> {{
        r = {kind} <mode = "linear"> (q, s) }}"""
    )
    feeds = values(old)
    plain = {"x": values(model_named("plain"))["x"]}
    joined = join({"old": old, "plain": model_named("plain")})
    found = run_on(joined, feeds | plain)
    np.testing.assert_allclose(found[0], run_on(old, feeds)[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], run_on(model_named("plain"), plain)[0], rtol=1e-6)


def test_opsets_that_cannot_be_converted() -> None:
    old = """<ir_version: 3, opset_import: ["": 6]> g (float[2, 3] x) => (float[2, 3] y) {
        y = Upsample <height_scale = 1.0, width_scale = 1.0> (x) }"""
    with refused(ModelError, "old", 6, 17):
        join({"old": onnx.parser.parse_model(old), "new": model_named("plain")})


def test_a_model_whose_end_depends_on_data_runs_alone(tmp_path: Path) -> None:
    onnx.save(ssd(), tmp_path / "detector.onnx")
    source = ModelSource.together([str(tmp_path / "detector.onnx"), "squeezenet"])
    assert read_model(source).graph.name == "detector+squeezenet"
    with refused(ModelError, "detector"):
        load_onnx(source)
