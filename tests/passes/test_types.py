"""Operators in types in which TVM, or a processor, does not compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes.relax.importer import import_onnx
from tests.contrib_sketch import one
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

LEAST = np.iinfo(np.int32).min


def model_of(
    kind: str, inputs: Sequence[Array], constants: Sequence[Array] = (), **attributes: Any
) -> Any:
    """A model of one operator, whose last inputs are constants."""
    count, outputs = len(inputs), 2 if kind == "TopK" else 1
    given = {"variable": count, "version": 20, "domain": "", **attributes}
    model, _ = one(kind, [*inputs, *constants], outputs, **given)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def computed(model: Any, inputs: Sequence[Array]) -> list[Array]:
    return sequential_outputs(import_onnx(simplify(model)), inputs)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("kind", ["Div", "Mod", "fmod"])
def test_quotients_that_there_are_not(kind: str, dtype: str) -> None:
    """By zero, and of the least number by -1: as NumPy has them, and no end of the process."""
    least = np.iinfo(dtype).min
    a = np.array([7, 9, least, least, 5, least], dtype)
    b = np.array([2, -4 if least else 4, 3, -1 if least else 1, 0, 0], dtype)
    fmod = {"fmod": 1} if kind == "fmod" else {}
    (got,) = computed(model_of("Div" if kind == "Div" else "Mod", [a, b], **fmod), [a, b])
    with np.errstate(divide="ignore", over="ignore"):
        rest = np.fmod(a, b)
        if kind == "Div":
            want = np.array(np.where(b == 0, 0, (a - rest) // np.where(b == 0, 1, b)), dtype)
        else:
            want = rest if fmod else np.mod(a, b)
    assert got.dtype == want.dtype
    assert got.tolist() == want.tolist()


def test_a_divisor_that_is_zero_in_the_model() -> None:
    a, zeros = np.array([3, -3, 0], np.int32), np.array([0, 2, 0], np.int32)
    for kind in ("Div", "Mod"):
        (got,) = computed(model_of(kind, [a], [zeros]), [a])
        assert got.tolist() == [0, -1 if kind == "Div" else 1, 0]


def test_the_usual_constant_divisor_is_left_alone() -> None:
    a = np.array([3, -3], np.int32)
    assert len(simplify(model_of("Div", [a], [np.array(2, np.int32)])).graph.node) == 1


TRUTHS = np.array([[True, False, True], [False, False, True]])
WHOLE = np.array([[3, -7, 4], [2, 5, 9]], np.int32)
NATURAL = np.array([[3, 7, 200], [0, 5, 9]], np.uint8)
FIRST = [np.array([1], np.int64)]


@pytest.mark.parametrize(
    ("kind", "inputs", "constants", "attributes"),
    [
        ("Equal", [TRUTHS, TRUTHS[::-1].copy()], [], {}),
        ("Equal", [TRUTHS], [np.array(True)], {}),
        ("Equal", [np.array([LEAST, 3], np.int32)], [np.array(LEAST, np.int32)], {}),
        ("LessOrEqual", [np.array([LEAST, 3], np.int32)], [np.array(LEAST, np.int32)], {}),
        ("Sign", [NATURAL], [], {}),
        ("Sign", [NATURAL.astype(np.uint64)], [], {}),
        ("ReduceMean", [WHOLE], FIRST, {"keepdims": 0}),
        ("ReduceMean", [WHOLE.astype(np.int64)], [], {}),
        ("ReduceL2", [WHOLE], FIRST, {}),
        ("ReduceLogSum", [abs(WHOLE)], FIRST, {}),
        ("TopK", [WHOLE], [np.array([2], np.int64)], {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_as_onnx_runtime_has_it(kind: str, inputs: Any, constants: Any, attributes: Any) -> None:
    ort = pytest.importorskip("onnxruntime")
    model = model_of(kind, inputs, constants, **attributes)
    feeds = {f"i{n}": array for n, array in enumerate(inputs)}
    want = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    for have, wish in zip(computed(model, inputs), want, strict=True):
        assert have.dtype == wish.dtype
        assert np.array_equal(have, wish)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32"])
def test_largest_of_types_that_onnx_runtime_does_not_sort(dtype: str) -> None:
    numbers = np.array([[3, np.iinfo(dtype).max, 0, np.iinfo(dtype).min, 9]]).astype(dtype)
    model = model_of("TopK", [numbers], [np.array([3], np.int64)])
    values, places = computed(model, [numbers])
    assert values.dtype == numbers.dtype
    assert values.tolist() == [[np.iinfo(dtype).max, 9, 3]]
    assert places.tolist() == [[1, 4, 0]]
