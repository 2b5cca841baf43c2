"""Executables compiled here, run by the C++ example for 64-bit Arm under emulation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from runtime_ext.execution.executable import load
from runtime_ext.isa.isa import BYTES
from tests.arm.emulator import QEMU, SYSTEM
from tests.quantised_models import models

PROGRAM = Path(__file__).parents[2] / "build" / "arm" / "run_model"
pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="needs the executor for Arm: make test-arm"
)


def run(processor: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [QEMU, "-cpu", processor, "-L", SYSTEM, PROGRAM, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)


def optimized(network: str | Path, level: str, path: Path, *more: str | Path) -> Path:
    # In a process of its own, which optimises kernels: others would call TVM's runtime.
    tool = Path(sys.executable).with_name("tvm-ios")
    options = ["--arch", level, "--cost", "cpu", "--lanes", "2", "-o", path, *more]
    subprocess.run([tool, "optimize", network, *options], check=True, capture_output=True)
    return path


def test_outputs_are_those_of_the_program_here(tmp_path: Path) -> None:
    network = "inception_block"
    there = optimized(network, "armv8-a", tmp_path / "there")
    session = load(optimized(network, "x86-64-v2", tmp_path / "here")).session()
    ((name, values),) = session.random_inputs().items()
    session.run(**{name: values})
    want = session.get_output()
    values.tofile(tmp_path / "in.raw")
    done = run("cortex-a53", there, tmp_path / "in.raw", tmp_path / "out.raw")
    assert done.returncode == 0, done.stderr
    have = np.fromfile(tmp_path / "out.raw", np.float32).reshape(want.shape)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_a_quantised_model_multiplies_bytes(tmp_path: Path) -> None:
    """By each instruction that a level has, with the outputs of ONNX Runtime."""
    model = models()["static, Q/DQ, per channel"](tmp_path)
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)
    x.tofile(tmp_path / "in.raw")
    (want,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    for level in ("armv8-a+dotprod", "armv8-a+i8mm"):
        path = optimized(model, level, tmp_path / level)
        # All convolutions but the depthwise one, and the product.
        kernels = json.loads((path / "schedule.json").read_text())["kernels"]
        assert kernels == dict.fromkeys(map(str, (1, 2, 3, 5, 8, 10)), BYTES)
        done = run("max", path, tmp_path / "in.raw", tmp_path / "out.raw")
        assert done.returncode == 0, done.stderr
        have = np.fromfile(tmp_path / "out.raw", np.float32).reshape(want.shape)
        assert np.array_equal(have, want)


def test_a_level_that_the_processor_lacks_is_refused_by_name(tmp_path: Path) -> None:
    path = optimized("inception_block", "armv8-a+dotprod+bf16", tmp_path / "out")
    assert run("max", path).returncode == 0
    for processor, missing in (("cortex-a53", "bf16, dotprod"), ("neoverse-n1", "bf16")):
        refused = run(processor, path)
        assert refused.returncode == 1
        assert f"this CPU lacks {missing};" in refused.stderr
    here = run("max", optimized("inception_block", "x86-64-v2", tmp_path / "x86"))
    assert "was made for x86_64 and this machine is aarch64" in here.stderr
