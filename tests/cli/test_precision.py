"""``--precision bfloat16`` on a CPU, as a user meets it: asked for, told, verified, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.pipeline import schedule_of
from relay_passes.relax.importer import import_onnx
from relay_passes.search_options import SearchOptions
from runtime_ext.cpu import device as cpu_device
from tests.brief import shorten
from tests.cli.command_line import tvm_ios
from tests.onnx_sketch import Sketch, run_on
from tests.refusals import refused
from tvm_ios.contest import tolerance
from tvm_ios.errors import UserError
from tvm_ios.program.program import Program

pytest.importorskip("onnxruntime")

FORM = "bfloat16"
OPTIONS = ("--lanes", 1, "--policy", "sequential", "--fallback", "none", "--json")
MEASURED = ("--lanes", 1, "--policy", "sequential", "--cost", "measured", "--json")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two layers of a perceptron; measurements of their own."""
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    shorten(monkeypatch.setattr)
    path = tmp_path / "m.onnx"
    path.write_bytes(_perceptron().SerializeToString())
    return path


def _perceptron() -> Any:
    sketch = Sketch(1, 96)
    hidden = sketch.op("Relu", sketch.op("MatMul", "x", sketch.normal(96, 80)))
    return sketch.model(sketch.op("MatMul", hidden, sketch.normal(80, 33)))


@pytest.fixture
def rounded_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    _time(monkeypatch, lambda rounded: 1e-3 if rounded else 2e-3)


@pytest.fixture
def rounded_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    _time(monkeypatch, lambda rounded: 2e-3 if rounded else 1e-3)


def _time(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[bool], float]) -> None:
    """What units take by themselves; contests are real."""

    def fake(program: Program, function: Any) -> list[float]:
        # Weights are packed in blocks; what lies between units may be encoded too.
        types = (buffer.type for buffer in program.buffers if len(buffer.type.shape) > 2)
        return [seconds(any(kind.dtype == "uint16" for kind in types))] * 3

    monkeypatch.setattr(cpu_device, "time_program", fake)


def kernels_of(schedule: Path) -> dict[str, str]:
    return json.loads(schedule.read_text()).get("kernels", {})


@pytest.mark.usefixtures("rounded_is_faster")
def test_an_executable_is_verified_and_says_what_it_is(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = tvm_ios("optimize", model, *OPTIONS, "--precision", FORM, "-o", out).json
    (row,) = (row for row in done["policies"] if row["policy"] == "sequential")
    assert 1e-4 < row["max_rel_error"] < 2e-2, "weights are rounded, and not more"
    assert any("2 of 2 units" in note for note in done["notes"])
    assert set(kernels_of(out / "schedule.json").values()) == {FORM}
    info = tvm_ios("info", out, "--json").json
    assert info["precision"] == FORM
    assert info["named_kernels"] == {FORM: 2}
    assert f"{FORM} in 2 units" in tvm_ios("info", out).stdout
    weights = load_file(out / "params.safetensors")
    assert {str(array.dtype) for array in weights.values()} == {"uint16"}
    inputs, outputs = tmp_path / "x.npz", tmp_path / "y.npz"
    x = np.random.default_rng(1).standard_normal((1, 96)).astype(np.float32)
    np.savez(inputs, x=x)
    assert tvm_ios("run", out, "--input", inputs, "--output", outputs).code == 0
    (want,) = run_on(_perceptron(), {"x": x})
    (got,) = np.load(outputs).values()
    assert np.abs(got - want).max() <= 2e-2 * np.abs(want).max()


@pytest.mark.usefixtures("rounded_is_faster")
def test_nothing_is_rounded_that_nobody_asked_for(model: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "schedule.json", tmp_path / "out"
    for precision in ((), ("--precision", "float32")):
        found = tvm_ios("schedule", model, *MEASURED, *precision, "-o", path).json
        assert found["named_kernels"] == kernels_of(path) == {}
    compiled = ("--cost", "cpu", "--schedule", path, "-o", out)
    assert tvm_ios("optimize", model, *OPTIONS[:2], *compiled).code == 0
    info = tvm_ios("info", out, "--json").json
    assert (info["precision"], info["named_kernels"]) == ("float32", {})
    weights = load_file(out / "params.safetensors")
    assert {str(array.dtype) for array in weights.values()} == {"float32"}


@pytest.mark.usefixtures("rounded_is_slower")
def test_a_form_that_is_slower_is_not_taken(model: Path) -> None:
    found = tvm_ios("schedule", model, *MEASURED, "--precision", FORM).json
    assert found["named_kernels"] == {}


@pytest.mark.usefixtures("rounded_is_faster")
def test_what_is_too_inexact_is_taken_back(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tolerance, "_LARGEST", {"float32": 1e-5, FORM: 1e-5})
    out = tmp_path / "out"
    done = tvm_ios("optimize", model, *OPTIONS, "--precision", FORM, "-o", out).json
    assert max(row["max_rel_error"] for row in done["policies"]) < 1e-5
    assert any(note.startswith(f"{FORM} left out") for note in done["notes"])
    assert tvm_ios("info", out, "--json").json["precision"] == "float32"


@pytest.mark.usefixtures("rounded_is_faster")
def test_a_schedule_names_it_and_needs_the_precision(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    found = tvm_ios("schedule", model, *MEASURED, "--precision", FORM, "-o", path).json
    assert found["named_kernels"] == {FORM: 2}
    assert set(kernels_of(path).values()) == {FORM}
    given = ("--schedule", path)
    for command in (
        ("optimize", model, *OPTIONS, *given, "-o", tmp_path / "out"),
        ("optimize", model, *OPTIONS[:2], *given, "--cost", "cpu", "-o", tmp_path / "out"),
        ("schedule", model, *MEASURED, *given),
    ):
        tvm_ios(*command).refuses("2 units", FORM, "float32", f"--precision {FORM}")
    assert not (tmp_path / "out").exists()
    module = import_onnx(_perceptron())
    with refused(UserError, FORM):
        IOSSchedule(schedule=path, options=SearchOptions(lanes=1))(module)
    rounding = IOSSchedule(schedule=path, options=SearchOptions(lanes=1, precision=FORM))
    assert set(schedule_of(rounding(module)).kernels.values()) == {FORM}
    out = tmp_path / "unmeasured"
    compiled = ("--cost", "cpu", "--precision", FORM, *given, "-o", out)
    assert tvm_ios("optimize", model, *OPTIONS[:2], *compiled).code == 0
    assert tvm_ios("info", out, "--json").json["precision"] == FORM


@pytest.mark.usefixtures("rounded_is_faster")
def test_the_pass_takes_the_precision(model: Path) -> None:
    module = import_onnx(_perceptron())
    for precision, names in (("", set[str]()), (FORM, {FORM})):
        options = SearchOptions(lanes=1, precision=precision)
        scheduled = IOSSchedule("sequential", options=options)(module)
        # No stage is measured for this policy, so it names no form; others do.
        assert schedule_of(scheduled).policy == "sequential"
        scheduled = IOSSchedule("ios-parallel", options=options)(module)
        assert set(schedule_of(scheduled).kernels.values()) == names


@pytest.mark.slow
@pytest.mark.usefixtures("rounded_is_faster")
def test_bench_says_it(model: Path, tmp_path: Path) -> None:
    results = tmp_path / "bench.json"
    options = ("--against", "onnxruntime", "--rounds", 6, "--processes", 1, "--seconds", 1)
    options += ("--lanes", 1, "--policy", "sequential", "--keep", tmp_path / "kept")
    done = tvm_ios("bench", model, *options, "--precision", FORM, "-o", results)
    assert done.code == 0, done.stderr
    assert f"--precision {FORM}" in done.stdout
    document = json.loads(results.read_text())
    assert document["settings"]["precision"] == FORM
    (network,) = document["networks"]
    assert 1e-4 < network["max_rel_error"]["ours"] < 2e-2
    # What was kept in another precision is made anew.
    plain = tvm_ios("bench", model, *options, "--json").json
    assert "precision" not in plain["settings"]
    assert plain["networks"][0]["max_rel_error"]["ours"] < 1e-5


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("optimize", "--target", "cuda", "--arch", "sm_90"), ("GPUs", FORM, "float16")),
        (("optimize", "--cost", "cpu"), (FORM, "measuring", "cpu")),
        (("bundle",), ("bundles", FORM, "--precision")),
        (("tune", "--log", "log"), (FORM, "--precision")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_who_has_no_bfloat16_says_so(
    model: Path, tmp_path: Path, command: tuple[str, ...], names: tuple[str, ...]
) -> None:
    verb, *options = command
    log = [tmp_path / "log" if option == "log" else option for option in options]
    done = tvm_ios(verb, model, "--lanes", 1, "--precision", FORM, *log)
    done.refuses(*names)


def test_other_precisions_are_no_cpus(model: Path) -> None:
    for precision in ("tf32", "float16"):
        done = tvm_ios("optimize", model, *OPTIONS[:2], "--precision", precision)
        done.refuses(precision, FORM, "--precision")


@pytest.mark.parametrize("cost", [(), ("--cost", "v100"), ("--policy", "graphturbo")])
def test_described_devices_have_none(model: Path, cost: tuple[str, ...]) -> None:
    more = ("--cost", "stcp920") if cost[:1] == ("--policy",) else ()
    done = tvm_ios("schedule", model, *cost, *more, "--precision", FORM)
    assert done.code == 2
    assert "--precision" in done.stderr
