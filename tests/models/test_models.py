"""Models by the names that users give them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from tests.graph_sketch import GraphSketch
from tests.onnx_sketch import Sketch, relative_error, run
from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_blocks, load_graph, load_onnx
from tvm_ios.models.source import Form, ModelSource

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def small() -> Any:
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.norm(sketch.conv("x", 3, 4), 4)))


def saved(model: Any, path: Path) -> str:
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_a_file_is_simplified_and_computes_the_same(tmp_path: Path) -> None:
    model = small()
    loaded = load_onnx(saved(model, tmp_path / "m.onnx"))
    assert [node.op_type for node in loaded.graph.node] == ["Conv", "Relu"]
    assert relative_error(run(loaded), run(model)) <= 1e-6


def test_a_graph_is_named_after_its_file(tmp_path: Path) -> None:
    model = small()
    assert load_graph(saved(model, tmp_path / "m.onnx")).name == "m"
    model.graph.name = ""
    # The checker refuses such a graph, and runtimes do not.
    assert load_graph(saved(model, tmp_path / "m.onnx")).name == "m"


def test_zoo_names_are_models() -> None:
    graph = load_graph("inception_block")
    assert graph.name == "inception_block"
    assert len(graph) == 17


def test_random_weights_replace_constant_ones() -> None:
    name = str(LIGHT / "light_squeezenet.onnx")

    def weights(seed: int | None) -> dict[str, bytes]:
        arrays = load_onnx(ModelSource(name, seed)).graph.initializer
        return {a.name: numpy_helper.to_array(a).tobytes() for a in arrays if len(a.dims) == 4}

    plain, first, again, other = (weights(seed) for seed in (None, 1, 1, 2))
    assert len(plain) == 26
    assert all(len(set(np.frombuffer(w, np.float32))) == 1 for w in plain.values())
    assert first == again
    assert all(len(set(np.frombuffer(w, np.float32))) > 1 for w in first.values())
    assert all(first[key] != other[key] for key in first)


def test_a_graph_file_is_a_model(tmp_path: Path) -> None:
    sketch = GraphSketch()
    graph = form_units(sketch.graph(sketch.op("add", sketch.conv(0), sketch.conv(0))))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph.to_json()))
    assert load_graph(str(path)) == graph


def test_blocks_of_a_model_are_numbered_from_zero() -> None:
    name, blocks = load_blocks("inception_block", 40)
    assert name == "inception_block"
    assert [len(block) for block in blocks] == [1, 14, 2]
    for block in blocks:
        assert all(mask < 1 << unit for unit, mask in enumerate(block)), "predecessors come first"
    assert blocks[2] == (0, 1)


def test_blocks_of_a_bare_graph(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    blocks = [{"operators": 3, "edges": [[0, 2], [1, 2]]}, {"operators": 2, "edges": []}]
    path.write_text(json.dumps({"name": "bare", "blocks": blocks}))
    assert load_blocks(str(path), 40) == ("bare", [(0, 0, 3), (0, 0)])


@pytest.mark.parametrize("name", ["no_such_network", "model.pb", "", "graph"])
def test_unknown_names_are_answered_with_the_command_that_lists_others(name: str) -> None:
    with refused(ModelError, f"'{name}'", "tvm-ios models"):
        load_onnx(name)


def test_a_name_that_is_nearly_one_of_the_zoo() -> None:
    with refused(ModelError, "'inceptionv3'", "'inception_v3'"):
        load_onnx("inceptionv3")


def test_forms(tmp_path: Path) -> None:
    def written(content: Any) -> Form:
        path = tmp_path / "x.json"
        path.write_text(json.dumps(content))
        return ModelSource(str(path)).form

    assert ModelSource("squeezenet").form is Form.ZOO
    assert ModelSource("a/b.onnx").form is Form.ONNX
    assert ModelSource("squeezenet.pt2").form is Form.TORCH
    assert written({"blocks": []}) is Form.BARE
    assert written({"format": "tvm-ios graph"}) is Form.GRAPH
    assert written({"root_index": 0, "nodes": []}) is Form.MODULE
    assert written({}) is Form.GRAPH


def test_a_zoo_network_is_built_with_the_seed() -> None:
    def weights(seed: int | None) -> bytes:
        return load_onnx(ModelSource("inception_block", seed)).SerializeToString()

    assert weights(None) == weights(0) != weights(1)


#: As many steps as an input says.
LOOP = """
    <ir_version: 8, opset_import: ["" : 17]>
    drawn (int64 k, float[1, 4] x) => (float[1, 4] y) {
        y = Loop (k, "", x) <body = step (int64 i, bool c, float[1, 4] b)
            => (bool s, float[1, 4] a) {s = Identity (c) a = Neg (b)}>
    }
"""


def test_control_flow_is_named(tmp_path: Path) -> None:
    path = saved(parser.parse_model(LOOP), tmp_path / "m.onnx")
    with refused(GraphError, "operator Loop", "'Loop_0'", "'y'", "control flow"):
        load_onnx(path)


def test_a_shape_that_the_data_tell_is_named(tmp_path: Path) -> None:
    sketch = Sketch(1, 4)
    sketch.op("NonZero", "x")
    path = saved(
        sketch.model(sketch.op("Cast", "v0_0", to=onnx.TensorProto.FLOAT)), tmp_path / "m.onnx"
    )
    with refused(GraphError, "NonZero", "'v0_0'"):
        load_onnx(path)


def test_a_graph_file_takes_no_shapes(tmp_path: Path) -> None:
    sketch = GraphSketch()
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(form_units(sketch.graph(sketch.conv(0))).to_json()))
    with refused(ModelError, path, "--shape"):
        load_graph(ModelSource(str(path), shapes={"x": (1,)}))


@pytest.mark.parametrize("name", ["m.onnx", "g.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_graph(str(tmp_path / name))
    assert caught.value.filename == str(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"onnx", bytes(range(256)), b"\x08" * 40])
def test_other_files_are_no_models(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with refused(ModelError, path) as caught:
        load_onnx(str(path))
    assert "\n" not in str(caught.value)


def test_half_a_file_is_no_model(tmp_path: Path) -> None:
    whole = small().SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((ModelError, GraphError)):
        load_onnx(str(path))


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[1]", b"null"])
def test_other_files_are_no_graphs(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(content)
    with refused(ModelError, path):
        load_graph(str(path))
