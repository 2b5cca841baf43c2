"""Canonical modules: inference only, constants folded, everything else as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx_sketch import Sketch, relative_error
from relax_sketch import RelaxSketch, inputs_of, module_of, operators, run
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.fold_constants import FoldSmallConstants, constant

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
    found = values.get(result, result).value.numpy()
    assert relative_error([found], run(module, [])) <= 1e-6


def test_folding_leaves_variables_and_unknown_operators() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return op.add(s.emit(op.add(x, s.normal(4))), s.emit(op.exp(s.normal(4))))

    module = relax.transform.Normalize()(module_of([(4,)], body))
    assert operators(FoldSmallConstants()(module)) == operators(module)


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


def test_equal_operators_are_kept_apart() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        pools = [s.emit(op.nn.avg_pool2d(x, (3, 3), padding=1)) for _ in range(2)]
        return op.add(*pools)

    module = module_of([(1, 3, 8, 8)], body)
    assert operators(canonicalise(module)).count("relax.nn.avg_pool2d") == 2


def test_an_onnx_dropout_and_identity_disappear() -> None:
    sketch = Sketch(1, 3, 8, 8)
    y = sketch.op("Identity", sketch.op("Dropout", sketch.conv("x", 3, 4)))
    module = from_onnx(sketch.model(sketch.op("Relu", y)), keep_params_in_input=False)
    assert operators(canonicalise(module)) == ["relax.nn.conv2d", "relax.nn.relu"]
