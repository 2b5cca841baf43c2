"""Kernels of a MetaSchedule database are found, applied, counted, and refused by target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import (
    AVX2,
    AVX512,
    host_target,
    make_unit,
    random_tensors,
    reference,
    run_unit,
    scaled,
    shape_of,
)
from tvm import relax, s_tir
from tvm.s_tir import meta_schedule

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.tuning.log_use import LogUse
from runtime_ext.units.unit import UnitSource
from tvm_ios.errors import UserError

op = relax.op


def convolution(channels: int) -> Any:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, padding=1)), b)))

    return make_unit([(1, channels, 9, 10)], [(24, channels, 3, 3), (1, 24, 1, 1)], body)


def fused(function: Any, target: Any) -> Any:
    """The PrimFunc that TVM's own pipeline makes of a one-function module."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with target:
        module = relax.get_pipeline("zero")(module)
    (made,) = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return made


def parallel(schedule: s_tir.Schedule, block: Any) -> None:
    """The block's images and channels in parallel."""
    loops = schedule.get_loops(block)
    schedule.parallel(schedule.fuse(loops[0], loops[1]))


def tuned_database(
    folder: Path,
    function: Any,
    target: Any,
    cut: Callable[[s_tir.Schedule, Any], None] = parallel,
) -> None:
    """A database with one record, as a tuner writes it, of each block cut alike."""
    normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    module = normalise(fused(function, target))
    schedule = s_tir.Schedule(module)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        cut(schedule, block)
    folder.mkdir(exist_ok=True)
    database = meta_schedule.database.JSONDatabase(
        str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
    )
    workload = database.commit_workload(module)
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    database.commit_tuning_record(
        meta_schedule.database.TuningRecord(schedule.trace, workload, [1e-3], target, arguments)
    )


@pytest.mark.parametrize("layout", ["NHWC", ""])
def test_a_unit_in_the_log_runs_the_tuned_schedule(tmp_path: Path, layout: str) -> None:
    target = tvm.target.Target(host_target())
    tuned, other = convolution(5), convolution(6)
    tuned_database(tmp_path, tuned, target)
    kernels = KernelCompiler(target, 2, tmp_path / "cache", database=tmp_path)
    layouts = (layout, layout)
    units = kernels.compile(
        {"tuned": UnitSource(tuned, layouts), "other": UnitSource(other, layouts)}
    )
    assert units["tuned"].tuned
    assert not units["other"].tuned
    assert kernels.log_use() == LogUse(found=1, used=1, missing=1)
    for name, function in (("tuned", tuned), ("other", other)):
        arguments = random_tensors([shape_of(p.ty) for p in function.params])
        arguments[1:] = map(scaled, arguments[1:])
        (want,) = reference(function, arguments)
        (got,) = run_unit(kernels, units[name], layouts, arguments[:1], arguments[1:])
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
        (parts,) = run_unit(
            kernels, units[name], layouts, arguments[:1], arguments[1:], lambda n: (0, n // 3, n)
        )
        assert parts.tobytes() == got.tobytes()


def test_a_log_for_another_target_is_refused_by_name(tmp_path: Path) -> None:
    tuned_database(tmp_path, convolution(5), tvm.target.Target(AVX2))
    with pytest.raises(UserError, match=r"x86-64-v3.*x86-64-v4"):
        KernelCompiler(AVX512, 2, tmp_path / "cache", database=tmp_path)
    with pytest.raises(UserError, match=r"num-cores 2.*num-cores 4"):
        KernelCompiler({**AVX2, "num-cores": 4}, 4, tmp_path / "cache", database=tmp_path)


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"database_workload\.json"):
        KernelCompiler(AVX2, 2, tmp_path / "cache", database=tmp_path)
    (tmp_path / "database_workload.json").write_text("nonsense\n")
    (tmp_path / "database_tuning_record.json").write_text("nonsense\n")
    with pytest.raises(UserError, match="cannot be read"):
        KernelCompiler(AVX2, 2, tmp_path / "cache", database=tmp_path)
