"""A bundle for a GPU runs where only the driver is a stand-in and its kernels are emulated.

Nothing else is different: the kernels are those of the bundle, as CUDA C++ compiled for the CPU,
and the stand-in runs what streams and events allow in random order.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.bundle.contents import KERNELS, read_bundle
from runtime_ext.bundle.writing.write import write_bundle
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.machine_code.launchable import Launchable, read_kernels, write_kernels
from runtime_ext.execution.executable import load
from runtime_ext.kernels.library_convolution import LibraryConvolution
from tests.cuda.emulator import for_stand_in
from tests.cuda.stand_in.build import build_stand_in
from tvm_ios.api.bundle import model_to_bundle
from tvm_ios.files.digest import file_digest
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.policies.policy import Limits
from tvm_ios.schedule.schedule import Schedule

SCRIPT = Path(__file__).with_name("search_on_stand_in.py")

pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: pip install .[cuda]")


def emulate(compiled: Any, path: Path, room: Path) -> None:
    """Put kernels that the stand-in can run in the place of a bundle's cubins."""
    assert isinstance(compiled, CudaKernelCompiler)
    symbols = read_bundle(path).forms.symbols
    ours = [s for s in symbols if isinstance(compiled.function(s), Launchable)]
    kernels = {s: compiled.kernel(s) for s in ours}
    runnable = for_stand_in(kernels, room)
    _, others = read_kernels(path / KERNELS)
    write_kernels(room / "kernels", "sm_90", {**others, **runnable})
    (path / KERNELS).write_bytes(gzip.compress((room / "kernels").read_bytes(), 1))
    about = json.loads((path / "bundle.json").read_text())
    about["files"][KERNELS] = file_digest(path / KERNELS)
    (path / "bundle.json").write_text(json.dumps(about))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_search_verify_and_contest(cache: Path, tmp_path: Path, precision: str) -> None:
    options = SearchOptions(
        lanes=3,
        cache=cache,
        target={"kind": "cuda", "arch": "sm_90"},
        precision=precision,
        cudnn=precision == "float16",
        limits=Limits(pruning=Pruning(2, 3)),
    )
    bundled = model_to_bundle(load_model("inception_block"), options, seed=0)
    prepared, compiler = prepare(bundled.module, bundled.name), bundled.backend.compiler
    path = tmp_path / "block"
    report = write_bundle(
        bundled,
        path,
        policies=("greedy", "ios-both"),
        max_merges=3,
        max_fused=2 if precision == "float32" else 0,
    )
    emulate(compiler, path, tmp_path)
    (tmp_path / "driver").mkdir()
    build_stand_in(tmp_path / "driver")
    summary = _run(tmp_path, precision, str(path))
    policies = {"sequential", "greedy", "ios-merge", "ios-both"}
    if precision == "float16":
        assert set(summary["errors"]) == policies
        assert all(1e-5 < error < 4e-3 for error in summary["errors"].values())
        assert summary["library_units"]["sequential"] == 10, "those that are one call"
        assert "by cuDNN, and it was left out: drop --no-cudnn, or search" in summary["refused"]
        assert summary["without"] == 0
        schedule = Schedule.load(path / "schedule-ios-both.json")
        assert set(schedule.kernels.values()) == {"cudnn"}
        model = build(apply_schedule(prepared, schedule), lanes=3, compiler=compiler)
        calls = [compiler.function(symbol) for symbol in model.program.kernels]
        assert any(isinstance(call, LibraryConvolution) for call in calls)
        model.save(tmp_path / "model")
        functions = load(tmp_path / "model").functions()
        assert list(functions.values()) == calls
        return
    assert set(summary["errors"]) == {*policies, "ios-holistic", "rammer"}
    assert all(0 < error < 1e-5 for error in summary["errors"].values())
    assert summary["merged"], "a stage that merges is among them"
    assert summary["launches"]["rammer"] == 1, "all of it is one persistent kernel"
    assert summary["co_scheduled"]["ios-holistic"]
    assert not summary["unfused"]
    # The schedules come back, and are built where TVM is.
    for policy in ("ios-holistic", "rammer"):
        schedule = Schedule.load(path / f"schedule-{policy}.json")
        assert any(stage.placement is not None for stage in schedule.stages)
        model = build(apply_schedule(prepared, schedule), lanes=3, compiler=compiler)
        assert sum(len(lane) for lane in model.program.lanes) >= summary["launches"][policy]
    assert report.fused == 2
    alone = _run(tmp_path, "no compiler", str(path))
    assert "there is no CUDA compiler" in alone["skipped"]["rammer"]
    assert alone["co_scheduled"]["ios-holistic"], "one of those that were compiled ahead"
    assert not alone["unfused"]


def _run(room: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(room / "driver"),
            "PYTHONPATH": "",
        },
        cwd=room,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
