"""Compilers, processors, quotas, GPUs, folders and variables that are not as they should be."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime_ext.doctor import compiler, processor, surroundings
from runtime_ext.doctor.check import Check, Status
from runtime_ext.doctor.compiler import check_compiler
from runtime_ext.doctor.examine import examine
from runtime_ext.doctor.processor import check_gpu, check_lanes, check_processor
from runtime_ext.doctor.surroundings import check_cache, check_environment
from runtime_ext.isa.x86 import LEVELS
from runtime_ext.machine import this_machine as machine
from tvm_ios.errors import UserError

Patch = pytest.MonkeyPatch


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_this_compiler_works(monkeypatch: Patch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    (check,) = check_compiler()
    assert check == Check("compiler", Status.OK, str(shutil.which("g++")))


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("echo no room on this disk >&2; exit 1", "no room on this disk"),
        ("exit 3", "exit code 3"),
        ('while [ "$1" != -o ]; do shift; done; echo text > "$2"', "loads"),
        (":", "cannot open shared object file"),
    ],
)
def test_compilers_that_do_not(does: str, words: str, tmp_path: Path, monkeypatch: Patch) -> None:
    script(tmp_path / "g++", does)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = check_compiler()
    assert check.status is Status.PROBLEM
    assert words in check.detail
    assert "install g++" in check.remedy


def test_without_a_compiler_executables_still_run(monkeypatch: Patch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    (check,) = check_compiler()
    assert check.status is Status.WARNING
    assert "executables run" in check.detail
    assert "tvm-ios[linker]" in check.remedy


def test_what_only_runs_needs_no_compiler(monkeypatch: Patch) -> None:
    monkeypatch.setattr(compiler, "only_runs", lambda: True)
    monkeypatch.setenv("PATH", "/nowhere")
    assert not list(check_compiler())


def test_a_compiler_that_is_named_but_is_not_there(monkeypatch: Patch) -> None:
    monkeypatch.setenv("CXX", "icpx-none")
    (check,) = check_compiler()
    assert check.status is Status.PROBLEM
    assert "'icpx-none'" in check.detail
    assert "unset CXX" in check.remedy


@pytest.mark.parametrize(
    ("level", "status"),
    [
        ("x86-64-v4", Status.OK),
        ("x86-64-v3", Status.OK),
        ("x86-64-v2", Status.WARNING),
        (None, Status.PROBLEM),
    ],
)
def test_processors(level: str | None, status: Status, monkeypatch: Patch) -> None:
    levels = list(LEVELS)
    supported = levels[levels.index(level) :] if level else []
    features = frozenset[str]().union(*(LEVELS[name].features for name in supported))
    monkeypatch.setattr(machine, "host_features", lambda: features)
    monkeypatch.setattr(processor, "host_features", lambda: features)
    (check,) = check_processor()
    assert check.status is status
    assert level is None or level in check.detail
    assert bool(check.remedy) == (status is not Status.OK)


def test_another_architecture_is_named(monkeypatch: Patch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "mips")
    (check,) = check_processor()
    assert check.status is Status.PROBLEM
    assert "this machine is mips" in check.detail


def test_levels_of_arm_name_the_extensions_that_are_lacking(monkeypatch: Patch) -> None:
    features = frozenset({"neon", "lse", "dotprod", "fullfp16"})
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(machine, "host_features", lambda: features)
    monkeypatch.setattr(processor, "host_features", lambda: features)
    (check,) = check_processor()
    assert check.status is Status.OK
    assert check.detail.endswith("armv8-a+dotprod+fp16 (it lacks bf16, i8mm)")


def quota_files(folder: Path, version: int, quota: str) -> Path:
    if version == 2:
        (folder / "cpu.max").write_text(f"{quota} 100000\n")
    else:
        (folder / "cpu").mkdir()
        (folder / "cpu/cpu.cfs_quota_us").write_text(f"{-1 if quota == 'max' else quota}\n")
        (folder / "cpu/cpu.cfs_period_us").write_text("100000\n")
    return folder


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("quota", "cpus"), [("max", None), ("250000", 2.5), ("400000", 4.0)])
def test_quotas_of_both_versions(
    version: int, quota: str, cpus: float | None, tmp_path: Path
) -> None:
    assert machine.cpu_quota(quota_files(tmp_path, version, quota), tmp_path / "none") == cpus


@pytest.mark.parametrize("text", ["", "max", "a b", "100000 0"])
def test_quotas_that_cannot_be_read_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert machine.cpu_quota(tmp_path, tmp_path / "none") is None


@pytest.mark.parametrize(
    ("membership", "files", "cpus"),
    [
        # The process's own group, below one that allows less or more.
        ("0::/slice/job", {"slice/job/cpu.max": "150000 100000", "slice/cpu.max": "max 1"}, 1.5),
        ("0::/slice/job", {"slice/job/cpu.max": "max 1", "slice/cpu.max": "50000 100000"}, 0.5),
        ("0::/slice/job", {"slice/job/cpu.max": "4 1", "cpu.max": "3 1"}, 3.0),
        ("0::/other", {"slice/job/cpu.max": "4 1"}, None),
        # A container that may read its path outside, but sees its own group as the root.
        ("0::/docker/1f", {"cpu.max": "2 1"}, 2.0),
        ("0::/../../elsewhere", {"cpu.max": "2 1", "elsewhere/cpu.max": "1 1"}, 2.0),
        (
            "12:cpu,cpuacct:/job\n0::/",
            {"cpu/job/cpu.cfs_quota_us": "250000", "cpu/job/cpu.cfs_period_us": "100000"},
            2.5,
        ),
        (
            "12:cpuset:/job\n3:cpu:/",
            {"cpu/job/cpu.cfs_quota_us": "250000", "cpu/job/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("no group", {}, None),
    ],
)
def test_quotas_of_the_group_and_of_those_around_it(
    membership: str, files: dict[str, str], cpus: float | None, tmp_path: Path
) -> None:
    for name, text in {"membership": membership, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert machine.cpu_quota(tmp_path, tmp_path / "membership") == cpus


def test_lanes_keep_to_the_quota(monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, lanes in ((None, 8), (2.5, 2), (0.5, 1), (64.0, 8)):
        monkeypatch.setattr(machine, "cpu_quota", lambda quota=quota: quota)
        assert machine.available_lanes() == lanes


def test_parts_of_a_cpu_and_a_busy_machine_are_worth_a_warning(monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(processor, "cpu_quota", lambda: 2.5)
    monkeypatch.setattr(os, "getloadavg", lambda: (7.5, 1.0, 1.0))
    lanes, load = check_lanes()
    assert (lanes.status, load.status) == (Status.WARNING, Status.WARNING)
    assert "8 allowed to this process, a container quota of 2.5" in lanes.detail
    assert "7.5 threads" in load.detail
    monkeypatch.setattr(processor, "cpu_quota", lambda: None)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 1.0, 1.0))
    assert {check.status for check in check_lanes()} == {Status.OK}


def driver(names: list[str], fails: bool = False) -> Any:
    """What ``libcuda`` offers."""

    def count(pointer: Any) -> int:
        pointer._obj.value = len(names)
        return 0

    def device(pointer: Any, number: int) -> int:
        pointer._obj.value = number
        return 0

    def name(text: Any, _: int, number: Any) -> int:
        text.value = names[number.value].encode()
        return 0

    return SimpleNamespace(
        cuInit=lambda _: int(fails),
        cuDeviceGetCount=count,
        cuDeviceGet=device,
        cuDeviceGetName=name,
    )


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (OSError("libcuda.so.1: cannot open"), "no NVIDIA driver; none is needed"),
        (driver([], fails=True), "but no GPU"),
        (driver([]), "but no GPU"),
        (driver(["H200", "T4"]), "H200, T4: "),
    ],
)
def test_gpus(library: Any, words: str, monkeypatch: Patch) -> None:
    def load(name: str) -> Any:
        assert name == "libcuda.so.1"
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    (check,) = check_gpu()
    assert check.status is Status.OK
    assert words in check.detail


def test_the_cache_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "new"))
    (check,) = check_cache()
    assert check.status is not Status.PROBLEM
    (tmp_path / "new" / "kernel").write_bytes(bytes(3_000_000))
    (check,) = check_cache()
    assert "3 MB kept" in check.detail
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["kernel"]
    monkeypatch.setattr(surroundings.shutil, "disk_usage", lambda _: SimpleNamespace(free=5e8))
    (check,) = check_cache()
    assert check.status is Status.WARNING
    assert "0.5 GB free" in check.detail
    (tmp_path / "file").touch()
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "file" / "below"))
    (check,) = check_cache()
    assert check.status is Status.PROBLEM
    assert "cannot be written: Not a directory" in check.detail
    assert "TVM_IOS_CACHE" in check.remedy


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1", Status.OK),
        ("0", Status.WARNING),
        ("many", Status.WARNING),
        ("-2", Status.WARNING),
        ("9999", Status.WARNING),
    ],
)
def test_thread_counts(text: str, status: Status, monkeypatch: Patch) -> None:
    for name in ("OMP_NUM_THREADS", *surroundings._OTHERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TVM_NUM_THREADS", text)
    (check,) = check_environment()
    assert (check.name, check.status) == ("TVM_NUM_THREADS", status)
    assert text in check.detail
    monkeypatch.delenv("TVM_NUM_THREADS")
    monkeypatch.setenv("TVM_BIND_THREADS", "0")
    assert list(check_environment()) == [Check("TVM_BIND_THREADS", Status.OK, "0")]


def test_a_check_that_fails_itself_is_a_problem_and_stops_no_other() -> None:
    def fails() -> Any:
        yield Check("first", Status.OK, "seen")
        raise UserError("no /proc here\nat all")

    checks = examine({"broken": fails, "fine": lambda: [Check("fine", Status.OK, "")]})
    assert [check.name for check in checks] == ["first", "broken", "fine"]
    assert checks[1].status is Status.PROBLEM
    assert checks[1].detail == "could not be looked at: UserError: no /proc here"
