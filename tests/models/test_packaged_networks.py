"""Trained networks that packages carry compute what ONNX Runtime makes of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from benchmarks.networks import side_by_side
from benchmarks.networks.packaged import PACKAGED, Packaged
from relay_passes import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.fast_run import only
from tests.onnx_sketch import Sketch
from tvm_ios.contest.outputs import difference
from tvm_ios.contest.tolerance import tolerance
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.shapes.input_shapes import parse_shapes


@pytest.mark.parametrize("network", only(["ppocr_cls", "magika", "silero_vad"], PACKAGED))
def test_a_trained_network(network: str) -> None:
    packaged = PACKAGED[network]
    path = packaged.path
    if path is None:
        pytest.skip("make test-packaged installs it")
    model = load_onnx(ModelSource(str(path), shapes=parse_shapes(packaged.shapes)))
    prepared = prepare(import_onnx(model), network)
    kinds = "+".join(operator.kind for operator in prepared.units.operators).split("+")
    assert not {"conv", "convtranspose"}.intersection(kinds)
    session = build(apply_schedule(prepared, greedy_schedule(prepared.units)), lanes=2).session()
    inputs = session.random_inputs(0)
    session.run(**inputs)
    ours = [session.get_output(place) for place in range(len(session.outputs))]
    session.close()
    # The file itself, as the package has it.
    runtime = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = runtime.run(None, inputs)
    limit = tolerance("float32", theirs, quantised=False)
    assert difference(ours, theirs, limit) == ""


def test_weights_beside_a_file_come_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there, here = tmp_path / "package", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    sketch = Sketch(1, 3, 8, 8)
    model = sketch.model(sketch.conv("x", 3, 4))
    beside: dict[str, Any] = {"location": "w.data", "size_threshold": 0}
    onnx.save(model, there / "model.onnx", save_as_external_data=True, **beside)
    monkeypatch.setattr(Packaged, "path", property(lambda _: there / "model.onnx"))
    networks = {"tagger": Packaged("package", "model.onnx")}
    monkeypatch.setattr(side_by_side, "PACKAGED", networks)
    (path,) = side_by_side.model_arguments("tagger", here)
    assert load_onnx(path).graph.name == "tagger"
