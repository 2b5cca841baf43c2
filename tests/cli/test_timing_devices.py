"""Devices that another package adds: commands time on them, and say what was not verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.execution.executable import load
from tests.cli.command_line import Outcome, tvm_ios, tvm_ios_process
from tests.device_packages import example, install
from tests.onnx_sketch import Sketch
from tvm_ios.cli.options.completion import complete_device
from tvm_ios.costs.log_lines import read_header
from tvm_ios.extensions import extensions
from tvm_ios.measuring.launch_files import read_launches
from tvm_ios.schedule.schedule import Schedule


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(tmp_path / "site", monkeypatch)
    # Measurements of one test are none of another.
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    yield
    extensions.cache_clear()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions that may run side by side, and what joins them."""
    sketch = Sketch(1, 8, 9, 9)
    sides = [sketch.op("Relu", sketch.conv("x", 8, 16)) for _ in range(2)]
    path = tmp_path / "m.onnx"
    onnx.save(sketch.model(sketch.op("Add", *sides)), path)
    return path


def optimize(model: Path, device: str, *more: object) -> Outcome:
    policies = ("--policy", "greedy", "-o", model.parent / "out")
    return tvm_ios("optimize", model, "--device", device, *policies, *more, "--json")


def test_a_search_is_measured_on_the_device(model: Path, tmp_path: Path) -> None:
    result = optimize(model, "abacus", "--policy", "greedy,ios-parallel").json
    assert (result["timed_on"], result["kept"], result["reference"]) == ("abacus 2", "greedy", None)
    assert "'abacus'" in result["not_verified"]
    latencies = {row["policy"]: row["latency_ms"] for row in result["policies"]}
    assert latencies["greedy"] == latencies["ios-parallel"] < latencies["sequential"]
    (log,) = (tmp_path / "cache" / "logs").glob("*.jsonl")
    assert read_header(log).device == "abacus 2"
    assert Schedule.load(Path(result["schedule"])).policy == "greedy"
    # Times are exact: what the log has is not timed again.
    again = tvm_ios("schedule", model, "--device", "abacus", "--policy", "ios-parallel", "--json")
    assert again.json["search"]["stages_measured"] == 0
    explained = tvm_ios("explain", result["executable"], "--device", "abacus", "--json").json
    assert explained["device"] == "abacus 2"
    assert explained["latency_ms"] == pytest.approx(latencies["greedy"])
    # An entry of a deployment, whose kernels lie in files that it shares.
    added = NewEntry(load(result["executable"]), "greedy")
    entry = add_entry(tmp_path / "app", "m", "0" * 64, added)
    path = tmp_path / "app" / "entries" / entry.id
    deployed = tvm_ios("explain", path, "--device", "abacus", "--json").json
    assert deployed["latency_ms"] == explained["latency_ms"]
    refused = tvm_ios("explain", result["executable"], "--device", "recording")
    refused.refuses("'recording'", "RECORDING")


def test_a_page_shows_streams_and_what_is_inside_of_persistent_kernels(
    model: Path, tmp_path: Path
) -> None:
    executable = optimize(model, "abacus", "--policy", "rammer").json["executable"]
    page = tmp_path / "page.html"
    tvm_ios("report", executable, "--device", "abacus", "-o", page)
    data = page.read_text().partition('id="data">')[2].partition("</script>")[0]
    (shown,) = json.loads(data)["executables"]
    before, run, inside = shown["runs"]
    assert before["row"] == run["row"] == "stream"
    (kernel,) = (n for n, unit in enumerate(shown["units"]) if unit["strategy"] == "co_schedule")
    assert shown["units"][kernel]["flops"] > 0
    # rTasks lie inside of their kernel's launch, and no vEU does two things at once.
    assert inside["row"] == "vEU"
    ((begin, end),) = (span[3:] for span in run["spans"] if span[0] == kernel)
    assert max(span[4] for span in inside["spans"]) == pytest.approx(end, abs=1e-5)
    assert {inside["parts"][span[5]]["kind"].partition("+")[0] for span in inside["spans"]} >= {
        "conv2d"
    }
    for veu in range(inside["rows"]):
        there = sorted(span[3:5] for span in inside["spans"] if span[1] <= veu <= span[2])
        assert all(begin <= at for at, _ in there)
        assert all(until <= at for (_, until), (at, _) in pairwise(there))
    trace = tmp_path / "trace.json"
    tvm_ios("trace", executable, "--device", "abacus", "-o", trace)
    named = {e["args"].get("name") for e in json.loads(trace.read_text())["traceEvents"]}
    assert "stream 0" in named


def test_a_device_that_computes_verifies(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", str(model))
    result = optimize(model, "computing").json
    assert result["not_verified"] == ""
    assert "ONNX Runtime" in result["reference"]
    assert max(row["max_rel_error"] for row in result["policies"]) < 1e-6
    monkeypatch.setenv("FACTOR", "1.01")
    optimize(model, "computing").refuses("sequential", "ONNX Runtime")


def test_stages_without_a_time_are_done_without(model: Path) -> None:
    result = optimize(model, "picky", "--policy", "ios-parallel,greedy,rammer").json
    assert [row["policy"] for row in result["policies"]] == ["sequential", "ios-parallel"]
    assert "beside another" in result["outcomes"]["greedy"]
    assert "persistent" in result["outcomes"]["rammer"]
    assert any("beside another" in note for note in result["notes"])


def test_a_program_that_a_device_fails_at_is_left_out(model: Path) -> None:
    launches = model.parent / "launches"
    command = ("--cost", "v100", "--policy", "greedy,ios-parallel", "--launches", launches)
    result = optimize(model, "fragile", *command).json
    assert [row["policy"] for row in result["policies"]] == ["sequential", "ios-parallel"]
    assert "parser" in result["outcomes"]["greedy"]
    assert all(launch.registers for launch in read_launches(launches / "greedy.json").launches)


def test_persistent_kernels_by_estimates(model: Path) -> None:
    result = optimize(model, "abacus", "--cost", "rtx2080ti", "--policy", "rammer").json
    (_, rammer) = result["policies"]
    assert (rammer["launches"], result["cost"]) == (1, "rtx2080ti")
    assert result["search"]["stages_measured"] == 0


def test_what_was_recorded_is_replayed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(example().splitlines()) == 60
    recording = model.parent / "recording.json"
    recording.write_text("{}")
    monkeypatch.setenv("RECORDING", str(recording))
    command = ("--cost", "v100", "--launches", model.parent / "launches")
    # Of nothing there is a time, and what is to be simulated is there all the same.
    optimize(model, "recording", *command).refuses("no", "sequential")
    cycles = {"sequential": 900, "greedy": 700}
    graphs = {p: read_launches(model.parent / "launches" / f"{p}.json") for p in cycles}
    assert {(g.model, g.policy) for g in graphs.values()} == {("m", p) for p in cycles}
    spans = {
        graph.digest: [(1 + n, cycles[policy]) for n, _ in enumerate(graph.launches)]
        for policy, graph in graphs.items()
    }
    recording.write_text(json.dumps({"graphs": spans}))
    result = optimize(model, "recording", *command).json
    expected = {policy: pytest.approx(count / 1132e3) for policy, count in cycles.items()}
    assert {row["policy"]: row["latency_ms"] for row in result["policies"]} == expected
    assert result["kept"] == "greedy"
    # Another recording is another version.
    assert result["timed_on"] != optimize(model, "abacus", *command).json["timed_on"]


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("nowhere", ("'nowhere'", "abacus", "--cost")),
        ("missing", ("abacus-devices", "'missing'")),
        ("none", ("'none'", "TimingDevice")),
        ("unplugged", ("'unplugged'", "no such board")),
        ("wrong", ("'abacus'", "-1.0")),
        ("failing", ("'abacus'", "cable")),
    ],
)
def test_a_device_that_cannot_be_used(device: str, names: tuple[str, ...], model: Path) -> None:
    optimize(model, device, "--cost", "v100").refuses(*names)


def test_what_does_not_go_with_a_device(model: Path) -> None:
    optimize(model, "abacus", "--cudnn").refuses("cuDNN")
    for more in (("--cost", "v100"), ("--arch", "sm_90"), ("--dialect", "relay")):
        assert tvm_ios("schedule", model, "--device", "abacus", *more).code == 2
    assert tvm_ios("optimize", model, "--launches", model.parent / "launches").code == 2


def test_bench_and_completion(model: Path) -> None:
    assert complete_device("ab") == ["abacus"]
    command = ("bench", model, "--device", "abacus", "--policy", "greedy", "--json")
    (network,) = tvm_ios_process(*command).json["networks"]
    assert [row["policy"] for row in network["policies"]] == ["sequential", "greedy"]
    (network,) = tvm_ios(*command, "--cost", "v100").json["networks"]
    assert network["search"]["stages_measured"] == 0
    assert tvm_ios("bench", model, "--cost", "v100").code == 2
