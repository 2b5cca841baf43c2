"""``optimize`` and ``run`` end to end, on a small network."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.brief import shorten
from tests.cli.command_line import Outcome, tvm_ios, tvm_ios_process
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tvm_ios.costs.costs import Offer
from tvm_ios.policies.registry import tried_policies
from tvm_ios.schedule.schedule import Schedule

SHAPE = (1, 3, 12, 11)


def block() -> Any:
    """Three branches between two convolutions: seven units."""
    sketch = Sketch(*SHAPE)
    stem = sketch.op("Relu", sketch.conv("x", 3, 16))
    branches = [sketch.op("Relu", sketch.conv(stem, 16, 8, kernel)) for kernel in (1, 3, 5)]
    joined = sketch.conv(sketch.op("Concat", *branches, axis=1), 24, 10, kernel=1)
    return sketch.model(sketch.op("Flatten", sketch.op("GlobalAveragePool", joined)))


OUTPUT = block().graph.output[0].name


@pytest.fixture(scope="session")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """An executable of the block; TVM's threads are counted in a process of its own."""
    folder = tmp_path_factory.mktemp("optimized")
    (folder / "block.onnx").write_bytes(block().SerializeToString())
    limits = ["--lanes", 2, "--max-measurements", 6, "-r", 2, "-s", 3, "--fallback", "none"]
    command = ["optimize", folder / "block.onnx", "-o", folder / "block", *limits, "--json"]
    return tvm_ios_process(*command, brief=True), folder / "block"


def test_optimize(optimized: tuple[Outcome, Path]) -> None:
    outcome, path = optimized
    found = outcome.json
    assert {"model", "policies", "kept", "search", "executable"} <= set(found)
    assert found["model"] == "block"
    # Which are worth a program is for the machine to say; each has a line.
    measured = [row["policy"] for row in found["policies"]]
    # With --fallback none nothing of TVM's own is built.
    assert measured[0] == "sequential"
    assert set(found["outcomes"]) == set(tried_policies(Offer)[0])
    assert set(measured) <= set(found["outcomes"])
    for policy in set(found["outcomes"]) - set(measured):
        assert found["outcomes"][policy]
    for row in found["policies"]:
        keys = ["policy", "latency_ms", "ratio", "stages", "max_abs_error", "max_rel_error"]
        assert list(row) == keys
        assert row["latency_ms"] > 0
        assert row["max_rel_error"] <= 1e-4
    rows = {row["policy"]: row for row in found["policies"]}
    assert rows["sequential"]["ratio"] == 1
    assert rows["sequential"]["stages"] == found["search"]["units"] == 7
    assert all(row["stages"] <= 7 for row in rows.values())
    assert found["kept"] in tried_policies(Offer)[0]
    assert found["executable"] == str(path)
    memory = found["memory"]
    assert memory["proven"]
    assert memory["bound_bytes"] <= memory["arena_bytes"] < memory["unshared_bytes"]
    plan = json.loads((path / "memory.json").read_text())
    assert plan["nbytes"] == memory["arena_bytes"]
    assert set(found["confirmed"]) == {"sequential"}
    assert "measuring stages" in outcome.stderr
    assert Schedule.load(path / "schedule.json").policy == found["kept"]


def test_the_executable_has_its_parts(optimized: tuple[Outcome, Path]) -> None:
    names = {file.name for file in optimized[1].iterdir()}
    assert names == {
        *("program.json", "memory.json", "kernels.so", "params.safetensors"),
        *("schedule.json", "meta.json", "model.tvm_ios", "SHA256SUMS"),
    }


def test_run_on_a_given_input(optimized: tuple[Outcome, Path], tmp_path: Path) -> None:
    given, result = tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(given, x=np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32))
    options = ["--input", given, "--output", result, "--repeat", 3, "--json"]
    found = tvm_ios_process("run", optimized[1], *options).json
    assert list(found) == ["latency_ms", "outputs", "tail", "runtime"]
    times = found["latency_ms"]
    assert list(times) == ["median", "min", "max", "p90", "p99"]
    assert 0 < times["min"] <= times["median"] <= times["p90"] <= times["p99"] <= times["max"]
    with np.load(result) as arrays:
        output = arrays[OUTPUT]
    digest = hashlib.sha256(output.tobytes()).hexdigest()
    assert found["outputs"] == {OUTPUT: {"shape": [1, 10], "dtype": "float32", "sha256": digest}}
    assert relative_error([output], run_onnxruntime(block())) <= 1e-4


def test_random_inputs_are_seeded(optimized: tuple[Outcome, Path]) -> None:
    def digest(seed: int) -> str:
        found = tvm_ios("run", optimized[1], "--seed", seed, "--repeat", 1, "--json").json
        return found["outputs"][OUTPUT]["sha256"]

    assert digest(1) == digest(1) != digest(2)


def test_run_prints_a_table(optimized: tuple[Outcome, Path]) -> None:
    found = tvm_ios("run", optimized[1], "--repeat", 2)
    assert found.code == 0
    assert "1x10" in found.stdout
    assert "latency of 2 runs: median" in found.stdout


def test_inputs_in_npy_files(optimized: tuple[Outcome, Path], tmp_path: Path) -> None:
    image = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    np.save(tmp_path / "image.npy", image)
    np.savez(tmp_path / "x.npz", x=image)

    def outputs(given: object) -> Any:
        return tvm_ios("run", optimized[1], "--input", given, "--repeat", 1, "--json").json[
            "outputs"
        ]

    same = outputs(tmp_path / "x.npz")
    assert outputs(tmp_path / "image.npy") == outputs(f"x={tmp_path / 'image.npy'}") == same
    named = tvm_ios("run", optimized[1], "--input", f"x={tmp_path / 'x.npz'}")
    named.refuses("x.npz", "leave out x=")


def test_outputs_are_compared(optimized: tuple[Outcome, Path], tmp_path: Path) -> None:
    result = tmp_path / "y.npz"
    command = ("run", optimized[1], "--repeat", 1, "--warm-up", 0)
    assert tvm_ios(*command, "--output", result).code == 0
    assert "are those of" in tvm_ios(*command, "--compare", result).stdout
    assert tvm_ios(*command, "--compare", result, "--json").json["max_abs_difference"] == 0
    with np.load(result) as arrays:
        wrong = arrays[OUTPUT]
    wrong[0, 3] += 1
    np.savez(tmp_path / "wrong.npz", **{OUTPUT: wrong})
    differs = tvm_ios(*command, "--compare", tmp_path / "wrong.npz")
    differs.refuses(repr(OUTPUT), "in 1 of 10 numbers", "[0, 3]")
    assert tvm_ios(*command, "--compare", tmp_path / "wrong.npz", "--atol", 2).code == 0
    np.savez(tmp_path / "other.npz", nothing=wrong)
    tvm_ios(*command, "--compare", tmp_path / "other.npz").refuses("'nothing'", repr(OUTPUT))
    np.savez(tmp_path / "shape.npz", **{OUTPUT: wrong[0]})
    tvm_ios(*command, "--compare", tmp_path / "shape.npz").refuses("[1, 10]", "[10]")


def _write(kind: str, path: Path) -> None:
    image = np.zeros(SHAPE, np.float32)
    if kind == "name":
        np.savez(path, image=image)
    elif kind == "shape":
        np.savez(path, x=image[:, :, :-1])
    elif kind == "type":
        np.savez(path, x=image.astype(np.float64))
    elif kind == "none":
        np.savez(path)
    elif kind == "objects":
        np.savez(path, x=np.array([{}], dtype=object))
    elif kind == "zip":
        path.write_bytes(b"PK\x03\x04" + bytes(99))
    elif kind == "noise":
        path.write_bytes(np.random.default_rng(0).bytes(99))
    elif kind == "empty":
        path.touch()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("name", ("'image'", "x")),
        ("shape", ("'x'", "[1, 3, 11, 11]", "[1, 3, 12, 11]")),
        ("type", ("'x'", "float64", "float32")),
        ("none", ("'x'", "set")),
        ("objects", ("x.npz",)),
        ("zip", ("x.npz",)),
        ("noise", ("x.npz",)),
        ("empty", ("x.npz",)),
        ("missing", ("x.npz: No such file or directory",)),
    ],
)
def test_bad_inputs(
    kind: str, named: tuple[str, ...], optimized: tuple[Outcome, Path], tmp_path: Path
) -> None:
    path = tmp_path / "x.npz"
    _write(kind, path)
    tvm_ios("run", optimized[1], "--input", path).refuses(*named)


@pytest.mark.parametrize(
    "file", ["program.json", "kernels.so", "params.safetensors", "schedule.json", "meta.json"]
)
def test_damaged_executables(file: str, optimized: tuple[Outcome, Path], tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(optimized[1], path)
    content = bytearray((path / file).read_bytes())
    content[len(content) // 2] ^= 0x55
    (path / file).write_bytes(content)
    tvm_ios("run", path).refuses(path)
    (path / file).unlink()
    tvm_ios("run", path).refuses(file)


def test_what_is_no_executable(tmp_path: Path) -> None:
    tvm_ios("run", tmp_path / "nothing").refuses(tmp_path / "nothing")
    tvm_ios("run", tmp_path).refuses(tmp_path, "not an executable")
    (tmp_path / "file").write_bytes(b"text")
    tvm_ios("run", tmp_path / "file").refuses(tmp_path / "file")


def test_an_unwritable_output(optimized: tuple[Outcome, Path]) -> None:
    found = tvm_ios("run", optimized[1], "--repeat", 1, "--output", "/proc/nothing/y.npz")
    found.refuses("No such file")


def test_a_schedule_of_measured_costs() -> None:
    limits = ["--lanes", 2, "--max-measurements", 2, "-r", 1, "-s", 2]
    found = tvm_ios("schedule", "inception_block", "--cost", "measured", *limits, "--json").json
    assert (found["cost"], found["policy"]) == ("measured", "ios-both")
    assert found["search"]["states"] > 0
    assert found["latency_ms"] == pytest.approx(sum(s["latency_ms"] for s in found["stages"]))
    assert min(stage["latency_ms"] for stage in found["stages"]) > 0


def test_optimize_a_file_into_a_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane, no search: what is left is the way through importing, building and measuring."""
    sketch = Sketch(1, 3, 8, 8)
    model = sketch.model(sketch.op("Relu", sketch.norm(sketch.conv("x", 3, 4), 4)), "x")
    (tmp_path / "small.onnx").write_bytes(model.SerializeToString())
    path = tmp_path / "small.tar"
    options = ["--lanes", 1, "--policy", "sequential", "--fallback", "none", "-o", path]
    shorten(monkeypatch.setattr)
    found = tvm_ios("optimize", tmp_path / "small.onnx", *options)
    assert found.code == 0, found.stderr
    assert "small" in found.stdout
    assert "kept sequential: no ratio to it has a 95 % interval below one" in found.stdout
    ran = tvm_ios("run", path, "--repeat", 1, "--json").json
    assert [output["shape"] for output in ran["outputs"].values()] == [[1, 4, 8, 8], [1, 3, 8, 8]]


def test_optimize_says_what_is_in_the_way_of_its_output(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not replace")
    options = ["--lanes", 1, "--max-measurements", 0, "-o", tmp_path / "mine"]
    sketch = Sketch(1, 3, 8, 8)
    (tmp_path / "m.onnx").write_bytes(sketch.model(sketch.op("Exp", "x")).SerializeToString())
    found = tvm_ios("optimize", tmp_path / "m.onnx", *options)
    found.refuses("mine", "not an executable")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "do not replace"


def test_optimize_tries_a_given_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = tmp_path / "schedule.json", tmp_path / "out"
    made = ["schedule", "inception_block", "--policy", "greedy", "-o", str(file), "--json"]
    assert tvm_ios(*made).code == 0
    options = ["--lanes", 2, "--policy", "sequential", "--schedule", file, "-o", folder, "--json"]
    shorten(monkeypatch.setattr)
    found = tvm_ios("optimize", "inception_block", *options).json
    rows = {row["policy"]: row for row in found["policies"]}
    assert list(rows) == ["tvm", "sequential", "given"]
    assert rows["given"]["stages"] == len(json.loads(file.read_text())["stages"])
    assert rows["given"]["max_rel_error"] < 1e-5


def test_optimize_knows_its_policies() -> None:
    found = tvm_ios("optimize", "inception_block", "--policy", "sequential,magic")
    assert found.code == 2
    assert "'magic' is none of sequential, greedy" in found.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--cost", "v100"), "v100"),
        (("--fallback", "onnxruntime"), "--fallback"),
        (("--batch", "1,2"), "deployment"),
    ],
)
def test_what_a_fleet_cannot_do_is_refused_before_it_is_asked(
    options: tuple[str, str], named: str
) -> None:
    fleet = ("--tracker", "127.0.0.1:1", "--key", "nobody")
    found = tvm_ios("optimize", "inception_block", *fleet, *options)
    assert found.code == 2
    assert named in found.stderr
