"""Batch norms go into the convolutions before them, wherever that is right, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.dialect import DialectError
from relay_passes.relax.canonical.canonicalise import canonicalise
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
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
Body = Callable[[RelaxSketch, Any], Any]
LEFT = "relax.sqrt", "relax.divide", "relax.subtract", "relax.multiply", "relax.nn.batch_norm"


def _concat(s: RelaxSketch, *parts: Any, axis: int = 1) -> Any:
    return s.emit(op.concat(list(parts), axis=axis))


FOLDS: dict[str, Body] = {
    "conv": lambda s, x: s.norm(s.conv(x, 6)),
    "bias": lambda s, x: s.norm(s.bias(s.conv(x, 6))),
    "bias_of_rank_3": lambda s, x: s.norm(s.emit(op.add(s.conv(x, 6), s.normal(6, 1, 1)))),
    "depthwise": lambda s, x: s.norm(s.conv(x, 8, groups=8)),
    "grouped": lambda s, x: s.norm(s.conv(x, 6, groups=2)),
    "strided": lambda s, x: s.norm(s.conv(x, 6, (1, 3), strides=[2, 2])),
    "concat": lambda s, x: s.norm(_concat(s, s.conv(x, 4), s.bias(s.conv(x, 5, (1, 1))))),
    "nested": lambda s, x: s.norm(
        _concat(s, s.conv(x, 3), _concat(s, s.conv(x, 2), s.conv(x, 4, (3, 1))))
    ),
    "one_channel": lambda s, x: s.norm(s.bias(s.conv(x, 1))),
    "without_scale": lambda s, x: s.norm(s.conv(x, 6), scale=False),
    "without_center": lambda s, x: s.norm(s.conv(x, 6), center=False),
}


@pytest.mark.parametrize("case", FOLDS)
def test_folds(case: str) -> None:
    module = canonicalise(module_of([(1, 8, 8, 8)], FOLDS[case]))
    assert not set(operators(module)) & set(LEFT)


def _read_twice(s: RelaxSketch, x: Any) -> Any:
    y = s.conv(x, 6)
    return s.norm(y), y


def _same_part_twice(s: RelaxSketch, x: Any) -> Any:
    y = s.conv(x, 4)
    return s.norm(_concat(s, y, y))


def _bias_read_twice(s: RelaxSketch, x: Any) -> Any:
    y = s.bias(s.conv(x, 6))
    return s.norm(y), s.emit(op.nn.relu(y))


KEEPS: dict[str, Body] = {
    "no_convolution": lambda s, x: s.norm(x),
    "after_a_batch_norm": lambda s, x: s.norm(s.norm(s.conv(x, 6))),
    "after_relu": lambda s, x: s.norm(s.emit(op.nn.relu(s.conv(x, 6)))),
    "result_is_an_output": _read_twice,
    "biased_result_is_read_twice": _bias_read_twice,
    "part_stands_twice": _same_part_twice,
    "part_is_no_convolution": lambda s, x: s.norm(_concat(s, s.conv(x, 4), x)),
    "concat_of_rows": lambda s, x: s.norm(_concat(s, s.conv(x, 8), s.conv(x, 8), axis=2)),
    # As many columns as channels: an addition of eight numbers is not a bias.
    "added_to_columns": lambda s, x: s.norm(s.emit(op.add(s.conv(x, 8), s.normal(8)))),
    "added_to_rows": lambda s, x: s.norm(s.emit(op.add(s.conv(x, 8), s.normal(8, 1)))),
    "added_everywhere": lambda s, x: s.norm(s.emit(op.add(s.conv(x, 8), s.normal(1, 8, 8, 8)))),
}


@pytest.mark.parametrize("case", KEEPS)
def test_keeps_what_cannot_be_folded(case: str) -> None:
    module = canonicalise(module_of([(1, 8, 8, 8)], KEEPS[case]))
    assert "relax.divide" in operators(module), "the batch norm is decomposed, not folded"


@pytest.mark.parametrize("cases", [FOLDS, KEEPS], ids=["folded", "kept"])
def test_computes_the_same(cases: dict[str, Body]) -> None:
    """All cases as outputs of one module, because compiling is what takes the time."""

    def body(s: RelaxSketch, x: Any) -> Any:
        results = [case(s, x) for case in cases.values()]
        return tuple(y for y in results for y in (y if isinstance(y, tuple) else (y,)))

    module = module_of([(1, 8, 8, 8)], body)
    inputs = inputs_of(module)
    outputs, expected = run(canonicalise(module), inputs), run(module, inputs)
    errors = [
        relative_error([ours], [theirs]) for ours, theirs in zip(outputs, expected, strict=True)
    ]
    assert max(errors) <= 1e-6, errors


def test_training_mode_is_refused() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: s.norm(s.conv(x, 4), training=True))
    with refused(DialectError, "training=False"):
        canonicalise(module)


def test_running_statistics_are_the_constants_they_were() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        ones = [s.positive(4) for _ in range(4)]
        call = op.nn.batch_norm(s.conv(x, 4), *ones, axis=1, training=False)
        result = s.emit(call)
        return tuple(s.emit(relax.TupleGetItem(result, i)) for i in range(3))

    module = module_of([(1, 3, 8, 8)], body)
    folded = canonicalise(module)
    assert operators(folded) == ["relax.nn.conv2d", "relax.add"]
    require_same_outputs(folded, module, 1e-6)


def test_an_onnx_batch_norm_with_epsilon_and_its_own_names() -> None:
    sketch = Sketch(1, 3, 9, 9)
    y = sketch.conv("x", 3, 5)
    ones = [sketch.positive(5), sketch.normal(5), sketch.normal(5), sketch.positive(5)]
    model = sketch.model(sketch.op("BatchNormalization", y, *ones, epsilon=0.3))
    folded = canonicalise(from_onnx(model, keep_params_in_input=False))
    assert operators(folded) == ["relax.nn.conv2d", "relax.add"]
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 9), dtype=np.float32)
    assert relative_error(run(folded, [x]), run_onnxruntime(model)) <= 1e-6
