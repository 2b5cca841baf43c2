"""Kernels of a tuning log for GPUs: found, compiled, right, counted, refused by target."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import s_tir

from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.machine_code.source import cuda_target
from runtime_ext.tuning_log.folder import RECORDS, WORKLOADS, recorded
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.tuning_log.space import noted
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.units.unit import UnitSource
from tests.cuda.cuda_harness import Bench, Unit
from tests.cuda.metaschedule_log import FOLDER
from tests.fast_run import only
from tests.kernels.kernel_harness import host_target
from tests.refusals import refused
from tests.tuning.tuned_database import convolution, tuned_database
from tvm_ios.errors import UserError

TARGET = cuda_target("sm_90")


def bound(schedule: s_tir.Schedule, block: Any) -> None:
    """A thread for each element, 64 a block; sums in a register."""
    loops = schedule.get_loops(block)
    spatial = [
        loop
        for loop, axis in zip(loops, schedule.get(block).iter_vars, strict=True)
        if int(axis.iter_type) == 0
    ]
    group, thread = schedule.split(schedule.fuse(*spatial), [None, 64])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    if len(spatial) < len(loops):
        schedule.cache_write(block, 0, "local")
        schedule.reverse_compute_at(schedule.get_consumers(block)[0], thread)


@pytest.mark.parametrize("precision", only(["tf32"], ["float32", "tf32"]))
def test_functions_of_a_log_are_a_form_of_their_unit(precision: Any, tmp_path: Path) -> None:
    tuned_database(tmp_path / "log", convolution(5), TARGET, bound)
    units = {
        f"{name} {layout}": Unit(function, (layout, layout))
        for name, function in (("tuned", convolution(5)), ("other", convolution(6)))
        for layout in ("NHWC", "")
    }
    bench = Bench(units, tmp_path, precision, database=tmp_path / "log")
    assert bench.compiler.log_use() == LogUse(found=1, used=1, missing=1)
    for name, forms in bench.forms.items():
        assert list(forms) == (["tuned", "default"] if "tuned" in name else ["default"])
        bench.check(name)
    # Stages that co-schedule take other rKernels.
    source = UnitSource(convolution(5), ("NHWC", "NHWC"))
    assert "tuned-functions" not in bench.compiler.rkernels(source)


def test_traces_of_metaschedule_name_no_tile_of_ours() -> None:
    log = TuningLog(FOLDER, TARGET)
    assert log.has_functions
    assert all(noted(r.trace) is None for r in recorded(FOLDER))


@pytest.mark.slow
def test_records_of_metaschedule_run(tmp_path: Path) -> None:
    """Each schedule that its search drew, not only the best one."""
    lines = (FOLDER / RECORDS).read_text().splitlines(keepends=True)
    assert len(lines) == 4
    for number, line in enumerate(lines):
        log = tmp_path / f"log{number}"
        log.mkdir()
        shutil.copy(FOLDER / WORKLOADS, log)
        (log / RECORDS).write_text(line)
        unit = {f"unit{number}": Unit(convolution(5), ("NHWC", "NHWC"))}
        bench = Bench(unit, log, database=log)
        ((name, forms),) = bench.forms.items()
        assert list(forms) == ["tuned", "default"]
        bench.check(name)
    assert bench.compiler.log_use() == LogUse(found=1, used=1, missing=0)


def test_a_log_of_another_target_is_refused_by_name(tmp_path: Path) -> None:
    tuned_database(tmp_path / "gpu", convolution(5), TARGET, bound)
    with refused(UserError, "sm_90", "sm_80"):
        CudaKernelCompiler("sm_80", tmp_path / "cache", database=tmp_path / "gpu")
    tuned_database(tmp_path / "cpu", convolution(5), tvm.target.Target(host_target()))
    with refused(UserError, "llvm", "cuda", "sm_90"):
        CudaKernelCompiler("sm_90", tmp_path / "cache", database=tmp_path / "cpu")
    with refused(UserError, "float32", "float16"):
        CudaKernelCompiler("sm_90", tmp_path / "cache", "float16", tmp_path / "gpu")


@pytest.mark.parametrize("scope", ["", "shared.dyn"])
def test_a_schedule_that_is_no_kernel_of_ours_is_refused(scope: str, tmp_path: Path) -> None:
    def cut(schedule: s_tir.Schedule, block: Any) -> None:
        if scope:
            bound(schedule, block)
            if len(schedule.get_loops(block)) > 3:
                read = schedule.cache_read(block, 0, scope)
                schedule.compute_at(read, schedule.get_loops(block)[1])

    tuned_database(tmp_path / "log", convolution(5), TARGET, cut)
    compiler = CudaKernelCompiler("sm_90", tmp_path / "cache", database=tmp_path / "log")
    with refused(UserError, "tuning log", "CUDA kernel"):
        compiler.compile({"unit": UnitSource(convolution(5), ("", ""))})
