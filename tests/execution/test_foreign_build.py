"""What another runtime made of a model, saved in the place of an executable."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from relay_passes import SearchOptions
from relay_passes.load import load_model
from runtime_ext.execution.executable import load
from runtime_ext.execution.foreign_build import ForeignBuild
from runtime_ext.execution.packages.package import seal
from runtime_ext.execution.ports import Port
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.native_errors import ExecutableError, SessionError
from tests.onnx_sketch import Sketch, relative_error, run_on
from tests.refusals import refused

INPUT = Port("x", "x", (1, 3, 8, 8), "float32")
OUTPUT = Port("v1_0", "v1_0", (1, 4, 8, 8), "float32")


def network() -> onnx.ModelProto:
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4)))


@pytest.fixture(params=["tvm", "onnxruntime"])
def saved(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    pytest.importorskip(request.param)
    file = tmp_path / "model.onnx"
    onnx.save(network(), file)
    if request.param == "tvm":
        loaded, library = load_model(file), tmp_path / "tvm.so"
        loaded.dialect.compile_tvm_build(loaded.module, SearchOptions(lanes=1), library)
        file = library
    notes = {"kept": request.param, "policies": [{"policy": "sequential", "latency": 0.5}]}
    ForeignBuild(request.param, file, (INPUT,), (OUTPUT,), 1, (), notes).save(tmp_path / "out")
    file.unlink()
    return tmp_path / "out"


def test_it_runs_as_an_executable_does(saved: Path) -> None:
    session = load(saved).session()
    with refused(SessionError, "'x' was never set"):
        session.run()
    for seed in (0, 1):
        feeds = session.random_inputs(seed)
        session.run(**feeds)
        expected = run_on(network(), feeds)
        assert relative_error([session.get_output("v1_0")], expected) < 1e-5
    assert len(session.benchmark(number=2, repeat=3)) == 3
    with refused(SessionError, "no profile"):
        session.profile()
    session.close()
    with refused(Exception, "closed"):
        session.run()


def test_states_are_handed_over(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    sketch = Sketch(2, 3)
    onnx.save(sketch.model(sketch.op("Add", "x", sketch.op("Exp", "x"))), tmp_path / "m.onnx")
    (output,) = onnx.load(tmp_path / "m.onnx").graph.output
    ports = [Port(name, name, (2, 3), "float32") for name in ("x", output.name)]
    notes = {"states": {output.name: "x"}}
    ForeignBuild("onnxruntime", tmp_path / "m.onnx", (ports[0],), (ports[1],), 1, (), notes).save(
        tmp_path / "out"
    )
    session = load(tmp_path / "out").session()
    for _ in range(2):
        value = np.zeros((2, 3), "float32")
        for _ in range(3):
            session.run()
            value = value + np.exp(value)
            np.testing.assert_allclose(session.get_output(), value, 1e-5)
        session.reset_states()


def test_outputs_stay_those_of_the_last_run(saved: Path) -> None:
    session = load(saved).session()
    session.run(x=np.ones(INPUT.shape, np.float32))
    before = session.get_output()
    session.set_input(x=np.zeros(INPUT.shape, np.float32))
    assert session.get_output().tobytes() == before.tobytes()


def test_its_file_is_loaded_from_a_tar(saved: Path, tmp_path: Path) -> None:
    build = load(saved)
    assert isinstance(build, ForeignBuild)
    build.save(tmp_path / "out.tar")
    session = load(tmp_path / "out.tar").session()
    session.run(x=np.ones((1, 3, 8, 8), np.float32))
    assert session.get_output().shape == (1, 4, 8, 8)


def test_the_loader_of_cpp_says_what_it_is(saved: Path) -> None:
    with refused(ExecutableError, saved, "`tvm-ios run` and Python run it"):
        load_module(saved)


def test_damage_is_found(saved: Path) -> None:
    (file,) = (f for f in saved.iterdir() if f.suffix in (".so", ".onnx"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    with refused(ExecutableError, file.name, "damaged"):
        load(saved)
    file.unlink()
    with refused(ExecutableError, file.name, "lacks"):
        load(saved)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"machine": "riscv64"}, "riscv64"),
        ({"features": ["warp-drive"]}, "warp-drive"),
        ({"versions": {"apache-tvm": "0.1", "onnxruntime": "0.1"}}, "0.1"),
        ({"runtime": "of nobody"}, "of nobody"),
        ({"lanes": "many"}, "many"),
    ],
)
def test_what_does_not_fit_is_refused(saved: Path, change: dict[str, object], named: str) -> None:
    meta = json.loads((saved / "meta.json").read_text())
    (saved / "meta.json").write_text(json.dumps(meta | change))
    seal(saved)
    with refused(ExecutableError, saved, named):
        load(saved)


def test_it_runs_many_requests_on_one_worker(saved: Path) -> None:
    session = load(saved).session()
    feeds = [session.random_inputs(seed) for seed in range(3)]
    for asked, result in zip(feeds, session.run_many(feeds), strict=True):
        assert relative_error([result["v1_0"]], run_on(network(), asked)) < 1e-5
    with refused(SessionError, "one worker", 2):
        session.run_many(feeds, workers=2)
    session.close()
