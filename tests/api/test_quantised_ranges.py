"""Quantised models of any batch, length and size, whose products are of integers."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes.search_options import SearchOptions
from runtime_ext.execution.executable import load
from runtime_ext.isa.isa import BYTES
from runtime_ext.isa.levels import isa_of
from runtime_ext.machine import this_machine
from tests.dynamic_models.dynamic import bert
from tests.fast_run import only
from tests.guarded_memory import guarded_memory
from tests.quantised_models import models
from tvm_ios.api import Options, optimize_range
from tvm_ios.contest.outputs import Verify, output_errors
from tvm_ios.shapes.ranges import parse_ranges

onnxruntime = pytest.importorskip("onnxruntime")

#: Where ONNX Runtime is on the other side of a step, the next layers carry it on.
_STEP = 5e-2
_IMAGES = ("x:1..3,3,6..40:2,6..40:2", {0: "batch", 2: "height", 3: "width"})


def _encoder(folder: Path) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    onnx.save(bert(), folder / "float.onnx")
    quantize_dynamic(folder / "float.onnx", folder / "quantised.onnx")
    return folder / "quantised.onnx"


def _static_encoder(folder: Path) -> Path:
    """Draw an encoder whose products of data with data are quantised, too."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    onnx.save(bert(), folder / "float.onnx")
    generator = np.random.default_rng(0)

    class Samples(CalibrationDataReader):
        """Four texts to find the ranges of all tensors."""

        left = 4

        def get_next(self) -> Any:
            self.left -= 1
            words = generator.integers(0, 50, (2, 9))
            return (
                {"input_ids": words, "attention_mask": np.ones((2, 9), np.int64)}
                if self.left
                else None
            )

    quantize_static(folder / "float.onnx", folder / "quantised.onnx", Samples())
    return folder / "quantised.onnx"


def _opened(name: str, axes: dict[int, str], folder: Path) -> Path:
    """Draw a quantised model, and open axes of its input."""
    path = models()[name](folder)
    model = onnx.load(path)
    for axis, symbol in axes.items():
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = symbol
    model.graph.output[0].type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


NETWORKS = {
    "dynamic, encoder": ("input_ids:1..8,1..32", {}),
    "static, encoder": ("input_ids:1..8,1..32", {}),
    "dynamic, MatMulInteger": ("x:1..4,1..40,32", {0: "batch", 1: "length"}),
    "static, Q/DQ, per channel": _IMAGES,
    "static, QOperator": _IMAGES,
    "dynamic, ConvInteger": _IMAGES,
}


def _multiply(monkeypatch: pytest.MonkeyPatch, *, integers: bool) -> None:
    """Let products be of integers wherever they can, or nowhere: times of small units differ."""
    from relay_passes.relax.ranges.search import OpenSearch

    def chosen(self: Any, *_: object) -> None:
        self.kernels = {
            unit: form.name
            for (unit,), forms in self._forms.items()
            for form in forms
            if integers and form.name in (BYTES, "int16")
        }

    monkeypatch.setattr(OpenSearch, "choose_forms", chosen)


@pytest.mark.parametrize(
    "name", only(["dynamic, MatMulInteger", "static, Q/DQ, per channel"], NETWORKS)
)
def test_every_shape_has_the_bits_of_the_products_in_floats(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_ranges, axes = NETWORKS[name]
    if axes:
        path = _opened(name, axes, tmp_path)
    else:
        path = _static_encoder(tmp_path) if name.startswith("static") else _encoder(tmp_path)
    ranges = parse_ranges([given_ranges])
    options = Options(search=SearchOptions(lanes=2, cache=tmp_path), policies=())
    _multiply(monkeypatch, integers=True)
    result = optimize_range(str(path), ranges, tmp_path / "integers", options)
    has_bytes = BYTES in isa_of(this_machine.host_target(2, forms=[BYTES])).products
    # What is around an image is the zero point, which is computed.
    form = BYTES if has_bytes and name != "dynamic, ConvInteger" else "int16"
    assert result.forms[form] > 3
    _multiply(monkeypatch, integers=False)
    options = replace(options, verify=Verify.off)
    assert optimize_range(str(path), ranges, tmp_path / "floats", options).forms == {}
    reference = onnxruntime.InferenceSession(path)
    floats, saved = load(tmp_path / "floats").session(), load(tmp_path / "integers")
    symbols = {s.name: s for s in saved.program.symbols}

    def compared(session: Any, values: dict[str, int], seed: int) -> None:
        inputs = _inputs(session, values, seed)
        session.run(**inputs)
        floats.run(**inputs)
        (ours, others) = ([s.get_output(0)] for s in (session, floats))
        assert ours[0].tobytes() == others[0].tobytes(), values
        assert output_errors(ours, reference.run(None, inputs)[:1])[1] < _STEP, values

    draw = np.random.default_rng(1)
    ends = [{n: getattr(s, end) for n, s in symbols.items()} for end in ("least", "most")]
    for how in ("native", "poisoning", "guarded"):
        drawn = [
            {n: int(draw.integers(s.least, s.most + 1)) for n, s in symbols.items()}
            for _ in range(8)
        ]
        executor: Any = "native" if how == "native" else "poisoning"
        with (
            guarded_memory() if how == "guarded" else nullcontext(),
            closing(saved.session(executor)) as session,
        ):
            for seed, values in enumerate([*ends, *drawn]):
                compared(session, values, seed)
    floats.close()


def _inputs(session: Any, values: dict[str, int], seed: int) -> dict[str, Any]:
    from runtime_ext.execution.model_session import random_values
    from tvm_ios.shapes.extent import at_values

    return random_values([at_values(port, values) for port in session.inputs], seed)
