"""Commands on an emulated Arm: what is made there, and what is made here for there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from release.wheels import build_distributions
from runtime_ext.execution.executable import load
from tests.arm.executables import EMULATED, PYTHON, needs_python
from tests.cli.command_line import tvm_ios, tvm_ios_process
from tests.fleet.servers import running

pytestmark = needs_python
#: Kernels are linked, and the library is built, by a program of this machine.
CXX = "aarch64-linux-gnu-g++"
#: A processor that has every extension, and the level of it.
HIGHEST = "armv8-a+dotprod+fp16+i8mm+bf16"


def there(*arguments: object, python: Path = PYTHON, **environment: str) -> str:
    """What a program of Python writes on the emulated processor."""
    done = subprocess.run(
        [str(python), *map(str, arguments)],
        env={**os.environ, "CXX": CXX, **environment},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command_there(*arguments: object, python: Path = PYTHON, **more: str) -> dict[str, Any]:
    return json.loads(there("-m", "tvm_ios", *arguments, "--json", python=python, **more))


def test_an_installation_is_well() -> None:
    checks = {check["name"]: check for check in command_there("doctor")["checks"]}
    assert not {name for name, check in checks.items() if check["status"] == "problem"}
    assert HIGHEST in checks["processor"]["detail"]
    assert checks["kernel"]["status"] == "ok"


def check_outputs(made: Path, folder: Path, python: Path = PYTHON) -> None:
    """An executable of the inception block computes there what one computes here."""
    options = ("--policy", "sequential", "--cost", "cpu", "--lanes", "2")
    tvm_ios_process("optimize", "inception_block", *options, "-o", folder / "here")
    session = load(folder / "here").session()
    inputs = session.random_inputs()
    session.run(**inputs)
    np.savez(folder / "in.npz", **inputs)
    files = ("--input", folder / "in.npz", "--output", folder / "out.npz")
    command_there("run", made, *files, python=python)
    want = session.get_output()
    with np.load(folder / "out.npz") as computed:
        (have,) = computed.values()
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.slow
def test_what_is_optimised_there_computes_the_same(tmp_path: Path) -> None:
    made = tmp_path / "made"
    options = ("--policy", "sequential", "--lanes", "2", "-o", made)
    found = command_there("optimize", "inception_block", *options)
    assert found["kept"] in ("sequential", "tvm")
    check_outputs(made, tmp_path)


@pytest.mark.slow
def test_wheels_run_without_tvm_what_was_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", CXX)
    built = build_distributions(tmp_path / "dist", str(PYTHON))
    whole, runtime = (path for path in built if path.name.endswith("_aarch64.whl"))
    assert whole.name.startswith("tvm_ios-")
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    there("-m", "venv", "--without-pip", environment, python=EMULATED)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", runtime]
    subprocess.run(pip, check=True)
    checks = {check["name"]: check for check in command_there("doctor", python=python)["checks"]}
    assert checks["program"]["status"] == "ok"
    assert not {"tvm", "kernel"} & checks.keys()
    made = tmp_path / "made"
    options = ("--arch", "armv8-a+dotprod", "--cost", "cpu", "--lanes", "2", "-o", made)
    assert tvm_ios_process("optimize", "inception_block", *options).code == 0
    check_outputs(made, tmp_path, python)


def test_a_deployment_has_programs_for_both(tmp_path: Path) -> None:
    app, levels = tmp_path / "app", ("x86-64-v2", "armv8-a", "armv8-a+dotprod")
    options = ("--policy", "sequential", "--cost", "cpu", "--lanes", "1", "--json")
    made = tvm_ios("optimize", "two_inputs", "--arch", ",".join(levels), *options, "-o", app).json
    assert [entry["arch"] for entry in made["entries"]] == list(levels)
    taken = {
        "x86-64-v2": tvm_ios("run", app, "--repeat", 1, "--json").json,
        "armv8-a": command_there("run", app, "--repeat", 1, QEMU_CPU="cortex-a53"),
        "armv8-a+dotprod": command_there("run", app, "--repeat", 1, QEMU_CPU="neoverse-n1"),
    }
    entries = {entry["id"]: entry["arch"] for entry in made["entries"]}
    assert {level: entries[run["entry"]] for level, run in taken.items()} == {
        level: level for level in levels
    }
    picked = {entry["id"]: entry for entry in tvm_ios("pick", app, "--json").json["entries"]}
    for entry, level in entries.items():
        assert ("neon" in picked[entry]["reason"]) == level.startswith("arm")


def test_a_bundle_is_searched_there(tmp_path: Path) -> None:
    bundle, results = tmp_path / "bundle", tmp_path / "results"
    options = ("--policy", "sequential,greedy", "-r", 1, "-s", 2, "--max-merges", 2, "--lanes", 2)
    made = tvm_ios("bundle", "two_inputs", "--arch", "armv8-a", *options, "-o", bundle)
    assert made.code == 0, made.stderr
    found = json.loads(there(bundle / "run.py", "--output", results, "--json"))
    assert {row["policy"] for row in found["policies"]} == {"sequential", "greedy"}
    assert all(row["max_rel_error"] < 1e-5 for row in found["policies"])
    refused = subprocess.run(
        [sys.executable, bundle / "run.py", "--output", results], capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert "was made for aarch64 and this machine is x86_64" in refused.stderr


@pytest.mark.slow
def test_a_server_measures_there(tmp_path: Path) -> None:
    with running(0) as processes:
        processes.start(ours=True, python=str(PYTHON))
        path = tmp_path / "schedule.json"
        made = tvm_ios_process(
            *("schedule", "two_inputs", *processes.options, "--policy", "greedy", "-o", path)
        )
        assert made.code == 0, made.stderr
    assert HIGHEST in json.loads(path.read_text())["device"]
