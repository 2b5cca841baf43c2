"""The suite with a real bundle, where only the driver is a stand-in, whose kernels do nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpus.suite.slices import POLICIES, chosen_slices
from runtime_ext.bundle.contents import ABOUT, REFERENCE
from runtime_ext.cuda.machine_code.nvrtc import find_nvcc
from tests.cuda.stand_in.build import build_stand_in
from tvm_ios.files.array_files import read_arrays, write_arrays
from tvm_ios.files.digest import file_digest

pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: pip install .[cuda]")
KEY = "inception_block,1"


def expect_nothing(archive: Path, room: Path) -> None:
    """Let a bundle's programs be compared with zeros."""
    with tarfile.open(archive) as packed:
        packed.extractall(room, filter="data")
    (folder,) = room.iterdir()
    outputs = read_arrays(folder / REFERENCE)
    write_arrays(folder / REFERENCE, {name: np.zeros_like(x) for name, x in outputs.items()})
    about = json.loads((folder / ABOUT).read_text())
    about["files"][REFERENCE] = file_digest(folder / REFERENCE)
    (folder / ABOUT).write_text(json.dumps(about))
    with tarfile.open(archive, "w:xz", preset=0) as packed:
        packed.add(folder, folder.name)


def run(suite: Path, driver: Path) -> dict[str, Any]:
    command = [sys.executable, str(suite / "gpu.py"), "--only", KEY, "--slice-minutes", "30"]
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(driver),
            "STAND_IN_IDLE": "1",
            "PYTHONPATH": "",
            "TVM_IOS_NATIVE_LIB": "",
        },
        cwd=suite,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert KEY in done.stdout
    return json.loads((suite / "results" / "gpu.json").read_text())["slices"][KEY]


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc() is None, reason="TVM's own build needs CUDA's nvcc")
def test_a_bundle_for_a_gpu_goes_all_its_way(module: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="computes what is expected: pip install .[torch]")
    suite, driver = tmp_path / "suite", tmp_path / "driver"
    module.prepare_suite(
        suite, chosen_slices(KEY), arch="sm_90", cpu_arch="x86-64-v3", python="3.12"
    )
    expect_nothing(suite / "bundles" / "inception_block-1.tar.xz", tmp_path / "blank")
    driver.mkdir()
    build_stand_in(driver)
    made = run(suite, driver)
    assert made["failed"].keys() <= {"warps", "compiled"}, made["failed"]
    found = made["search"]
    assert {row["policy"] for row in found["policies"]} == set(POLICIES.split(","))
    assert (found["skipped"], found["unfused"]) == ({}, {})
    assert found["compiler"].startswith("nvrtc")
    assert {"kept", "sequential"} <= made["peers"]["latency_ms"].keys()
    assert made["peers"]["skipped"]["torch-graph"], "PyTorch sees no GPU, and says so"
    # Another machine goes on with what was brought back.
    record = json.loads((suite / "results" / "gpu.json").read_text())
    del record["slices"][KEY]["peers"]
    record["slices"][KEY]["late"] = {"peers": "60 s were not enough"}
    (suite / "results" / "gpu.json").write_text(json.dumps(record))
    shutil.rmtree(suite / "work")
    again = run(suite, driver)
    assert again["search"] == found
    assert {"kept", "sequential"} <= again["peers"]["latency_ms"].keys()
