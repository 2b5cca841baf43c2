"""What this machine is said to do at most: the kernels do the work that is counted."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

from runtime_ext.cpu import peak
from runtime_ext.machine import hardware
from runtime_ext.native_library import load_native_library


def test_both_peaks_are_measured() -> None:
    measured = peak.measured_peak(1)
    assert math.isfinite(measured.gflops)
    assert math.isfinite(measured.gbps)
    assert min(measured.gflops, measured.gbps) > 0
    assert peak.measured_peak(1) is measured


def test_the_kernels_do_what_is_counted() -> None:
    library = load_native_library()
    width, sums, steps, strip = map(int, library["peak_tile"]())
    factors = np.repeat(np.float32([0.999, 0.25]), width)
    totals = np.zeros(2 * width, np.float32)
    library["peak_multiply_add"](*map(tvm_ffi.from_dlpack, (factors, totals)), 1, 2)
    first = 0.999 * np.arange(1, sums + 1).sum()
    powers = np.float64(0.999) ** np.arange(steps)
    expected = first * 0.999**steps + sums * 0.25 * powers.sum()
    np.testing.assert_allclose(totals, [0.0] * width + [expected] * width, rtol=1e-4)

    a, b, c = (np.full(2 * strip, value, np.float32) for value in (5, 1, 2))
    library["peak_triad"](*map(tvm_ffi.from_dlpack, (a, b, c)), 1, 2)
    assert a.tolist() == [5.0] * strip + [1 + 3 * 2] * strip


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
