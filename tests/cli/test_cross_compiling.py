"""Compiling for machines that are not here: executables for another CPU or a GPU, and bundles."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from runtime_ext.execution.executable import load
from tests.arm.emulator import needs_emulator
from tests.cli.command_line import Outcome, tvm_ios

pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: pip install .[cuda]")


def test_an_executable_for_a_cpu_by_a_description(tmp_path: Path) -> None:
    path = tmp_path / "out"
    options = ("--arch", "x86-64-v2", "--cost", "cpu", "--lanes", 2, "--json")
    result = tvm_ios("optimize", "inception_block", *options, "-o", path).json
    expected = {row["policy"]: row["latency_ms"] for row in result["policies"]}
    assert set(expected) == {"sequential", "greedy", "ios-merge", "ios-parallel", "ios-both"}
    assert result["kept"] == min(expected, key=lambda policy: expected[policy])
    assert result["target"] == "x86-64-v2"
    assert result["not_measured"].startswith("not measured")
    executable = load(path)
    assert "avx2" not in executable.features
    session = executable.session()
    session.run(**session.random_inputs())
    assert session.get_output().shape == (1, 10)


@needs_emulator
def test_an_executable_for_arm(tmp_path: Path) -> None:
    path = tmp_path / "out"
    options = ("--arch", "armv8-a+dotprod", "--cost", "cpu", "--lanes", 2, "--json")
    result = tvm_ios("optimize", "inception_block", *options, "-o", path).json
    assert result["target"] == "armv8-a+dotprod"
    assert result["not_measured"].startswith("not measured")
    about = json.loads((path / "meta.json").read_text())
    assert about["machine"] == "aarch64"
    assert about["features"] == ["dotprod", "neon"]
    tvm_ios("run", path).refuses(path, "aarch64", platform.machine())


@pytest.mark.slow
def test_an_executable_for_a_gpu(tmp_path: Path) -> None:
    path, schedule = tmp_path / "out", tmp_path / "schedule.json"
    tvm_ios("schedule", "inception_block", "--cost", "h200", "-o", schedule)
    options = ("--target", "cuda", "--cost", "h200", "--json", "--schedule", schedule)
    result = tvm_ios("optimize", "inception_block", *options, "-o", path).json
    assert (result["kept"], result["target"]) == ("given", "sm_90")
    executable = load(path)
    assert executable.arch == "sm_90"
    assert executable.functions().keys() == set(executable.program.kernels)
    assert all(call.cubin for call in executable.functions().values())


@pytest.mark.slow
def test_a_bundle_for_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "block"
    options = ("-r", 1, "--max-merges", 4, "--weights", "drawn", "--batch", 2, "--json")
    result = tvm_ios("bundle", "inception_block", "--target", "cuda", *options, "-o", path).json
    assert result["merges"] == 4 < result["merge_candidates"]
    about = json.loads((path / "bundle.json").read_text())
    assert about["kind"] == "cuda"
    assert about["drawn"]
    assert not list(path.rglob("*.so")), "no machine code of a CPU"


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    def run(*arguments: object) -> Outcome:
        return tvm_ios(*arguments, "-o", tmp_path / "out")

    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    taken = tvm_ios("bundle", "squeezenet", "-o", tmp_path / "taken")
    taken.refuses(tmp_path / "taken", "bundle")
    run("bundle", "inception_block", "--arch", "x86-64-v9").refuses("'x86-64-v9'")
    for command in ("optimize", "schedule"):
        cost = ("--cost", "measured") if command == "schedule" else ()
        refused = tvm_ios(command, "inception_block", "--arch", "armv8-a", *cost)
        refused.refuses("aarch64", "tvm-ios server", "--tracker")
    run("optimize", "inception_block", "--arch", "armv8-a+x87").refuses("'armv8-a+x87'", "dotprod")
    run("bundle", "inception_block", "--precision", "tf32").refuses("float32")
    run("optimize", "inception_block", "--cost", "none.jsonl").refuses("none.jsonl")
    run("bundle", "inception_block", "--target", "cuda", "--arch", "sm_12").refuses("'sm_12'")


@pytest.mark.slow
def test_a_memory_budget_holds_where_nothing_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "out"
    options = ("--arch", "x86-64-v2", "--cost", "cpu", "--lanes", 2, "-o", path)
    free = tvm_ios("optimize", "inception_block", *options, "--policy", "greedy", "--json").json
    budget = free["memory"]["arena_bytes"] - 1
    limit = ("--policy", "greedy", "--memory-budget", budget)
    result = tvm_ios("optimize", "inception_block", *options, *limit, "--json").json
    assert result["memory"]["arena_bytes"] <= budget
    assert (free["kept"], result["kept"]) == ("greedy", "memory")
    plan = json.loads((path / "memory.json").read_text())
    assert plan["nbytes"] == result["memory"]["arena_bytes"]
    result = tvm_ios("optimize", "inception_block", *options, "--memory-budget", "1K")
    result.refuses("1.0 KiB", "smallest")


def test_a_schedule_and_policies_are_not_both_compiled(tmp_path: Path) -> None:
    options = ("--cost", "cpu", "--schedule", tmp_path / "s.json", "--policy", "greedy")
    outcome = tvm_ios("optimize", "inception_block", *options, "-o", tmp_path / "out")
    outcome.refuses("schedule", "policies")
