"""The key of a task: equal for equal content, and for nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tests.onnx_sketch import Sketch
from tvm_ios.devices.device import device_text
from tvm_ios.sweep import content
from tvm_ios.sweep.content import Job, Jobs, file_name
from tvm_ios.sweep.tasks import CrossingTask, MemoryTask, SearchTask, Task, TaskLimits, Workload

SEARCH = SearchTask(Workload("squeezenet"), "v100", "ios-both", (3, 8))


def job(task: Task, folder: Path = Path(), machine: str = "", **limits: int) -> Job:
    devices = ("here", "fleet:pi", "fleet:pi4")
    return Jobs(folder, TaskLimits(**limits), dict.fromkeys(devices, machine)).job(task)


def test_a_key_tells_tasks_apart() -> None:
    here = replace(SEARCH, device="here")
    jobs = [
        job(SEARCH),
        job(replace(SEARCH, workload=Workload("resnet50"))),
        job(replace(SEARCH, workload=Workload("squeezenet", 1))),
        job(replace(SEARCH, workload=Workload("squeezenet", None, (("x", (1,)),)))),
        job(replace(SEARCH, device="k80")),
        job(replace(SEARCH, policy="greedy")),
        job(replace(SEARCH, pruning=(3, 4))),
        job(SEARCH, max_block=20),
        job(here),
        job(here, machine="another processor"),
        job(here, lanes=1),
        job(replace(SEARCH, device="fleet:pi")),
        job(replace(SEARCH, device="fleet:pi4")),
        job(CrossingTask(SEARCH, Workload("squeezenet", 2), "v100")),
        job(CrossingTask(SEARCH, Workload("squeezenet"), "k80")),
        job(CrossingTask(replace(SEARCH, pruning=(1, 1)), Workload("squeezenet", 2), "v100")),
        job(MemoryTask(Workload("squeezenet"), "rpo")),
    ]
    assert len({each.key for each in jobs}) == len(jobs)
    assert job(SEARCH).key == jobs[0].key
    # Nothing is measured there.
    assert job(SEARCH, machine="another", lanes=1, max_measurements=7).key == jobs[0].key
    assert [each.holds for each in jobs[-6:]] == ["fleet:pi", "fleet:pi4", None, None, None, None]


def test_the_key_of_a_fleet_has_its_machines_but_not_its_tracker() -> None:
    device = "fleet:pi"

    def fleet_job(machine: str, tracker: str) -> Job:
        jobs = Jobs(Path(), TaskLimits(), {device: machine}, tracker)
        return jobs.job(replace(SEARCH, device=device))

    job = fleet_job("a board", "10.0.0.1:9190")
    assert job.content["tracker"] == "10.0.0.1:9190"
    assert job.holds == device
    assert fleet_job("a board", "10.0.0.2:9190").key == job.key
    assert fleet_job("another board", "10.0.0.1:9190").key != job.key


def test_a_crossing_needs_its_search() -> None:
    assert job(CrossingTask(SEARCH, Workload("squeezenet"), "k80")).needs == job(SEARCH).key


def test_versions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = job(SEARCH).key
    monkeypatch.setattr(content, "versions", lambda *_: {"tvm-ios": "99"})
    assert job(SEARCH).key != before


def test_figures_of_a_device_count_and_its_file_travels(tmp_path: Path) -> None:
    task = replace(SEARCH, device="mine.json")
    path = tmp_path / "mine.json"
    path.write_text(device_text("v100"))
    before = job(task, tmp_path)
    path.write_text(device_text("k80"))
    after = job(task, tmp_path)
    assert before.key != after.key
    assert after.files == {file_name(after.content["device"]): path}


def test_what_is_in_a_model_counts_and_not_its_name(tmp_path: Path) -> None:
    sketch = Sketch(1, 4)
    onnx.save(sketch.model(sketch.op("Relu", "x")), tmp_path / "a.onnx")
    shutil.copy(tmp_path / "a.onnx", tmp_path / "b.onnx")
    a, b = (
        job(replace(SEARCH, workload=Workload(f"{name}.onnx")), tmp_path) for name in ("a", "b")
    )
    assert a.key == b.key
    (tmp_path / "b.onnx").write_bytes(b"damaged, which its task will say")
    assert job(replace(SEARCH, workload=Workload("b.onnx")), tmp_path).key != a.key


def test_weights_beside_a_model_count_and_travel(tmp_path: Path) -> None:
    sketch = Sketch(1, 64)
    model = sketch.model(sketch.op("MatMul", "x", sketch.normal(64, 64)))
    path = tmp_path / "m.onnx"
    beside = {"save_as_external_data": True, "location": "m.weights", "size_threshold": 0}
    onnx.save(model, path, **beside)
    task = replace(SEARCH, workload=Workload("m.onnx"))
    before = job(task, tmp_path)
    folder = before.content["model"]["sha256"]
    assert before.files == {
        f"{folder}/m.onnx": path,
        f"{folder}/m.weights": tmp_path / "m.weights",
    }
    data = bytearray((tmp_path / "m.weights").read_bytes())
    data[0] ^= 1
    (tmp_path / "m.weights").write_bytes(data)
    assert job(task, tmp_path).key != before.key


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"one")
    jobs = Jobs(tmp_path, TaskLimits(), {})
    begun = jobs.job(replace(SEARCH, workload=Workload("m.onnx")))
    assert jobs.changed(begun) is None
    (tmp_path / "m.onnx").write_bytes(b"another")
    assert jobs.changed(begun) == tmp_path / "m.onnx"
    (tmp_path / "m.onnx").unlink()
    assert jobs.changed(begun) == tmp_path / "m.onnx"
