"""Programs of recurrent layers compute what ONNX Runtime does, at one shape and in a range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from relay_passes.load import load_model
from relay_passes.relax.ranges.units import load_open_model
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.targets import target_backend
from runtime_ext.unit_build import build_units
from tests.onnx.test_quantised_lstm import quantised
from tests.onnx.test_recurrent import BATCH, FEATURES, STEPS, layer
from tests.onnx_sketch import run_on
from tvm_ios.files.array_files import Array
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.shapes.ranges import parse_ranges

pytest.importorskip("onnxruntime")
EVERYTHING = ("bias", "state", "memory", "peepholes")


def kernels_of(path: Path, cache: Path) -> tuple[Any, set[str], Any]:
    """The sequential program of a model, the forms of its units' kernels, and its module."""
    loaded = load_model(ModelSource(str(path)))
    prepared = loaded.prepared()
    units = RelaxUnits(prepared, SearchOptions(lanes=2, cache=cache))
    sources = {str(unit): units.source((unit,)) for unit in range(len(prepared.units.operators))}
    compiled = units.backend.compiler.compile(sources)
    forms = {form for unit in compiled.values() for form in unit.forms}
    return units.build(sequential_schedule(prepared.units)), forms, loaded.module


def require_same(ours: list[Array], theirs: list[Array]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 1e-5 * max(1, np.abs(b).max())


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "LSTM", "inputs": EVERYTHING, "direction": "bidirectional"},
        {"kind": "GRU", "inputs": ("bias", "state"), "linear_before_reset": 1},
        {"kind": "GRU", "direction": "reverse"},
        {"kind": "RNN", "inputs": ("bias", "state"), "activations": ["Relu"]},
        {"kind": "LSTM", "inputs": EVERYTHING, "quantised": True},
    ],
    ids=str,
)
def test_a_program_and_tvm_compute_what_onnx_runtime_does(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_quantised = options.pop("quantised", False)
    if is_quantised:
        # Rows that are quantised together are one tile, of one row.
        monkeypatch.setattr("tests.onnx.test_recurrent.BATCH", 1)
    model = layer(**options)
    model = quantised(model, tmp_path) if is_quantised else model
    onnx.save(model, tmp_path / "model.onnx")
    built, forms, module = kernels_of(tmp_path / "model.onnx", tmp_path)
    assert "recurrence" in forms
    assert is_quantised or "generic" not in forms
    shape = (STEPS, 1 if is_quantised else BATCH, FEATURES)
    feeds = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
    expected = run_on(model, feeds)
    session = built.session()
    session.run(**feeds)
    require_same([session.get_output(i) for i in range(len(expected))], expected)
    legal = relax.transform.LegalizeOps()(module)
    cpu: Any = tvm.cpu()
    machine = relax.VirtualMachine(relax.build(legal, "llvm"), cpu)
    require_same([r.numpy() for r in machine["main"](tvm.runtime.tensor(feeds["x"]))], expected)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LSTM", {"direction": "bidirectional"}),
        ("GRU", {"linear_before_reset": 1}),
        ("RNN", {"direction": "reverse"}),
    ],
)
def test_one_program_of_any_length_and_batch(
    kind: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    """All states, of which a dense layer could read both directions, and the last ones."""
    model = layer(kind, **attributes)
    for extent, name in zip(
        model.graph.input[0].type.tensor_type.shape.dim, ("t", "b"), strict=False
    ):
        extent.dim_param = name
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    options = SearchOptions(lanes=2, cache=tmp_path)
    units = load_open_model(str(path), parse_ranges([f"x:1..12,1..9,{FEATURES}"])).opened.units
    backend = target_backend(options.target_for([]), 2, tmp_path)
    session = build_units(units, backend.compiler, 2).session()
    for steps, batch in [(1, 1), (2, 9), (12, 1), (3, 4), (7, 5), (1, 6)]:
        x = np.random.default_rng(steps).standard_normal((steps, batch, FEATURES), np.float32)
        expected = run_on(model, {"x": x})
        session.run(x=x)
        require_same([session.get_output(i) for i in range(len(expected))], expected)
