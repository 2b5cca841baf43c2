"""A bundle runs where there is neither TVM nor a compiler, and goes on after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
import typing_extensions

from relay_passes.load import load_model
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.bundle.contents import BundleError, read_bundle
from tests.refusals import refused
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import read_header
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.policies.policy import Limits
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def command(folder: Path, *arguments: object) -> list[str]:
    """``run.py`` without site-packages."""
    return [sys.executable, "-S", str(folder / "run.py"), *map(str, arguments)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python that has NumPy and tvm-ffi, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    for module in (np, tvm_ffi):
        (path,) = module.__path__
        (site / module.__name__).symlink_to(path)
        libraries = Path(path).with_name(f"{module.__name__}.libs")
        if libraries.exists():
            (site / libraries.name).symlink_to(libraries)
    (site / "typing_extensions.py").symlink_to(str(typing_extensions.__file__))
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(site)}


def run(folder: Path, environment: dict[str, str], *arguments: object) -> dict[str, Any]:
    """The results of a run."""
    done = subprocess.run(
        command(folder, *arguments, "--json"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_holds_what_a_search_may_ask_for(folder: Path) -> None:
    bundle = read_bundle(folder)
    assert {units for units in bundle.forms.forms if len(units) == 1} == {
        (unit,) for unit in range(len(bundle.graph))
    }
    assert all({"default"} <= rkernels.keys() for rkernels in bundle.forms.rkernels.values())
    stored = (folder / "weights.safetensors").stat().st_size
    assert stored < 40_000, "large weights are drawn, not stored"
    for keys in bundle.constants:
        for key in keys:
            _ = bundle.weights[key]


@pytest.mark.slow
def test_it_runs_with_numpy_and_tvm_ffi_alone(
    folder: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    results = run(folder, bare, "--policy", "greedy,ios-both,rammer", "-o", tmp_path)
    rows = {row["policy"]: row for row in results["policies"]}
    assert list(rows) == ["sequential", "greedy", "ios-both", "rammer"]
    assert all(row["max_rel_error"] < 1e-5 for row in rows.values())
    assert results["kept"] in rows
    assert json.loads((tmp_path / "results.json").read_text())["kept"] == results["kept"]

    # The schedule is one of the model's, and the log answers a search at home.
    prepared = prepare(load_model("inception_block").module, "inception_block")
    Schedule.load(tmp_path / "schedule-ios-both.json").validate(prepared.units)

    # That run came to its end: the next one measures again, in its own process only, until
    # everything was measured three times.
    log = MeasurementLog(tmp_path / "log.jsonl", read_header(tmp_path / "log.jsonl"))
    assert {len(samples) for samples in log.measurements.values()} == {1}
    for measured in (True, True, False):
        again = run(folder, bare, "--policy", "greedy", "-o", tmp_path)
        assert (again["search"]["stages_measured"] > 0) is measured


@pytest.mark.slow
def test_merged_units_compute_the_same(folder: Path, bare: dict[str, str], tmp_path: Path) -> None:
    """Whatever is faster here: a schedule that merges is built from the bundle and compared."""
    bundle = read_bundle(folder)
    completed = subprocess.run(
        [sys.executable, "-S", "-c", _PREFER_MERGING, str(folder), str(tmp_path)],
        env=bare,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert completed.returncode == 0, completed.stderr
    schedule = Schedule.load(tmp_path / "merged.json")
    schedule.validate(bundle.graph)
    assert any(stage.strategy is Strategy.MERGE for stage in schedule.stages)
    assert float(completed.stdout) < 1e-5


#: Times all stages alike, so that fewer stages are better, and merging is the only way to these.
_PREFER_MERGING = """
import sys
from pathlib import Path

folder, output = map(Path, sys.argv[1:])
sys.path.insert(0, str(folder / "packages"))
import runtime_ext.cpu.device
from runtime_ext.bundle.compare import reference_of
from runtime_ext.bundle.contents import read_bundle
from runtime_ext.bundle.backend import open_bundle
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.bundle.search import bundle_search, limits_of
from tvm_ios.contest.contest import verified

runtime_ext.cpu.device.time_program = lambda *_: [1e-3]
bundle = read_bundle(folder)
backend = open_bundle(bundle, None, output)
search = bundle_search(bundle, backend, output, limits_of(bundle, None, None), lambda *_: None)
schedule = search.search.find("ios-merge").schedule
schedule.save(output / "merged.json", bundle.graph)
session = backend.session(bundled_program(bundle, backend, search.timer, schedule))
print(verified("ios-merge", session, reference_of(bundle))[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_goes_on(
    folder: Path, bare: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "log.jsonl"
    arguments = command(folder, "--policy", "ios-both", "-o", tmp_path)
    with subprocess.Popen(arguments, env=bare, stderr=subprocess.PIPE, text=True) as process:
        while not log.exists() or log.read_text().count("\n") < 10:
            assert process.poll() is None, "it should still measure"
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate()[1].splitlines()
    if number is signal.SIGTERM:
        assert process.returncode == 128 + number
        assert said[-1] == "tvm-ios: terminated; what was measured so far is kept"
    before = log.read_text()
    before = before[: before.rindex("\n") + 1]
    results = run(folder, bare, "--policy", "ios-both", "-o", tmp_path)
    assert log.read_text().startswith(before)
    *new, end = log.read_text()[len(before) :].splitlines()
    assert json.loads(end) == {"run": "ended"}
    assert results["search"]["stages_measured"] == len(new)
    measured = MeasurementLog(log, read_header(log)).measurements
    assert {len(samples) for samples in measured.values()} == {1}, "nothing was measured twice"


@pytest.mark.slow
def test_the_log_is_a_cost_at_home(folder: Path, bare: dict[str, str], tmp_path: Path) -> None:
    run(folder, bare, "--policy", "ios-both", "-o", tmp_path)
    log = tmp_path / "log.jsonl"
    loaded = load_model("inception_block")
    target = read_bundle(folder).about["target"]
    options = SearchOptions(
        lanes=2, target=json.loads(target), limits=Limits(pruning=Pruning(1, 3))
    )
    search = MeasuredModule(RelaxUnits(prepare(loaded.module, loaded.name), options))
    schedule = search.recorded(log).find("ios-parallel").schedule
    assert schedule.device == read_header(log).device
    assert 0 < schedule.latency < 1


def test_damage_and_wrong_use_are_one_sentence(
    folder: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    def sentence(*arguments: object) -> str:
        done = subprocess.run(
            command(tmp_path / "copy", *arguments), env=bare, capture_output=True, text=True
        )
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        # Progress may come before it.
        return done.stderr.strip().splitlines()[-1]

    shutil.copytree(folder, tmp_path / "copy")
    assert "there is no policy 'none'" in sentence("--policy", "none", "--max-measurements", 0)
    units = tmp_path / "copy" / "units.json"
    units.write_text(units.read_text().replace("conv", "vnoc", 1))
    assert "units.json of" in sentence()
    assert "is damaged" in sentence()
    (tmp_path / "copy" / "bundle.json").write_text("{}")
    assert "is not a tvm-ios bundle of version 3" in sentence()
    with refused(BundleError, tmp_path):
        read_bundle(tmp_path)
