"""The graph read from a Relay module is the one read from the ONNX file that it came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, relay

from relay_passes.dialect import DialectError
from relay_passes.pipeline import prepare
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.extract import extract
from relay_passes.relay.importer import import_onnx
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, module_of
from tests.same_graphs import SMALL_MODELS, require_same_graphs, small_model
from tvm_ios import zoo
from tvm_ios.models.load import load_onnx

#: Read by the fast tests; TVM takes seconds to import one of the others.
SMALL = ("inception_block", "several_outputs", "two_inputs", "unet")
#: TVM walks over all earlier nodes at each of thousands; small networks have the same layers. The
#: others differ from ``bert_128`` in a length alone.
TOO_LONG = (
    *("lstm_tc", "lstm_tc_gates", "deepspeech2", "seq2seq", "resnext101_branches"),
    *("bert_256", "bert_384", "bert_512"),
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SMALL else pytest.mark.slow)
        for name in zoo.names()
        if name not in TOO_LONG
    ],
)
def test_zoo(name: str) -> None:
    assert len(require_same_graphs(load_onnx(name), import_onnx)) > 5


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_models(name: str) -> None:
    require_same_graphs(small_model(name), import_onnx)


def test_a_gather_by_data_reads_the_indices_themselves() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        i = relay.cast(x, "int64")
        i = relay.where(relay.less(i, relay.const(0, "int64")), i + relay.const(5, "int64"), i)
        return relay.take(s.normal(5, 4), i, axis=0)

    graph = extract(canonicalise(module_of([(3,)], body))).graph
    assert [o.kind for o in graph.operators] == ["cast", "gather"]


def test_a_gather_of_elements_is_no_gather_of_rows() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return relay.gather(x, -1, relay.const(np.zeros((2, 1, 3), "int64")))

    graph = extract(canonicalise(module_of([(2, 1, 4)], body))).graph
    assert [o.kind for o in graph.operators] == ["gather_elements"]


def test_what_something_else_reads_is_no_part_of_a_spelling() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        y = relay.nn.dense(relay.reshape(x, (-1, 4)), s.normal(6, 4))
        return relay.reshape(y, (2, 3, 6)), y

    graph = extract(canonicalise(module_of([(2, 3, 4)], body))).graph
    assert [o.kind for o in graph.operators] == ["reshape", "dense", "reshape"]


def test_batch_norms_fold_through_biases_and_concatenations() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        parts = [s.bias(s.conv(x, 4, 5), 5), s.conv(x, 4, 3, (1, 1))]
        y = relay.nn.dropout(relay.nn.relu(s.norm(relay.concatenate(parts, axis=1), 8)))
        return s.norm(y, 8)

    graph = extract(canonicalise(module_of([(1, 4, 6, 6)], body))).graph
    kinds = sorted(o.kind for o in graph.operators)
    assert kinds == sorted(["conv2d", "bias_add"] * 2 + ["concat", "relu", "multiply", "bias_add"])


def _whole(s: RelaySketch, x: Any) -> Any:
    return relay.split(x, 3, axis=1).astuple()


def _nested(s: RelaySketch, x: Any) -> Any:
    return relay.Tuple([x, relay.Tuple([relay.nn.relu(x)])])


def _branch(s: RelaySketch, x: Any) -> Any:
    return relay.If(relay.const(True), relay.nn.relu(x), x)


def _called(s: RelaySketch, x: Any) -> Any:
    y = relay.var("y", shape=(1, 6, 4, 4))
    return relay.Call(relay.Function([y], relay.nn.relu(y)), [x])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (_whole, "tuple whole"),
        (_nested, "tuple inside a tuple"),
        (_branch, "(If)"),
    ],
)
def test_what_cannot_be_scheduled(body: Any, named: str) -> None:
    with refused(DialectError, named):
        prepare(module_of([(1, 6, 4, 4)], body))


def test_a_function_that_is_called_is_a_part_of_main() -> None:
    prepared = prepare(module_of([(1, 6, 4, 4)], _called))
    assert [op.name for op in prepared.units.operators] == ["relu_0"]


def test_dynamic_shapes_are_refused_by_name() -> None:
    x = relay.var("image", shape=(relay.Any(), 3))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    with refused(DialectError, "'image'", "dynamic"):
        prepare(module)


def test_relax_of_another_tvm_is_refused() -> None:
    with refused(DialectError, "apache-tvm 0.27"):
        prepare(tvm.IRModule({"main": relax.Function([], relax.const(1.0), is_pure=True)}))


def test_modules_of_both_dialects_or_of_nothing_are_refused() -> None:
    module = module_of([(1, 3)], lambda s, x: relay.nn.relu(x))
    both = tvm.IRModule({"main": module["main"], "other": relax.Function([], relax.const(1.0))})
    with refused(DialectError, "Relax and Relay"):
        prepare(both)
    with refused(DialectError, "'main'"):
        prepare(tvm.IRModule({}))


def test_steps_of_a_slice_are_of_the_first_axes() -> None:
    x = relay.var("x", shape=(4, 6))
    module = tvm.IRModule.from_expr(relay.strided_slice(x, [0, 0], [4, 6], [2]))
    graph = prepare(module).units
    assert graph.tensors[graph.outputs[0]].shape == (2, 6)
    assert dict(graph.operators[-1].attrs)["steps"] == (2,)
