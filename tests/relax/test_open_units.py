"""One set of units for a range of shapes: at each shape the units that are read there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

from relay_passes.load import load_model
from relay_passes.pipeline import applied
from relay_passes.relax.ranges.function_data import function_data, with_extents
from relay_passes.relax.ranges.units import load_open_model
from relay_passes.relax.scheduled import scheduled_units
from runtime_ext.kernels.open_shapes import extent_in_relax, relax_extent
from runtime_ext.kernels.relax_function import static_shape
from runtime_ext.scheduled_units import ScheduledUnits
from tests.dynamic_models.drawing import FLOAT, INT64, Drawing
from tests.dynamic_models.dynamic import bert, unet
from tests.refusals import refused
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.shapes.extent import OpenExtentError, Symbol, at_values, extent_of, is_open
from tvm_ios.shapes.ranges import parse_ranges

WORDS = "input_ids:1..8,1..32"


def _saved(model: Any, folder: Path) -> str:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def _units_at(path: str, shapes: Mapping[str, tuple[int, ...]]) -> ScheduledUnits:
    prepared = load_model(ModelSource(path, shapes=shapes)).prepared()
    return scheduled_units(applied(prepared, sequential_schedule(prepared.units)))


@pytest.mark.parametrize(
    ("model", "ranges", "points"),
    [
        (bert, WORDS, ({"batch": 5, "sequence": 11}, {"batch": 2, "sequence": 31})),
        (unet, "image:1,3,16..96:8,16..96:8", ({"(height/8)": 5, "(width/8)": 9},)),
    ],
)
def test_the_units_at_a_shape_are_those_that_are_read_there(
    model: Any, ranges: str, points: tuple[dict[str, int], ...], tmp_path: Path
) -> None:
    path = _saved(model(), tmp_path)
    read = load_open_model(path, parse_ranges([ranges]))
    units = read.opened.units
    for point in points:
        shapes = {name: at_values(shape, point) for name, shape in read.shapes.items()}
        static = _units_at(path, shapes)
        assert [t.shape for t in static.graph.tensors] == [
            at_values(t.shape, point) for t in units.graph.tensors
        ]
        compared = 0
        for place, (ours, theirs) in enumerate(zip(units.functions, static.functions, strict=True)):
            types = [
                [static_shape(c.ty) for c in values]
                for values in (units.constants[place], static.constants[place])
            ]
            if types[0] != types[1]:
                continue  # It reads a part of a constant that depends on the shape.
            data = at_values(function_data(ours), point)
            assert data == function_data(theirs)
            assert with_extents(theirs, data, "unit").script() == theirs.script()
            compared += 1
        assert compared >= len(units.functions) - 1


def test_shapes_of_relax_hold_extents() -> None:
    length = extent_of(Symbol("length", 1, 512, 29))
    padded = (length + 15) // 16 * 16
    ty = relax.TensorType([relax_extent(e) for e in (length, padded, 3)], "float32")
    assert static_shape(ty) == (length, padded, 3)
    other = extent_of(Symbol("length", 1, 64, 29))
    assert extent_in_relax(relax_extent(other)) == other


def _positions(last_first: bool) -> Any:
    """A table of positions that is added to the input, perhaps from its end."""
    d = Drawing()
    x = d.input("x", "batch", "length", 8)
    table = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    length = d.extent(x, 1)
    if last_first:
        begin = d.op("Sub", d.ints(16), length)
        part = d.op("Slice", d.const(table), begin, d.ints(16), d.ints(0))
    else:
        part = d.op("Slice", d.const(table), d.ints(0), length, d.ints(0))
    return d.finished({"y": d.op("Relu", d.op("Add", x, part))})


def test_a_constant_that_depends_on_the_shape_is_kept_once_at_its_largest(tmp_path: Path) -> None:
    path = _saved(_positions(last_first=False), tmp_path)
    units = load_open_model(path, parse_ranges(["x:1..4,1..16,8"])).opened.units
    (constants,) = units.constants
    assert [tuple(map(int, c.ty.shape)) for c in constants] == [(16, 8)]
    assert any(is_open(e) for t in units.graph.tensors for e in t.shape)


def test_a_constant_may_be_the_end_of_a_larger_one(tmp_path: Path) -> None:
    path = _saved(_positions(last_first=True), tmp_path)
    units = load_open_model(path, parse_ranges(["x:1..4,1..16,8"])).opened.units
    assert [tuple(map(int, c.ty.shape)) for c in units.constants[0]] == [(16, 8)]


def test_a_constant_that_is_no_part_of_a_larger_one_is_refused(tmp_path: Path) -> None:
    d = Drawing()
    x = d.input("x", "batch", "length", 8)
    places = d.op("Range", d.one(0), d.op("Squeeze", d.extent(x, 1), d.ints(0)), d.one(1))
    shares = d.op("Div", *(d.op("Cast", n, to=FLOAT) for n in (places, d.extent(x, 1))))
    y = d.op("Relu", d.op("Add", x, d.op("Unsqueeze", shares, d.ints(1))))
    path = _saved(d.finished({"y": y}), tmp_path)
    with refused(OpenExtentError, "constant", "begin", "middle"):
        load_open_model(path, parse_ranges(["x:1..4,1..16,8"]))


def test_an_attribute_that_depends_on_the_shape_is_refused(tmp_path: Path) -> None:
    d = Drawing()
    x = d.input("x", 1, 3, "height", 12)
    path = _saved(d.finished({"y": d.op("ReduceMax", x, axes=[2], keepdims=0)}), tmp_path)
    units = load_open_model(path, parse_ranges(["x:1,3,4..16,12"])).opened.units
    data = function_data(units.functions[0])
    rows = next(e for t in units.graph.tensors for e in t.shape if is_open(e))
    (types, *bindings, result) = data
    ((name, arguments, attributes), ty), *others = bindings
    changed = (types, ((name, arguments, (*attributes, ("axes", rows))), ty), *others, result)
    with refused(OpenExtentError, "unit", name, "height"):
        with_extents(units.functions[0], changed, "unit")


def test_a_network_of_another_framework_has_no_range(tmp_path: Path) -> None:
    (tmp_path / "module.json").write_text("{}")
    with refused(OpenExtentError, "module.json", "ONNX"):
        load_open_model(str(tmp_path / "module.json"), parse_ranges(["x:1..4,8"]))


def test_outputs_that_are_shapes_are_refused_by_name(tmp_path: Path) -> None:
    d = Drawing()
    x = d.input("x", "batch", "length", 4)
    model = d.finished({"y": d.op("Relu", x), "extents": d.op("Shape", x)}, [FLOAT, INT64])
    onnx.save(model, tmp_path / "model.onnx")
    with refused(OpenExtentError, "extents"):
        load_open_model(str(tmp_path / "model.onnx"), parse_ranges(["x:1..4,2..9,4"]))
