"""``trace`` of a real executable, and traces of sessions."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from runtime_ext.execution.executable import Executable, load
from tests.cli.command_line import tvm_ios
from tests.page_tools import HOW, has_trace_processor, query_traces
from tests.small_executable import save_small_executable
from tvm_ios.api.trace import trace_session
from tvm_ios.program.program import Launch


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_executable(tmp_path_factory.mktemp("trace") / "small")


def launches_of(path: Path) -> Counter[str]:
    loaded = load(path)
    assert isinstance(loaded, Executable)
    program = loaded.program
    items = (item for lane in program.lanes for item in lane if isinstance(item, Launch))
    return Counter(program.units[launch.unit] for launch in items)


def test_a_trace_has_every_launch_and_the_kernels_one_after_another(
    executable: Path, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    said = tvm_ios("trace", executable, "-o", path, "--sequential", "--repeat", 3, "--json").json
    assert said["trace"] == str(path)
    trace = json.loads(path.read_text())
    processes = {
        e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"
    }
    (beside, name), (own, policy) = processes.items()
    assert "one after another" in name
    assert policy.startswith(f"ios-merge: {said['latency_ms']:.3f}")
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "wait"]
    assert Counter(e["name"] for e in slices if e["pid"] == own) == launches_of(executable)
    assert {e["name"] for e in slices if e["pid"] == beside} == set(launches_of(executable))
    assert any("conv2d" in e["cat"] for e in slices)
    counted = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    loaded = load(executable)
    assert isinstance(loaded, Executable)
    assert 0 < max(counted) <= loaded.plan.nbytes
    assert trace["otherData"]["policy"] == "ios-merge"


@pytest.mark.slow
@pytest.mark.skipif(not has_trace_processor(), reason=f"no trace processor: {HOW}")
def test_perfetto_has_its_lanes_and_its_counter(executable: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    tvm_ios("trace", executable, "-o", path, "--repeat", 3)
    queries = (
        """select t.name as lane, s.name as unit from slice s join thread_track k
        on s.track_id = k.id join thread t using (utid) where s.category != 'wait'""",
        "select max(value) as bytes from counter",
        "select name from stats where severity = 'error' and value",
    )
    ((slices, (most,), faults),) = query_traces([path], queries)
    assert {row["lane"] for row in slices} == {"lane 0", "lane 1"}
    assert Counter(row["unit"] for row in slices) == launches_of(executable)
    loaded = load(executable)
    assert isinstance(loaded, Executable)
    assert 0 < most["bytes"] <= loaded.plan.nbytes
    assert faults == []


def test_a_session_that_runs_is_traced(executable: Path, tmp_path: Path) -> None:
    loaded = load(executable)
    assert isinstance(loaded, Executable)
    with closing(loaded.program_session()) as session:
        inputs = session.random_inputs()
        session.run(**inputs)
        before = session.get_output(0)
        trace_session(session, tmp_path / "session.json")
        np.testing.assert_array_equal(session.get_output(0), before)
    trace = json.loads((tmp_path / "session.json").read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "wait"]
    assert Counter(e["name"] for e in slices) == launches_of(executable)


def test_what_cannot_be_traced(executable: Path, tmp_path: Path) -> None:
    tvm_ios("trace", executable, "-o", tmp_path / "trace.txt").refuses(".json")
    tvm_ios("trace", tmp_path / "nothing", "-o", tmp_path / "t.json").refuses(tmp_path / "nothing")
    tvm_ios("trace", "squeezenet", "-o", tmp_path / "t.json").refuses("optimize squeezenet")
    assert tvm_ios("trace", executable, "--repeat", 0).code == 2
    assert not list(tmp_path.iterdir())
