"""Canonical modules: inference only, constants folded, everything else as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.canonical.fold_constants import FoldSmallConstants
from relay_passes.relax.expressions import DialectError, constant
from tests.onnx_sketch import Sketch, relative_error
from tests.refusals import refused
from tests.relax.relax_sketch import (
    RelaxSketch,
    inputs_of,
    module_of,
    operators,
    require_same_outputs,
    run,
)

op = relax.op


def test_dropout_is_removed() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        y = s.emit(op.nn.dropout(s.conv(x, 4), rate=0.5))
        return s.emit(op.nn.relu(s.emit(relax.TupleGetItem(y, 0))))

    module = module_of([(1, 3, 8, 8)], body)
    canonical = canonicalise(module)
    assert operators(canonical) == ["relax.nn.conv2d", "relax.nn.relu"]
    plain = module_of([(1, 3, 8, 8)], lambda s, x: op.nn.relu(s.conv(x, 4)))
    inputs = inputs_of(module)
    assert relative_error(run(canonical, inputs), run(plain, inputs)) == 0


FOLDED: dict[str, Any] = {
    "arithmetic": lambda s, c: op.subtract(
        op.multiply(op.add(c, c), s.normal(4, 6)), op.divide(c, s.positive(1, 6))
    ),
    "root": lambda s, c: op.sqrt(op.maximum(c, s.const(np.float32(0.25)))),
    "sign": lambda s, c: op.minimum(op.negative(c), s.normal(6)),
    "shape": lambda s, c: op.broadcast_to(op.expand_dims(op.reshape(c, (6, 4)), 0), (2, 6, 4)),
    "transpose": lambda s, c: op.permute_dims(op.reshape(c, (2, 3, 4)), [2, 0, 1]),
    "reverse": lambda s, c: op.permute_dims(op.squeeze(op.expand_dims(c, [0]), [0])),
    "choice": lambda s, c: op.where(op.isnan(c), s.normal(4, 6), c),
    "half": lambda s, c: op.astype(op.astype(c, "float16"), "float32"),
    "rows": lambda s, c: op.take(c, relax.const([[2, 0], [5, 1]], "int64"), axis=1),
    "last row": lambda s, c: op.take(c, relax.const(-1, "int64"), axis=0, mode="wrap"),
    "slice": lambda s, c: op.strided_slice(c, [1, 0], [-4, 0], [6, 9], [2, 1]),
    "join": lambda s, c: op.concat([c, s.normal(2, 6)], axis=0),
    "created": lambda s, c: op.add(op.add(op.zeros((4, 6), "float32"), op.ones_like(c)), c),
    "full": lambda s, c: op.add(op.full((4, 6), relax.const(0.5), "float32"), c),
    "range": lambda s, c: op.add(op.arange(1, 13, 2, "float32"), c),
    "extents": lambda s, c: op.astype(op.shape_to_tensor(op.shape_of(c)), "float32"),
}


@pytest.mark.parametrize("case", FOLDED)
def test_folds_constants_as_tvm_computes_them(case: str) -> None:
    def body(s: RelaxSketch) -> Any:
        return s.emit(FOLDED[case](s, s.normal(4, 6)))

    module = relax.transform.Normalize()(module_of([], body))
    assert operators(module)
    folded = FoldSmallConstants()(module)
    assert operators(folded) == []
    result = folded["main"].body.body
    values = {b.var: b.value for b in folded["main"].body.blocks[0].bindings}
    value = values.get(result, result).value.numpy()
    assert relative_error([value], run(module, [])) <= 1e-6


def test_folding_leaves_variables_and_unknown_operators() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return op.add(s.emit(op.add(x, s.normal(4))), s.emit(op.exp(s.normal(4))))

    module = relax.transform.Normalize()(module_of([(4,)], body))
    assert operators(FoldSmallConstants()(module)) == operators(module)


def test_a_number_stays_one() -> None:
    two = relax.const(2.0, "float32")
    module = module_of([(4,)], lambda s, x: s.emit(op.multiply(x, s.emit(op.add(two, two)))))
    (product,) = (b.value for b in canonicalise(module)["main"].body.blocks[0].bindings[:1])
    assert tuple(product.args[1].ty.shape) == ()


def test_rows_out_of_bounds_are_left_to_tvm() -> None:
    rows = relax.const(np.array([-1, 4], "int64"))
    module = module_of([], lambda s: s.emit(op.take(s.normal(4, 6), rows, axis=0)))
    module = relax.transform.Normalize()(module)
    assert operators(FoldSmallConstants()(module)) == ["relax.take"]


def test_a_constant_keeps_its_bits() -> None:
    array = np.random.default_rng(0).standard_normal((3, 4)).astype("float32").T
    assert constant(array).value.numpy().tobytes() == array.tobytes()


def test_the_input_module_is_not_changed() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return op.nn.relu(s.norm(s.bias(s.conv(x, 4))))

    module = module_of([(1, 3, 8, 8)], body).with_attr("mine", "kept")
    before = tvm.ir.save_json(module)
    canonical = canonicalise(module)
    assert tvm.ir.save_json(module) == before
    assert canonical.attrs["mine"] == "kept"


def test_other_functions_stay() -> None:
    """A training function beside ``main`` keeps its batch norm."""
    main = module_of([(1, 3, 8, 8)], lambda s, x: s.norm(x))["main"]
    train = module_of([(1, 3, 8, 8)], lambda s, x: s.norm(x, training=True))["main"]
    functions = {"main": main, "train": train.with_attr("global_symbol", "train")}
    canonical = canonicalise(tvm.IRModule(functions))
    assert operators(canonical, "train") == ["relax.nn.batch_norm"]
    assert "relax.nn.batch_norm" not in operators(canonical)


@pytest.mark.parametrize("private", [True, False])
def test_functions_that_main_calls_are_put_into_it(private: bool) -> None:
    inner = module_of([(2, 4)], lambda s, x: s.emit(op.exp(s.emit(op.nn.relu(x)))))["main"]
    builder = relax.BlockBuilder()
    inner = inner.without_attr("global_symbol")
    inner = inner if private else inner.with_attr("global_symbol", "inner")
    called = builder.add_func(inner, "inner")
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.Call(called, [builder.emit(relax.Call(called, [x]))]))
            y = builder.emit_output(builder.emit(op.add(y, x)))
        builder.emit_func_output(y)
    module = builder.finalize()
    canonical = canonicalise(module)
    assert operators(canonical) == [*["relax.nn.relu", "relax.exp"] * 2, "relax.add"]
    require_same_outputs(canonical, module, 0)


def test_operators_that_were_fused_stand_alone_again() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return s.emit(op.nn.relu(s.conv(x, 4)))

    module = module_of([(1, 3, 8, 8)], body)
    pattern = is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))
    fused = relax.transform.FuseOpsByPattern([("mine.conv", pattern)])(module)
    assert operators(fused) == []
    assert operators(canonicalise(fused)) == ["relax.nn.conv2d", "relax.nn.relu"]
    elsewhere = relax.transform.FuseOpsByPattern([("mine.conv", pattern)], annotate_codegen=True)(
        module
    )
    with refused(DialectError, "fused_relax_nn_conv2d_relax_nn_relu_mine"):
        prepare(elsewhere)


def test_equal_operators_are_kept_apart() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        pools = [s.emit(op.nn.avg_pool2d(x, (3, 3), padding=1)) for _ in range(2)]
        return op.add(*pools)

    module = module_of([(1, 3, 8, 8)], body)
    assert operators(canonicalise(module)).count("relax.nn.avg_pool2d") == 2


@pytest.mark.parametrize("guarded", [True, False])
def test_a_choice_of_indices_is_only_dropped_where_it_guards_them(guarded: bool) -> None:
    """The importer's guard adds the extent of the axis to negative indices."""
    below, more = (0, 8) if guarded else (3, 2)

    def body(s: RelaxSketch, x: Any) -> Any:
        rows = s.emit(op.floor(s.const([0, 2, 5, -1 if guarded else 4])))
        rows = s.emit(op.astype(rows, "int64"))
        moved = op.add(rows, relax.const(more, "int64"))
        choice = op.where(op.less(rows, relax.const(below, "int64")), moved, rows)
        return s.emit(op.take(x, s.emit(choice), axis=0))

    module = module_of([(8, 3)], body)
    canonical = canonicalise(module)
    assert ("relax.where" in operators(canonical)) is not guarded
    values = [binding.value for binding in canonical["main"].body.blocks[0].bindings]
    (take,) = (v for v in values if isinstance(v, relax.Call) and v.op.name == "relax.take")
    assert take.attrs.mode == "wrap"
    require_same_outputs(canonical, module, 0)


def test_an_onnx_dropout_and_identity_disappear() -> None:
    sketch = Sketch(1, 3, 8, 8)
    y = sketch.op("Identity", sketch.op("Dropout", sketch.conv("x", 3, 4)))
    module = from_onnx(sketch.model(sketch.op("Relu", y)), keep_params_in_input=False)
    assert operators(canonicalise(module)) == ["relax.nn.conv2d", "relax.nn.relu"]


@pytest.mark.parametrize("network", ["inception_block", "lstm_small", "transformer_small"])
def test_a_model_that_was_read_is_canonical(network: str) -> None:
    """It is prepared as it is."""
    told: list[tuple[str, int, int]] = []
    loaded = load_model(network, lambda *done: told.append(done))
    assert tvm_ffi.structural_equal(canonicalise(loaded.module), loaded.module)
    assert loaded.onnx is not None
    count = len(loaded.onnx.graph.node)
    assert told == [
        *(("simplifying the model", done, 1) for done in (0, 1)),
        *(("importing operators", done, count) for done in (0, count)),
    ]
