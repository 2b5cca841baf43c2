"""Tiles of GPU kernels are tuned into a log, and what the log says is what runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.gemm_space import GemmSpace
from runtime_ext.cuda.kernel_timer import GpuKernelTimer
from runtime_ext.cuda.kernels.generic import bound_kernels
from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.source import generate
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.speed_model import SpeedModel
from runtime_ext.tuning.tuner import tune
from runtime_ext.tuning_log.folder import open_log, workload_name
from runtime_ext.tuning_log.space import noted, recut
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.cuda.cuda_harness import Bench, Unit
from tests.cuda.emulator import Emulator
from tests.kernels.kernel_harness import random_tensors
from tests.units.unit_convolutions import convolution
from tvm_ios.costs.cuda_kernels.target_gpu import gpu_of
from tvm_ios.costs.cuda_kernels.tile import GemmTile
from tvm_ios.measuring.tuning import TuningLimits
from tvm_ios.program.program import Program

SPACE = GemmSpace(gpu_of("sm_90"), "float32")
SHAPES: dict[str, Any] = {
    "padded": convolution((1, 24, 6, 7), (20, 24, 3, 3), (1, 1, 1, 1)),
    "row": convolution((1, 32, 5, 7), (20, 32, 1, 1), (0, 0, 0, 0)),
    "vector": convolution((1, 64, 1, 1), (40, 64, 1, 1), (0, 0, 0, 0)),
}


@cache
def contraction(name: str) -> Contraction:
    (kernel,) = plan_unit(UnitSource(SHAPES[name], ("NHWC", "NHWC")), SPACE).kernels
    assert isinstance(kernel.spec, Contraction)
    return kernel.spec


@pytest.mark.parametrize("name", SHAPES)
def test_points_and_their_traces(name: str) -> None:
    spec = contraction(name)
    points = SPACE.points(spec)
    assert points[0] == spec.blocking == SPACE.explicit(spec)
    assert len(set(points)) == len(points) > 1
    workload = SPACE.workload(spec)
    for point in points[:: max(1, len(points) // 5)]:
        assert SPACE.holds(spec, point)
        trace = SPACE.schedule(spec, workload, point).trace.as_json()
        notes = noted(trace)
        assert notes is not None
        assert SPACE.point(notes) == point
    assert not SPACE.holds(spec, replace(points[0], rows=7))
    features = SPACE.features(spec, points)
    assert np.isfinite(features).all()
    assert len(np.unique(features, axis=0)) == len(points)


def test_a_log_without_teams_means_what_it_meant() -> None:
    """Records of before teams note 0 in their place."""
    tile = SPACE.point((64, 32, 16, 3, 0))
    assert tile == GemmTile(64, 32, 16, thread_rows=4, thread_columns=4, splits=3)
    assert tile.teams == 1
    assert SPACE.holds(contraction("padded"), tile)
    vectors = SPACE.point((1, 32, 16, 2, 0))
    assert (vectors.threads, vectors.splits) == (128, 2)
    assert SPACE.holds(contraction("vector"), vectors)


def test_a_contraction_has_a_name_in_each_precision() -> None:
    spaces = [GemmSpace(gpu_of("sm_90"), precision) for precision in ("float32", "tf32", "float16")]
    names = {workload_name(space.workload(contraction("row"))) for space in spaces}
    assert len(names) == 3


def test_tvm_alone_computes_the_workload(tmp_path: Path) -> None:
    """The schedule of a record, without any kernel of ours."""
    spec = contraction("row")
    point = next(p for p in SPACE.points(spec) if (p.rows, p.columns) == (16, 32))
    function = SPACE.schedule(spec, SPACE.workload(spec), point).mod["main"]
    phases = bound_kernels(function)
    kernels = [
        CudaKernel(
            **vars(generate(phase.function, f"k{i}", "sm_90", "s_tir")),
            symbol=f"k{i}",
            static_shared_bytes=0,
            dynamic_shared_bytes=0,
            registers=0,
            local_bytes=0,
        )
        for i, phase in enumerate(phases.phases)
    ]
    emulator = Emulator(kernels, tmp_path)
    ((shape, _),) = phases.scratch
    (target,) = {statement.target.buffer for statement in spec.statements}
    lengths = [(int(p.ty.shape[0]),) for p in function.params]
    data, weight, bias = random_tensors([n for i, n in enumerate(lengths) if i != target])
    assert (spec.data.buffer, spec.weight, target) == (0, 1, 3)
    result = np.full(lengths[target], np.nan, np.float32)
    buffers = [data, weight, bias, result, np.full(shape, np.nan, np.float32)]
    for kernel, phase in zip(kernels, phases.phases, strict=True):
        emulator.launch(kernel, [buffers[a] for a in phase.arguments])
    want = np.maximum(data.reshape(-1, 32) @ weight.reshape(32, 20) + bias, 0)
    np.testing.assert_allclose(result.reshape(want.shape), want, rtol=0, atol=1e-5 * want.max())


class Drawn:
    """A device on which the fewest blocks are the fastest; it keeps the programs that it timed."""

    name, lanes, splits, concurrency = "Drawn", 1, False, 1

    def __init__(self) -> None:
        self.programs: list[Program] = []

    def time_program(self, program: Program, function: Callable[[str], Any]) -> list[float]:
        self.programs.append(program)
        blocks = sum(function(symbol).grid[0] for symbol in program.kernels)
        return [1e-6 * blocks, 1.0]

    def profile_phases(self, program: Program, function: Callable[[str], Any]) -> Any:
        raise AssertionError("tuning profiles nothing")

    def launch_overhead(self) -> Any:
        raise AssertionError


def test_the_timer_runs_all_kernels_of_a_tile(tmp_path: Path) -> None:
    spec = contraction("padded")
    points = SPACE.points(spec)
    chosen = [next(p for p in points if (p.splits > 1) == split) for split in (False, True)]
    compiler, device = CudaKernelCompiler("sm_90", tmp_path), Drawn()
    specs = [recut(spec, point, SPACE) for point in chosen]
    seconds = GpuKernelTimer(compiler, device).measure(specs)
    assert all(0 < s < 1 for s in seconds)
    whole, split = device.programs[:2]
    assert [len(program.kernels) for program in (whole, split)] == [1, 2]
    for program in (whole, split):
        (lane,) = program.lanes
        for launch, symbol in zip(lane, program.kernels, strict=True):
            kernel = compiler.kernel(symbol)
            assert tuple(program.buffers[a].type for a in launch.buffers) == kernel.parameters


@pytest.mark.slow
def test_what_was_tuned_runs(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    compiler = CudaKernelCompiler("sm_90", tmp_path / "cache")
    tasks = [ContractionTask(name, contraction(name), 1, 0) for name in ("padded", "row")]
    device = Drawn()
    with open_log(tmp_path / "log", compiler.target) as log:
        done = tune(
            tasks,
            log,
            compiler.target,
            SPACE,
            GpuKernelTimer(compiler, device),
            SpeedModel(1),
            TuningLimits(trials=7),
            lambda *_: None,
        )
    assert [row.trials for row in done] == [7, 7]
    better = {row.task.name for row in done if row.best < row.default}
    assert better, "some tile is faster than the estimates' choice by the drawn times"
    units = {name: Unit(SHAPES[name], ("NHWC", "NHWC")) for name in ("padded", "row", "vector")}
    bench = Bench(units, tmp_path, database=tmp_path / "log")
    assert bench.compiler.log_use() == LogUse(found=2, used=2, missing=1)
    for name, forms in bench.forms.items():
        bench.check(name)
        assert len(forms) == (2 if name in better else 1)
        assert set(forms) == ({"default"} if name == "vector" else {"tuned", *list(forms)[1:]})
