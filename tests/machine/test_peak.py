"""What this machine is said to do at most: the kernels do the work that is counted."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tvm

from runtime_ext.cpu import peak
from runtime_ext.machine import hardware


def test_both_peaks_are_measured() -> None:
    measured = peak.measured_peak(1)
    assert math.isfinite(measured.gflops)
    assert math.isfinite(measured.gbps)
    assert min(measured.gflops, measured.gbps) > 0
    assert peak.measured_peak(1) is measured


def test_the_kernels_do_what_is_counted() -> None:
    library, width = peak._compile(1)
    factors = np.repeat(np.float32([0.999, 0.25]), width)
    sums = tvm.runtime.tensor(np.zeros(2 * width, np.float32))
    library["multiply_add"](tvm.runtime.tensor(factors), sums, 1, 2)
    steps = np.float64(0.999) ** np.arange(peak._STEPS)
    expected = peak._SUMS * (0.999 ** (peak._STEPS + 1) + 0.25 * steps.sum())
    np.testing.assert_allclose(sums.numpy(), [0.0] * width + [expected] * width, rtol=1e-4)

    a, b, c = (np.full(2 * peak._STRIP, value, np.float32) for value in (5, 1, 2))
    tensors = [tvm.runtime.tensor(array) for array in (a, b, c)]
    library["triad"](*tensors, 1, 2)
    assert tensors[0].numpy().tolist() == [5.0] * peak._STRIP + [1 + 3 * 2] * peak._STRIP


def cache_files(folder: Path, cpu: int, index: int, *contents: str) -> None:
    place = folder / f"cpu{cpu}" / "cache" / f"index{index}"
    place.mkdir(parents=True)
    for name, content in zip(("type", "level", "size", "shared_cpu_list"), contents, strict=True):
        (place / name).write_text(content + "\n")


def test_caches_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        cache_files(tmp_path, cpu, 0, "Data", "1", "48K", str(cpu))
        cache_files(tmp_path, cpu, 1, "Instruction", "1", "32K", str(cpu))
        cache_files(tmp_path, cpu, 3, "Unified", "3", "32768K", pair)
    monkeypatch.setattr(hardware, "_CPUS", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert hardware.caches() == (hardware.Cache(1, 48 << 10, 3), hardware.Cache(3, 32 << 20, 2))
    assert hardware.last_level_cache() == 64 << 20


def test_a_system_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CPUS", tmp_path)
    assert hardware.caches() == ()
    assert hardware.last_level_cache() > 0
    assert 0 < hardware.available_memory() <= hardware.total_memory()
