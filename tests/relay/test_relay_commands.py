"""The commands with ``--dialect relay``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from runtime_ext.execution.executable import load
from runtime_ext.relay.library import host_target
from tests.refusals import require_names
from tests.relay.relay_commands import RELAY, command
from tests.relay.small_models import write_small_model
from tests.relay.uncompiled import leave_uncompiled


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    "arguments",
    [["stats"], ["stats", "--policy", "graphturbo"], ["schedule", "--policy", "ios-both"]],
    ids=" ".join,
)
def test_both_ways_of_reading_a_model_say_the_same(arguments: list[str], model: Path) -> None:
    name, *options = arguments
    with_tvm = command(name, model, *options, *RELAY, "--json")
    without = command(name, model, *options, "--json")
    assert with_tvm.pop("search", {}).get("states") == without.pop("search", {}).get("states")
    assert with_tvm == without


def test_the_imported_module_is_written(model: Path, tmp_path: Path) -> None:
    command("schedule", model, *RELAY, "--dump-ir", tmp_path, "--json")
    for name in ("01_imported.txt", "02_canonical.txt", "07_scheduled.txt"):
        assert "def @main(" in (tmp_path / name).read_text()


@pytest.mark.slow
def test_optimize_and_run_with_a_schedule_found_without_tvm(model: Path, tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.json"
    command("schedule", model, "--cost", "v100", "-o", schedule, "--json")
    written = json.loads(schedule.read_text())
    kernels = {str(unit): "fine" for unit in range(len(written["units"]))}
    schedule.write_text(json.dumps(written | {"kernels": kernels}))
    out = tmp_path / "out"
    options = ["--policy", "ios-both", "--schedule", schedule, "--lanes", 2, "-o", out, "--json"]
    found = command("optimize", model, *RELAY, *options, "--max-measurements", 2)
    by_policy = {row["policy"]: row for row in found["policies"]}
    assert set(by_policy) == {"tvm", "sequential", "ios-both", "given"}
    assert max(row["max_rel_error"] for row in by_policy.values()) <= 1e-4
    assert found["search"]["tuned"] is None
    (note,) = found["notes"]
    assert f"names of {len(kernels)} units" in note
    result = tmp_path / "result.npz"
    command("run", out, "--output", result, "--repeat", 1, "--json")
    with np.load(result) as arrays:
        (output,) = arrays.values()
    assert output.shape == (1, 40 * 42)
    assert output.std() > 0.1


def test_what_a_gpu_is_needed_for_is_not_done_without(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_uncompiled(monkeypatch)
    gpu, out = (*RELAY, "--target", "cuda", "--arch", "sm_90"), tmp_path / "out"
    found = command("optimize", model, *gpu, "-o", out, "--json")
    assert found["target"] == "sm_90"
    assert found["not_measured"].startswith("not measured, neither time nor results")
    assert "rammer" not in [row["policy"] for row in found["policies"]]
    assert load(out).arch == "sm_90"
    measured = command("schedule", model, *gpu, "--cost", "measured", code=1)
    require_names(measured, "sm_90", "--cost")
    tuned = command("tune", model, *gpu, "--log", tmp_path / "log", code=1)
    require_names(tuned, "CPUs", "autotvm.XGBTuner")
    half = command("optimize", model, *gpu, "-o", out, "--precision", "float16", code=1)
    require_names(half, "float16", "--precision")
    require_names(command("optimize", model, *gpu, "-o", out, "--cudnn", code=1), "cuDNN")


@pytest.mark.slow
def test_bench_beside_the_graph_executor(model: Path) -> None:
    options = ["--against", "tvm", "--policy", "greedy", "--lanes", 2, "--rounds", 6, "--json"]
    (network,) = command("bench", model, *RELAY, *options, "--seconds", 1)["networks"]
    assert set(network["latency_ms"]) == {"ours", "sequential", "tvm"}
    assert network["max_rel_error"]["ours"] <= 1e-4


def test_what_is_refused(model: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "out")
    relax = command("optimize", model, *out, code=1)
    require_names(relax, "apache-tvm 0.27", "dialect relay")
    tiles = command("optimize", model, *RELAY, *out, "--policy", "rammer", code=1)
    require_names(tiles, "'rammer'", "rTasks")
    assert not (tmp_path / "out").exists()
    compact = command("tune", model, *RELAY, "--log", tmp_path / "log", "--compact", code=1)
    require_names(compact, "AutoTVM", "--compact")
    blocks = command("tune", model, "--log", tmp_path / "log", "--all-blocks", code=2)
    require_names(blocks, "AutoTVM", "--dialect relay")
    nothing = command("optimize", model, *RELAY, *out, "--log", tmp_path / "none.log", code=1)
    require_names(nothing, "none.log")
    module = tmp_path / "module.json"
    module.write_text('{"nodes": []}')
    require_names(command("stats", module, *RELAY, code=1), "module.json", "Relay")


def test_a_processor_level_is_one_that_older_compilers_know() -> None:
    from runtime_ext.named_target import target_of

    target = target_of("llvm", "x86-64-v3", 2, "relay")
    assert str(target.attrs["mcpu"]) == "haswell"
    assert target_of("llvm", None, 2, "relay") is None
    assert str(host_target(2, "x86-64-v3")) == str(target)
