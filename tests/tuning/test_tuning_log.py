"""Kernels of a MetaSchedule database are found, applied, counted, and refused by target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import (
    AVX2,
    AVX512,
    host_target,
    random_tensors,
    reference,
    run_unit,
    scaled,
    shape_of,
)
from tests.refusals import refused
from tests.tuning.tuned_database import convolution, tuned_database
from tvm_ios.errors import UserError


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
    with refused(UserError, "x86-64-v3", "x86-64-v4"):
        KernelCompiler(AVX512, 2, tmp_path / "cache", database=tmp_path)
    with refused(UserError, "num-cores 2", "num-cores 4"):
        KernelCompiler({**AVX2, "num-cores": 4}, 4, tmp_path / "cache", database=tmp_path)


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with refused(UserError, "database_workload.json"):
        KernelCompiler(AVX2, 2, tmp_path / "cache", database=tmp_path)
    (tmp_path / "database_workload.json").write_text("nonsense\n")
    (tmp_path / "database_tuning_record.json").write_text("nonsense\n")
    with refused(UserError, tmp_path):
        KernelCompiler(AVX2, 2, tmp_path / "cache", database=tmp_path)
