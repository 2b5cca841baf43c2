"""A small executable with a merged stage, as ``optimize`` would save it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.onnx_sketch import Sketch
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def small_model(batch: int | str = 1, *, residual: bool = False) -> Any:
    """Return two convolutions, their sum, and a third; a residual is the first added to it."""
    sketch = Sketch(batch, 8, 12, 12)
    left, right = (sketch.op("Relu", sketch.conv("x", 8, 16)) for _ in range(2))
    last = sketch.conv(sketch.op("Add", left, right), 16, 16 if residual else 4)
    return sketch.model(sketch.op("Add", last, left) if residual else last)


def save_small_executable(path: Path, form: str = "", *, residual: bool = False) -> Path:
    """Save the small model with two convolutions merged, and the third in a form if it is named."""
    prepared = prepare(import_onnx(small_model(residual=residual)), "small")
    stages = (
        Stage(Strategy.MERGE, ((0,), (1,))),
        *(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(2, len(prepared.units))),
    )
    kernels = {len(prepared.units) - 1: form} if form else {}
    fingerprint = prepared.units.fingerprint
    schedule = Schedule(fingerprint, stages, policy="ios-merge", kernels=kernels)
    built = build(apply_schedule(prepared, schedule), lanes=2)
    built.save(path, {"policies": [{"policy": "sequential", "latency": 2e-3}]})
    return path
