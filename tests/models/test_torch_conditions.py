"""Conditions of programs of torch on their sizes, which are read and not run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from onnx import helper

from tests.refusals import refused
from tvm_ios.errors import ModelError
from tvm_ios.models.torch_conditions import PROPERTY, require_conditions
from tvm_ios.shapes.extent import OpenExtentError, Symbol, extent_of
from tvm_ios.shapes.input_shapes import InputShapeError

A, B = "L['a'].size()", "L['b'].size()"


def _model(*conditions: str) -> Any:
    model = helper.make_model(helper.make_graph([], "drawn", [], []))
    model.metadata_props.add(key=PROPERTY, value=json.dumps(conditions))
    return model


@pytest.mark.parametrize(
    "condition",
    [
        f"{A}[1] == {B}[0]",
        f"{A}[1] % 3 == 0 or {A}[0] != 2",
        f"max(1, {A}[0]*({A}[1] // 4)) > min(-1, 7 - {B}[0])",
        "L['c'].size()[0] == 5",
    ],
)
def test_conditions_that_hold(condition: str) -> None:
    require_conditions(_model(condition), {"a": (2, 9), "b": (9,)})


def test_conditions_have_to_hold_at_all_shapes_of_a_range() -> None:
    length = extent_of(Symbol("length", 2, 40, 7), 2)
    model = _model(f"{A}[1] % 2 == 0", f"{A}[1] == {B}[0]")
    require_conditions(model, {"a": (3, length), "b": (length,)})
    with refused(InputShapeError, "drawn", f"{A}[1] % 2 == 0"):
        require_conditions(model, {"a": (3, length + 1), "b": (length + 1,)})
    with refused(InputShapeError, f"{A}[1] == {B}[0]"):
        require_conditions(model, {"a": (3, length), "b": (2 * length,)})
    with refused(OpenExtentError, "step"):
        require_conditions(model, {"a": (3, extent_of(Symbol("n", 1, 1 << 24, 7)))})


@pytest.mark.parametrize(
    "condition", ["__import__('os').abort()", "L['a'].size()[0]**9", "(", "L['a'].size(1)[0]", "x"]
)
def test_a_condition_of_anything_else_is_refused(condition: str) -> None:
    with refused(ModelError, "condition"):
        require_conditions(_model(condition), {"a": (2, 9)})
