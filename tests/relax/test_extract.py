"""The graph read from a module is the one read from the ONNX file that it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.dialect import DialectError
from relay_passes.pipeline import prepare
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tests.relax.relax_sketch import RelaxSketch, module_of
from tests.same_graphs import SMALL_MODELS, require_same_graphs, small_model
from tvm_ios import zoo
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.graph import graph_from_onnx

op = relax.op
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize(
    "name",
    [
        "inception_block",
        "lstm_small",
        "deepspeech2_small",
        "squeezenet",
        "several_outputs",
        "transformer_small",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "lstm_gates_small",
                "seq2seq_small",
                "conformer_small",
                "nasnet_cell",
                "unet",
            )
        ),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in zoo.names()
            if zoo.describe(name).input_shapes.get("input", (0,))[-1] > 200
            or name in ("resnext29", "transformer", "bert_128", "conformer")
            if zoo.describe(name).units < 1000
        ),
    ],
)
def test_zoo(name: str) -> None:
    assert len(require_same_graphs(load_onnx(name), import_onnx)) > 10


def test_local_response_normalisation_is_one_operator() -> None:
    model = load_onnx(ModelSource(str(LIGHT / "light_inception_v1.onnx"), random_weights=0))
    graph = require_same_graphs(model, import_onnx)
    norms = [o for o in graph.operators if o.kind == "lrn"]
    assert [dict(o.attrs)["size"] for o in norms] == [5, 5]
    assert all(dict(o.attrs)["beta"] == 0.75 for o in norms)
    assert not any("pool3d" in o.kind for o in graph.operators)


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_models(name: str) -> None:
    require_same_graphs(small_model(name), import_onnx)


@pytest.mark.parametrize("name", ["inception_block", "nasnet_cell", "squeezenet"])
def test_a_schedule_made_without_tvm_fits_by_number(name: str) -> None:
    model = load_onnx(name)
    ours, theirs = prepare(import_onnx(model)).units, form_units(graph_from_onnx(model))
    assert [u.kind for u in ours.operators] == [u.kind for u in theirs.operators]
    assert ours.predecessors == theirs.predecessors


def test_operators_and_their_bindings_belong_together() -> None:
    module = import_onnx(load_onnx("inception_block"))
    extraction = extract(module)
    graph = extraction.graph
    assert len(extraction.bindings) == len(graph)
    assert len(extraction.values) == len(graph.tensors)
    for operator, bindings in zip(graph.operators, extraction.bindings, strict=True):
        assert extraction.number[bindings[-1].var] in operator.outputs
    for number, leaf in enumerate(extraction.values):
        assert graph.tensors[number].constant == (not isinstance(leaf, relax.Var))
        assert extraction.number[leaf] == number


def test_an_output_with_readers_inside() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        y = s.conv(x, 4)
        return s.emit(op.nn.relu(s.bias(y))), y

    units = prepare(module_of([(1, 4, 8, 8)], body)).units
    assert [u.kind for u in units.operators] == ["conv2d", "bias_add+relu"]
    assert [units.producer[t] for t in units.outputs] == [1, 0]


@pytest.mark.parametrize("kept", [(0, 1, 2), (2, 0), (1,)])
def test_fields_of_a_split(kept: tuple[int, ...]) -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        parts = s.emit(op.split(x, 3, axis=1))
        fields = [s.emit(relax.TupleGetItem(parts, i)) for i in kept]
        return tuple(s.emit(op.nn.relu(field)) for field in fields)

    graph = extract(canonicalise(module_of([(1, 6, 4, 4)], body))).graph
    split = graph.operators[0]
    assert split.kind == "split"
    assert dict(split.attrs) == {"axis": 1, "sizes": (2, 2, 2)}
    # Which ones are read must show.
    assert len(split.outputs) == 3
    readers = [o for o in graph.operators if o.kind == "relu"]
    assert [split.outputs.index(o.inputs[0]) for o in readers] == list(kept)
    assert sum(o.kind == "relu" for o in graph.operators) == len(kept)


def test_aliases_are_no_operators() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        y = s.emit(op.reshape(s.emit(op.nn.relu(x)), (1, 4, 8, 8)))
        both = s.emit(relax.Tuple([y, x]))
        return s.emit(op.add(*(s.emit(relax.TupleGetItem(both, i)) for i in range(2))))

    graph = extract(canonicalise(module_of([(1, 4, 8, 8)], body))).graph
    assert [o.kind for o in graph.operators] == ["relu", "add"]
    assert len(graph.tensors) == 3


def _whole(s: RelaxSketch, x: Any) -> Any:
    return s.emit(op.split(x, 3, axis=1))


def _nested(s: RelaxSketch, x: Any) -> Any:
    return s.emit(relax.Tuple([x, s.emit(relax.Tuple([s.emit(op.nn.relu(x))]))]))


@pytest.mark.parametrize(
    ("body", "named"),
    [(_whole, "fields"), (_nested, "tuple inside a tuple")],
)
def test_tuples_that_cannot_be_scheduled(body: Any, named: str) -> None:
    with refused(DialectError, named):
        prepare(module_of([(1, 6, 4, 4)], body))


def _pad_of_nothing(s: RelaxSketch, x: Any) -> Any:
    none = s.emit(op.strided_slice(x, [1], [2], [2]))
    return s.emit(op.nn.pad(none, [0, 0, 1, 1, 0, 0, 0, 0]))


def test_operators_of_no_elements_are_refused_by_name() -> None:
    with refused(DialectError, "pad", "[1, 0, 4, 4]"):
        prepare(module_of([(1, 6, 4, 4)], _pad_of_nothing))


def test_what_does_more_than_compute_is_refused_by_name() -> None:
    sketch = RelaxSketch((2, 4))
    with sketch.builder.function("main", sketch.inputs, pure=False):
        sketch.emit(op.print(sketch.inputs[0], format="{}"))
        sketch.builder.emit_func_output(sketch.emit(op.nn.relu(sketch.inputs[0])))
    module = sketch.builder.finalize()
    with refused(DialectError, "relax.print"):
        prepare(module)


@pytest.mark.parametrize("same", [True, False])
def test_what_only_looks_like_a_local_response_norm_is_none(same: bool) -> None:
    def body(s: RelaxSketch, x: Any, y: Any) -> Any:
        product = s.emit(op.multiply(x, x if same else y))
        window = {"padding": (1, 0, 0), "count_include_pad": True}
        pooled = s.emit(op.nn.avg_pool3d(s.emit(op.expand_dims(product, 1)), (3, 1, 1), **window))
        scaled = s.emit(op.multiply(s.emit(op.squeeze(pooled, [1])), relax.const(0.1, "float32")))
        shifted = s.emit(op.add(scaled, relax.const(1.0, "float32")))
        return s.emit(op.divide(x, s.emit(op.power(shifted, relax.const(0.75, "float32")))))

    graph = extract(canonicalise(module_of([(1, 6, 4, 4), (1, 6, 4, 4)], body))).graph
    assert ("lrn" in [operator.kind for operator in graph.operators]) == same


def test_dynamic_shapes_are_refused_by_name() -> None:
    sketch = Sketch("N", 3, 8, 8)
    model = sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4)))
    with refused(DialectError, "'x'", "dynamic"):
        prepare(from_onnx(model, keep_params_in_input=False))
