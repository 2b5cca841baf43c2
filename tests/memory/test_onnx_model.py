"""ONNX models whose nodes are written in another order compute the same, and keep all else."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest

from tests.fast_run import one_in
from tests.onnx.random_control_flow import random_program
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.topological import topological_order
from tvm_ios.memory import order
from tvm_ios.memory.formats.onnx_model import WrittenModel
from tvm_ios.models.source import ModelSource


def outputs_of(path: Path, shape: tuple[int, ...]) -> list[Array]:
    runtime: Any = pytest.importorskip("onnxruntime")
    inputs = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    return runtime.InferenceSession(path).run(None, inputs)


def branches() -> Any:
    """Wide branches that are all made before the first is narrowed."""
    sketch = Sketch(1, 4, 8, 8)
    wide = [sketch.op("Relu", sketch.conv("x", 4, 16)) for _ in range(3)]
    narrow = [sketch.conv(value, 16, 2) for value in wide]
    model = sketch.model(sketch.op("Concat", *narrow, axis=1))
    model.metadata_props.add(key="made by", value="a test")
    model.graph.node[0].doc_string = "the first"
    return model


def written(model: Any, folder: Path) -> WrittenModel:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return WrittenModel.read(ModelSource(str(path)))


def test_the_least_peak_is_written_and_nothing_else_changes(tmp_path: Path) -> None:
    model = branches()
    read = written(model, tmp_path)
    found = order(read.graph)
    block = 64 * 4
    assert read.graph.peak(range(len(read.nodes))) == (4 + 3 * 16) * block
    assert (found.peak, found.proven) == ((4 + 16 + 2 * 2) * block, True)
    path = tmp_path / "reordered.onnx"
    read.write(path, found.order)
    again = onnx.load(path)
    assert list(again.graph.node) == [model.graph.node[n] for n in found.order]
    for each in (again, model):
        del each.graph.node[:]
    assert again == model
    for one, other in zip(
        outputs_of(tmp_path / "model.onnx", (1, 4, 8, 8)),
        outputs_of(path, (1, 4, 8, 8)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    onnx.checker.check_model(str(path), full_check=True)


@pytest.mark.parametrize("seed", one_in(4, range(24)))
def test_programs_of_subgraphs_compute_the_same_in_any_order(seed: int, tmp_path: Path) -> None:
    read = written(random_program(seed), tmp_path)
    names = [set(node.inputs) for node in read.nodes]
    sources = [
        {m for m, other in enumerate(read.nodes) if names[n] & set(other.outputs)}
        for n in range(len(read.nodes))
    ]
    rank = list(range(len(read.nodes)))
    Random(seed).shuffle(rank)
    shuffled = topological_order(sources, rank)
    read.graph.peak(shuffled)
    read.write(tmp_path / "shuffled.onnx", shuffled)
    for one, other in zip(
        outputs_of(tmp_path / "model.onnx", (3, 4)),
        outputs_of(tmp_path / "shuffled.onnx", (3, 4)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_views_and_constants_take_no_memory(tmp_path: Path) -> None:
    sketch = Sketch(1, 4, 4, 4)
    flat = sketch.op("Reshape", sketch.conv("x", 4, 4), sketch.const(np.array([1, 64])))
    weight = sketch.op("Transpose", sketch.normal(64, 64), perm=[1, 0])
    model = sketch.model(sketch.op("MatMul", flat, weight))
    read = written(model, tmp_path)
    assert [buffer.size for buffer in read.graph.lifetimes(range(4))] == [256, 256, 256]


def test_shapes_that_operators_compute_are_known(tmp_path: Path) -> None:
    sketch = Sketch("batch", 4)
    shape = sketch.op("Shape", "x")
    rows = sketch.op("Gather", shape, sketch.const(np.array([0])))
    twice = sketch.op("Mul", rows, sketch.const(np.array([2])))
    target = sketch.op("Concat", twice, sketch.const(np.array([2])), axis=0)
    model = sketch.model(sketch.op("Relu", sketch.op("Reshape", "x", target)))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    read = WrittenModel.read(ModelSource(str(path), shapes={"x": (6, 4)}))
    assert read.unknown == ()
    assert read.graph.peak(range(len(read.nodes))) == 6 * 4 * 4 * 2
    # The dimension stays open.
    read.write(path, range(len(read.nodes)))
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_sizes_that_depend_on_the_data_count_as_nothing(tmp_path: Path) -> None:
    sketch = Sketch(2, 3)
    found = sketch.op("NonZero", sketch.op("Relu", "x"))
    model = sketch.model(sketch.op("Cast", found, to=onnx.TensorProto.FLOAT))
    read = written(model, tmp_path)
    assert read.unknown == (found, model.graph.output[0].name)
    assert read.graph.peak(range(3)) == 24


def test_weights_in_other_files_go_along_and_replace_no_file(tmp_path: Path) -> None:
    model = branches()
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    expected = outputs_of(folder / "model.onnx", (1, 4, 8, 8))
    read = WrittenModel.read(ModelSource(str(folder / "model.onnx")))
    best = order(read.graph).order
    for path in (folder / "beside.onnx", tmp_path / "away" / "model.onnx"):
        path.parent.mkdir(exist_ok=True)
        read.write(path, best)
        np.testing.assert_array_equal(outputs_of(path, (1, 4, 8, 8))[0], expected[0])
    assert (tmp_path / "away" / "weights.bin").read_bytes() == (folder / "weights.bin").read_bytes()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "weights.bin").write_text("of somebody else")
    with refused(ModelError, "weights.bin", "in the way"):
        read.write(taken / "model.onnx", best)
    assert [path.name for path in taken.iterdir()] == ["weights.bin"]


def joined(depthwise: bool) -> Any:
    """Parts that a normalisation, an activation and a convolution read together."""
    sketch = Sketch(1, 3, 8, 8)
    parts = [sketch.conv("x", 3, channels) for channels in (4, 2, 6)]
    whole = sketch.op("Relu", sketch.norm(sketch.op("Concat", *parts, axis=-3), 12))
    bias = sketch.normal(24 if depthwise else 5)
    weight = sketch.normal(*((24, 1, 3, 3) if depthwise else (5, 12, 3, 3)))
    result = sketch.op("Conv", whole, weight, bias, group=12 if depthwise else 1, pads=[1, 1, 1, 1])
    return sketch.model(sketch.op("Sigmoid", result))


@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions_of_parts_compute_the_same(depthwise: bool, tmp_path: Path) -> None:
    read = written(joined(depthwise), tmp_path)
    rewritten = read.rewritten()
    assert rewritten.places == 1
    # The convolutions of the parts, before, and this one: multiplications for each of 64 places.
    work = 12 * 3 * 9 + (24 * 9 if depthwise else 5 * 12 * 9)
    assert rewritten.more_work == (0 if depthwise else 2 * 5 / work)
    kinds = [node.op_type for node in rewritten.model.model.graph.node]
    assert (kinds.count("Conv"), kinds.count("Relu"), kinds.count("Add")) == (
        6,
        3,
        0 if depthwise else 2,
    )
    path = tmp_path / "rewritten.onnx"
    rewritten.model.write(path, order(rewritten.model.graph).order)
    onnx.checker.check_model(str(path), full_check=True)
    expected, found = (
        outputs_of(file, (1, 3, 8, 8))[0] for file in (tmp_path / "model.onnx", path)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    if not depthwise:
        assert order(rewritten.model.graph).peak < order(read.graph).peak


def test_what_somebody_else_reads_is_not_rewritten(tmp_path: Path) -> None:
    sketch = Sketch(1, 3, 8, 8)
    whole = sketch.op("Concat", sketch.op("Relu", "x"), sketch.op("Abs", "x"), axis=1)
    model = sketch.model(sketch.conv(whole, 6, 2), sketch.op("Sigmoid", whole))
    rewritten = written(model, tmp_path).rewritten()
    assert (rewritten.places, rewritten.more_work) == (0, 0)


def test_what_is_written_as_it_is_takes_no_options(tmp_path: Path) -> None:
    with refused(ModelError, "--batch"):
        WrittenModel.read(ModelSource("unet", batch=2))
    graph = tmp_path / "graph.json"
    graph.write_text('{"blocks": []}')
    with refused(ModelError, "only ONNX models"):
        WrittenModel.read(ModelSource(str(graph)))
