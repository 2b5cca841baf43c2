"""The GPU suite, with a script in the place of each bundle's ``run.py``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpus.suite.prepare import copy_scripts
from benchmarks.gpus.suite.record import unpack
from benchmarks.gpus.suite.slices import SMALL

ROOT = Path(__file__).parents[2]
BUNDLES = ("squeezenet-1", "squeezenet-16", "squeezenet-cpu-1")
#: Finds schedules, or compares them; what it does first is what the file ``does`` says.
RUN = """
import json, pathlib, sys, time
folder = pathlib.Path(__file__).parent
options = sys.argv[1:]
with (folder.parent.parent / "calls").open("a") as calls:
    calls.write(" ".join([folder.name, *options[:2]]) + chr(10))
does = folder.parent.parent / "does"
if does.exists():
    exec(does.read_text())
print("progress", file=sys.stderr)
if options[0] == "--policy":
    place = options[options.index("-o") + 1] if "-o" in options else folder / "results"
    results = pathlib.Path(place)
    results.mkdir(parents=True, exist_ok=True)
    for policy in ("sequential", "greedy"):
        (results / f"schedule-{policy}.json").write_text("{}")
    row = {"policy": "sequential", "latency_ms": 2.0}
    made = {"policies": [row], "kept": "greedy", "confirmed": {"sequential": {"median": 0.5}}}
    made["skipped"] = {"rammer": "no compiler"}
    (results / "results.json").write_text(json.dumps(made))
elif options[0] == "--peers":
    own = [option.partition("=") for option in options if "=" in option]
    assert all(pathlib.Path(path).exists() for _, _, path in own), own
    names = [name for name, _, _ in own] + options[1].split(",")
    made = {"latency_ms": {name: 0.5 if "compile" in name else 1.0 for name in names}}
else:
    made = {"warps": {}}
print(json.dumps(made))
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared folder with packed bundles of one network."""
    # Its checks need none of what is installed for these tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = tmp_path / "suite"
    (folder / "bundles").mkdir(parents=True)
    copy_scripts(folder)
    (tmp_path / "run.py").write_text(RUN)
    for name in (*(f"{small}-1" for small in SMALL), *BUNDLES):
        with tarfile.open(folder / "bundles" / f"{name}.tar.xz", "w:xz", preset=0) as packed:
            packed.add(tmp_path / "run.py", f"{name}/run.py")
    return folder


def command(suite: Path, *options: str) -> Sequence[str]:
    return [sys.executable, str(suite / "gpu.py"), *options]


def run(suite: Path, *options: str) -> dict[str, Any]:
    """The slices in the record after a call; what it prints is in ``printed``."""
    done = subprocess.run(command(suite, *options), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    record = json.loads((suite / "results" / "gpu.json").read_text())
    assert record["machines"][-1]["cpus"] == len(os.sched_getaffinity(0))
    return {**record["slices"], "printed": done.stdout}


def calls(suite: Path) -> list[str]:
    path = suite / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_every_part_is_measured_once(suite: Path) -> None:
    made = run(suite, "--only", "squeezenet,1")
    found = made["squeezenet,1"]
    assert {"search", "peers", "warps", "compiled"} < found.keys()
    assert (found["failed"], found["late"]) == ({}, {})
    assert "torch-max-autotune" in found["compiled"]["latency_ms"]
    assert [call.split()[1] for call in calls(suite)] == [
        "--policy",
        "--peers",
        "--warps",
        "--peers",
    ]
    (line,) = (row for row in made["printed"].splitlines() if row.startswith("squeezenet,1  "))
    assert line.split()[1:] == ["2.000ms", "greedy", "0.50", "torch-compile", "0.500ms", "2.00"]
    assert "squeezenet,1: rammer skipped: no compiler" in made["printed"]
    run(suite, "--only", "squeezenet,1")
    assert len(calls(suite)) == 4, "nothing is measured twice"
    run(suite, "--only", "squeezenet,1", "--again")
    assert len(calls(suite)) == 8


def test_a_killed_slice_goes_on(suite: Path) -> None:
    (suite / "does").write_text("if options[0] == '--warps': time.sleep(600)")
    with subprocess.Popen(
        command(suite, "--only", "squeezenet,1"), stderr=subprocess.DEVNULL
    ) as process:
        while not any("--warps" in call for call in calls(suite)):
            assert process.poll() is None, "it should still measure"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    (suite / "does").unlink()
    found = run(suite, "--only", "squeezenet,1")["squeezenet,1"]
    assert {"search", "peers", "warps", "compiled"} < found.keys()
    assert sum("--policy" in call for call in calls(suite)) == 1


@pytest.mark.slow
def test_a_slice_past_its_time_says_what_it_skipped(suite: Path) -> None:
    (suite / "does").write_text("if options[0] == '--warps': time.sleep(600)")
    made = run(suite, "--only", "squeezenet,1", "--slice-minutes", "0.05")
    found = made["squeezenet,1"]
    assert "warps" not in found
    assert found["late"]
    for part in found["late"]:
        assert f"squeezenet,1: {part} skipped: " in made["printed"]
    (suite / "does").unlink()
    found = run(suite, "--only", "squeezenet,1")["squeezenet,1"]
    assert {"search", "peers", "warps", "compiled"} < found.keys()
    assert found["late"] == {}


LEAVES = """
import subprocess
if options[0] in ("--peers", "--warps"):
    # Holds stderr; the second one has also left the group of processes.
    left = subprocess.Popen(["sleep", "600"], start_new_session=options[0] == "--warps")
    (folder.parent.parent / options[0]).write_text(str(left.pid))
"""


@pytest.mark.slow
def test_what_a_part_leaves_running_holds_nothing_up(suite: Path) -> None:
    (suite / "does").write_text(LEAVES)
    try:
        found = run(suite, "--only", "squeezenet,1")["squeezenet,1"]
    finally:
        os.kill(int((suite / "--warps").read_text()), signal.SIGKILL)
    assert {"search", "peers", "warps", "compiled"} < found.keys()
    status = Path("/proc", (suite / "--peers").read_text(), "stat")
    assert not status.exists() or ") Z " in status.read_text(), "it should have been ended"


def test_no_slice_is_begun_when_the_time_of_all_is_over(suite: Path) -> None:
    made = run(suite, "--only", "squeezenet", "--minutes", "0")
    assert calls(suite) == []
    assert made["squeezenet,16"]["late"] == {"the rest": "there was no time left for it"}
    assert "the rest" not in run(suite, "--only", "squeezenet")["squeezenet,16"]["late"]


def test_what_fails_is_named_and_left_alone(suite: Path) -> None:
    (suite / "does").write_text("if options[0] == '--peers': sys.exit('run.py: no torch')")
    found = run(suite, "--only", "squeezenet,1")["squeezenet,1"]
    assert found["failed"] == {"peers": "run.py: no torch", "compiled": "run.py: no torch"}
    assert "warps" in found
    (suite / "does").unlink()
    assert "peers" not in run(suite, "--only", "squeezenet,1")["squeezenet,1"]
    assert run(suite, "--only", "squeezenet,1", "--again")["squeezenet,1"]["failed"] == {}


def test_a_fault_ends_the_suite_at_once(suite: Path) -> None:
    (suite / "checks").mkdir()
    (suite / "checks" / "test_it.py").write_text("def test_a(): pass\ndef test_b(): assert not 1\n")
    made = run(suite)
    assert made["checks"]["failed"] == {"checks": "1 of 2 failed; test_b: assert not 1"}
    assert made.keys() == {"checks", "printed"}
    (suite / "checks" / "test_it.py").write_text(
        "import pytest\ndef test_a():\n    pytest.skip('no GPU')\n"
    )
    found = run(suite, "--only", "checks", "--again")
    assert found["checks"]["failed"] == {"checks": "none ran: no GPU"}
    (suite / "checks" / "test_it.py").write_text("def test_a(): pass\n")
    assert run(suite, "--only", "checks", "--again")["checks"]["checks"]["passed"] == 1


def test_what_others_spoil_does_not_end_it(suite: Path) -> None:
    (suite / "checks").mkdir()
    (suite / "checks" / "test_it.py").write_text("def test_a(): pass\n")
    (suite / "does").write_text("if options[0] != '--policy': sys.exit('no CUPTI')")
    for bundle in ("squeezenet-16", "squeezenet-cpu-1"):
        (suite / "bundles" / f"{bundle}.tar.xz").unlink()
    made = run(suite)
    assert made["inception_block,1"]["failed"]["warps"] == "no CUPTI"
    assert "search" in made["squeezenet,1"]


def test_policies_can_be_left_out(suite: Path) -> None:
    (suite / "does").write_text("if 'rammer' in options[1]: sys.exit('a kernel failed')")
    made = run(suite, "--only", "squeezenet,1")
    assert made["squeezenet,1"]["failed"] == {"search": "a kernel failed"}
    made = run(suite, "--only", "squeezenet,1", "--again", "--policies", "sequential,greedy")
    assert {"search", "peers"} < made["squeezenet,1"].keys()


def test_lanes_and_schedules_of_other_batches(suite: Path) -> None:
    found = run(suite, "--only", "squeezenet-cpu")["squeezenet-cpu,1"]
    assert {"1 lanes", "peers"} < found.keys()
    early = run(suite, "--only", "squeezenet-crossed,16")["squeezenet-crossed,16"]
    assert early["late"] == {"batches": "fewer than two batches have been measured"}
    run(suite, "--only", "squeezenet")
    found = run(suite, "--only", "squeezenet-crossed,16")["squeezenet-crossed,16"]
    assert list(found["batches"]["latency_ms"])[:2] == ["optimised for 16", "optimised for 1"]


def test_another_machine_goes_on(suite: Path, tmp_path: Path) -> None:
    (suite / "does").write_text("if options[0] == '--warps': sys.exit(1)")
    run(suite, "--only", "squeezenet,1")
    shutil.rmtree(suite / "work")
    os.rename(suite / "results", tmp_path / "brought back")
    shutil.copytree(tmp_path / "brought back", suite / "results")
    (suite / "does").unlink()
    (suite / "results" / "gpu.json").write_text(
        (suite / "results" / "gpu.json").read_text().replace('"peers"', '"older peers"', 1)
    )
    found = run(suite, "--only", "squeezenet-crossed,1", "--again")["squeezenet,1"]
    assert {"search", "older peers", "compiled"} < found.keys()
    assert (suite / "work" / "squeezenet-1" / "results" / "schedule-greedy.json").exists()


@pytest.mark.parametrize("has_filter", [True, False])
def test_archives_write_nothing_outside(
    has_filter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "file").write_text("kept")
    for name in ("inside", "../outside"):
        with tarfile.open(tmp_path / "archive.tar", "w") as packed:
            packed.add(tmp_path / "file", name)
        with tarfile.open(tmp_path / "archive.tar") as packed:
            if name == "inside":
                unpack(packed, tmp_path / "room")
            else:
                with pytest.raises(tarfile.TarError):
                    unpack(packed, tmp_path / "room")
    assert (tmp_path / "room" / "inside").read_text() == "kept"
    assert not (tmp_path / "outside").exists()
