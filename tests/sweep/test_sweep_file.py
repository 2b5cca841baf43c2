"""What a sweep's file may say, and what it is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.refusals import refused
from tests.sweep.sweep_package import sweep_file
from tvm_ios.sweep.expansion import expand
from tvm_ios.sweep.sweep_file import read_sweep
from tvm_ios.sweep.tasks import CrossingTask, MemoryTask, SearchTask, TaskLimits, Workload
from tvm_ios.sweep.toml_values import SweepError


def test_the_tasks_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    for name in ("b.onnx", "a.onnx", "c.txt"):
        (tmp_path / "nets" / name).write_text("no matter")
    path = tmp_path / "sweep.toml"
    path.write_text("""
[sweep]
models = ["squeezenet", { model = "nets/*.onnx", batches = [2], shapes = [{ x = [2, 2] }] }]
batches = [1, 16]
devices = ["v100", "here"]
policies = ["ios-both"]
pruning = [[3, 8], [1, 4]]
memory = ["rpo"]
time_limit = 2.5
lanes = 4

[[sweep.exclude]]
model = "nets/*"
device = "here"

[[sweep.exclude]]
batch = [16]
pruning = [1, 4]
""")
    sweep = read_sweep(path)
    assert sweep.limits == TaskLimits(time_limit=2.5, lanes=4)
    files = [Workload(f"nets/{name}.onnx", 2, (("x", (2, 2)),)) for name in "ab"]
    one, sixteen = (Workload("squeezenet", batch) for batch in (1, 16))
    assert expand(sweep) == (
        *(
            SearchTask(one, device, "ios-both", pruning)
            for device in ("v100", "here")
            for pruning in ((3, 8), (1, 4))
        ),
        *(SearchTask(sixteen, device, "ios-both", (3, 8)) for device in ("v100", "here")),
        *(
            SearchTask(workload, "v100", "ios-both", pruning)
            for workload in files
            for pruning in ((3, 8), (1, 4))
        ),
        *(MemoryTask(workload, "rpo") for workload in (one, sixteen, *files)),
    )


def test_the_example() -> None:
    path = Path(__file__).parents[2] / "examples" / "sweep.toml"
    # Two searches that are crossed for each of four conditions, each with two others.
    assert len(expand(read_sweep(path))) == 8 + 8


def test_crossings_differ_in_one_thing(tmp_path: Path) -> None:
    path = sweep_file(
        tmp_path,
        models=["squeezenet", "lstm_small"],
        batches=[1, 2, 4],
        devices=["v100", "k80"],
        policies=["sequential", "ios-both"],
        crossings=["batches", "devices"],
    )
    crossings = [task for task in expand(read_sweep(path)) if isinstance(task, CrossingTask)]
    # Sequential schedules are the same everywhere.
    assert {task.search.policy for task in crossings} == {"ios-both"}
    by_batch = [task for task in crossings if task.search.device == task.device]
    by_device = [task for task in crossings if task.search.workload == task.workload]
    assert len(by_batch) == 2 * 2 * 3 * 2
    assert len(by_device) == 2 * 3 * 2
    assert len(crossings) == len(set(crossings)) == len(by_batch) + len(by_device)
    for task in by_batch:
        assert task.search.workload.model == task.workload.model


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"model": ["squeezenet"]}, ("model", "models")),
        ({"models": None}, ("models",)),
        ({"models": []}, ("models",)),
        ({"models": ["squeezenets"]}, ("squeezenets", "squeezenet")),
        ({"models": ["gone.onnx"]}, ("gone.onnx",)),
        ({"models": ["nets/*.onnx"]}, ("nets/*.onnx",)),
        ({"models": ["squeezenet", "squeezenet"]}, ("models", "squeezenet")),
        ({"models": [3]}, ("models", "3")),
        ({"batches": [0]}, ("batches", "0")),
        ({"batches": 4}, ("batches", "4")),
        ({"batches": [True]}, ("batches", "True")),
        ({"devices": ["v1000"]}, ("v1000", "v100")),
        ({"devices": ["measured"]}, ("measured", "here")),
        ({"devices": ["mine.json"]}, ("mine.json",)),
        ({"devices": ["fleet:"]}, ("fleet:", "key")),
        ({"devices": None}, ("devices",)),
        ({"policies": None}, ("policies",)),
        ({"policies": ["ios-bot"]}, ("ios-bot", "ios-both")),
        ({"pruning": [[3]]}, ("pruning", "[3]")),
        ({"pruning": [[3, 0]]}, ("pruning", "0")),
        ({"crossings": ["batch"]}, ("batch", "batches")),
        ({"memory": ["optimum"]}, ("optimum", "optimal")),
        ({"devices": None, "policies": None}, ("devices", "policies", "memory")),
        ({"time_limit": 0}, ("time_limit", "0")),
        ({"lanes": "two"}, ("lanes", "two")),
    ],
)
def test_what_is_refused(tmp_path: Path, keys: dict[str, object], named: tuple[str, ...]) -> None:
    path = sweep_file(tmp_path, **keys)
    with refused(SweepError, path, *named):
        read_sweep(path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[sweep", ()),
        ("[sweeps]\n", ("sweeps", "sweep")),
        ('[sweep]\nmodels = ["squeezenet"]\nexclude = [{ polcy = "x" }]', ("polcy", "policy")),
        ('[sweep]\nmodels = ["squeezenet"]\nexclude = [{}]', ("exclude",)),
        ("[sweep]\nmodels = [{ batches = [1] }]", ("model",)),
        ('[sweep]\nmodels = [{ model = "squeezenet", batch = 1 }]', ("batch", "batches")),
        ('[sweep]\nmodels = ["squeezenet"]\nshapes = [{ x = [1, "n"] }]', ("x", "n")),
    ],
)
def test_what_is_refused_as_text(tmp_path: Path, text: str, named: tuple[str, ...]) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with refused(SweepError, path, *named):
        read_sweep(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_bytes(b"\xff\xfe")
    with refused(SweepError, path):
        read_sweep(path)


@pytest.mark.parametrize(
    ("exclusion", "named"), [({"device": "k80"}, ("1", "k80")), ({"device": "v100"}, ("exclude",))]
)
def test_exclusions_fit_some_tasks_but_not_all(
    tmp_path: Path, exclusion: dict[str, str], named: tuple[str, ...]
) -> None:
    path = sweep_file(tmp_path, exclude=[exclusion])
    with refused(SweepError, *named):
        expand(read_sweep(path))
