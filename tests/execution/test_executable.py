import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from safetensors.numpy import load_file
from tvm.script import tirx as T

from runtime_ext.execution import package
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.package import seal
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import host_flags, missing_features, required_features
from runtime_ext.native_errors import ExecutableError
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.schedule.schedule import Schedule, sequential_stages

FILES = [
    "SHA256SUMS",
    "kernels.so",
    "memory.json",
    "meta.json",
    "model.tvm_ios",
    "params.safetensors",
    "program.json",
    "schedule.json",
]
SHAPE = (8, 4)
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}


@T.prim_func
def scale_add(
    x: T.Buffer((8, 4), "float32"),
    w: T.Buffer((8, 4), "float32"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "scale_add", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = x[begin + i, j] * w[begin + i, j] + T.float32(1)


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    """Four equal units in a chain, two of them with equal weights."""
    library = tmp_path_factory.mktemp("kernels") / "k.so"
    module = tvm.IRModule({"scale_add": scale_add})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    tensors = (
        *(Tensor(f"t{i}", SHAPE) for i in range(5)),
        *(Tensor(f"w{i}", SHAPE, constant=True) for i in range(4)),
    )
    operators = tuple(Operator(f"u{i}", "scale_add", (i, 5 + i), (i + 1,)) for i in range(4))
    graph = OpGraph("chain", operators, tensors, (0,), (4, 1))
    kind = BufferType(SHAPE)
    code = UnitCode((kind,) * 3, 1, (), (PhaseCall("scale_add", 8, (0, 1, 2)),))
    schedule = Schedule(graph.fingerprint, sequential_stages(graph), policy="sequential")
    weights = np.random.default_rng(0).standard_normal((3, *SHAPE)).astype("float32")
    program = lower(graph, schedule, dict.fromkeys(range(4), code), lanes=2)
    names = ("u0/1", "u1/1", "u2/1", "u3/1")
    return Executable(
        program=program,
        plan=plan_memory(program).plan,
        kernels=library,
        constants=dict(zip(names, (*weights, weights[0].copy()), strict=True)),
        inputs=(Port("image", "t0", SHAPE, "float32"),),
        outputs=(Port("last", "t4", SHAPE, "float32"), Port("first", "t1", SHAPE, "float32")),
        schedule=schedule.to_json(graph),
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint=graph.fingerprint,
        notes={"latency_ms": 1.5, "tuple": (1, 2)},
    )


@pytest.fixture
def saved(executable: Executable, tmp_path: Path) -> Path:
    executable.save(tmp_path / "out")
    return tmp_path / "out"


IMAGE = np.arange(32, dtype="float32").reshape(SHAPE) / 7


def outputs(executable: Executable) -> dict[str, np.ndarray]:
    session = executable.session()
    session.run(image=IMAGE)
    return {port.name: session.get_output(port.name) for port in session.outputs}


def test_computes_what_the_kernels_say(executable: Executable) -> None:
    found = outputs(executable)
    w = executable.constants
    first = IMAGE * w["u0/1"] + 1
    np.testing.assert_allclose(found["first"], first, rtol=1e-5)
    last = ((first * w["u1/1"] + 1) * w["u2/1"] + 1) * w["u3/1"] + 1
    np.testing.assert_allclose(found["last"], last, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_a_new_process_gives_equal_outputs(
    executable: Executable, tmp_path: Path, name: str
) -> None:
    executable.save(tmp_path / name)
    np.save(tmp_path / "image.npy", IMAGE)
    script = """
import sys
import numpy as np
from runtime_ext.execution.executable import load
session = load(sys.argv[1]).session()
session.set_input(None, np.load(sys.argv[2]))
session.run()
np.savez(sys.argv[3], **{p.name: session.get_output(p.name) for p in session.outputs})
"""
    arguments = [tmp_path / name, tmp_path / "image.npy", tmp_path / "found.npz"]
    subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        check=True,
        timeout=900,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    with np.load(tmp_path / "found.npz") as found:
        expected = outputs(executable)
        assert set(found.files) == set(expected) == {"first", "last"}
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value)


def test_everything_comes_back(executable: Executable, saved: Path) -> None:
    assert sorted(f.name for f in saved.iterdir()) == FILES
    assert len(load_file(saved / "params.safetensors")) == 3
    loaded = load(saved)
    for name in ("program", "plan", "inputs", "outputs", "target", "features", "fingerprint"):
        assert getattr(loaded, name) == getattr(executable, name)
    assert loaded.notes == {"latency_ms": 1.5, "tuple": [1, 2]}
    assert loaded.constants["u0/1"] is loaded.constants["u3/1"]
    assert load(saved).constants["u0/1"] is loaded.constants["u0/1"]
    assert Schedule.from_json(loaded.schedule).policy == "sequential"


def test_saving_again_replaces_and_leaves_nothing(executable: Executable, tmp_path: Path) -> None:
    for name in ("out", "out.tar"):
        executable.save(tmp_path / name)
        replace(executable, target="another").save(tmp_path / name)
        assert load(tmp_path / name).target == "another"
    # A loaded one can be saved over itself.
    load(tmp_path / "out").save(tmp_path / "out")
    load(tmp_path / "out.tar").save(tmp_path / "out.tar")
    assert outputs(load(tmp_path / "out")).keys() == {"first", "last"}
    assert {f.name for f in tmp_path.iterdir()} == {"out", "out.tar"}


def test_foreign_files_are_not_overwritten(executable: Executable, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "mine.tar").write_text("not even a tar")
    (tmp_path / "file").write_text("a file")
    for name in ("mine", "mine.tar", "file"):
        with refused(ExecutableError, tmp_path / name):
            executable.save(tmp_path / name)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "empty").mkdir()
    executable.save(tmp_path / "empty")
    load(tmp_path / "empty")


def test_a_failed_save_leaves_the_old_one(executable: Executable, saved: Path) -> None:
    broken = replace(executable, kernels=saved / "no such file")
    with refused(ExecutableError, saved):
        broken.save(saved)
    assert [f.name for f in saved.parent.iterdir()] == ["out"]
    load(saved)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_refused(saved: Path, name: str, place: float) -> None:
    data = bytearray((saved / name).read_bytes())
    data[int(len(data) * place)] ^= 1
    (saved / name).write_bytes(bytes(data))
    # Of what the sums say another file is not as it is said to be.
    refuses(saved, saved if name == "SHA256SUMS" else name)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: len(data) // 2])
    refuses(saved, saved if name == "SHA256SUMS" else name)
    (saved / name).unlink()
    refuses(saved, name, "lacks")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: m | {"version": 99}, ("version 99", 4)),
        (lambda m: m | {"format": "a poem"}, ("not a tvm-ios executable",)),
        (lambda m: m | {"machine": "riscv64"}, ("riscv64",)),
        (lambda m: m | {"features": ["warp-drive"]}, ("warp-drive",)),
        (
            lambda m: m | {"versions": m["versions"] | {"apache-tvm": "0.99.1"}},
            ("apache-tvm 0.99.1",),
        ),
        (lambda m: {k: v for k, v in m.items() if k != "target"}, ("'target'",)),
        (lambda m: m | {"inputs": [{"name": "x"}]}, ("'buffer'",)),
        (lambda m: m["constants"].pop("u1/1") and m, ("'u1/1'",)),
        (lambda m: m | {"constants": dict.fromkeys(m["constants"], "0")}, ("'u0/1'",)),
    ],
)
def test_what_does_not_fit_here_is_refused(
    saved: Path, change: Callable[[dict], dict], named: tuple[object, ...]
) -> None:
    meta = change(json.loads((saved / "meta.json").read_text()))
    (saved / "meta.json").write_text(json.dumps(meta))
    seal(saved)
    refuses(saved, *named)


def test_a_lesser_cpu_is_refused(executable: Executable, tmp_path: Path) -> None:
    features = required_features({"kind": "llvm", "mcpu": "x86-64-v4"})
    assert {"avx2", "fma", "avx512f"} <= set(features)
    # No machine has all of them.
    wanted = ("sse4.2", "avx512fp16", "amx-tile", "avx512bf16")
    names = {"avx512fp16": "avx512_fp16", "amx-tile": "amx_tile", "avx512bf16": "avx512_bf16"}
    missing = tuple(n for n in wanted if n in names and names[n] not in host_flags())
    assert missing_features(wanted) == missing
    assert missing_features(()) == ()
    if not missing:
        pytest.skip("this machine has all features that are looked for")
    replace(executable, features=wanted).save(tmp_path / "out")
    refuses(tmp_path / "out", "CPU", ", ".join(missing))


def test_no_tar_half_a_tar_and_no_file_are_refused(executable: Executable, tmp_path: Path) -> None:
    refuses(tmp_path / "nothing", tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    refuses(tmp_path / "folder", "meta.json")
    executable.save(tmp_path / "x.tar")
    data = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "x.tar").write_bytes(data[: len(data) // 3])
    refuses(tmp_path / "x.tar", tmp_path / "x.tar")
    (tmp_path / "text.tar").write_text("hello")
    refuses(tmp_path / "text.tar", "text.tar", "tar file")
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo("../escaped")
        tar.addfile(member)
    refuses(tmp_path / "evil.tar", "'../escaped'")
    assert not (tmp_path.parent / "escaped").exists()


def refuses(path: Path, *named: object) -> None:
    with refused(ExecutableError, *named):
        load(path)


def sealed(saved: Path, change: Callable[[Any], object], name: str = "program.json") -> None:
    """Change a file, and make the checksums right again."""
    content = json.loads((saved / name).read_text())
    change(content)
    (saved / name).write_text(json.dumps(content))
    seal(saved)


def _unwait(program: Any) -> None:
    program["lanes"] = [[item for item in lane if item[0] != "wait"] for lane in program["lanes"]]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_unwait, ("buffer",)),
        (lambda p: p["lanes"][0][0].__setitem__(4, 9), ("0 to 9", "'scale_add'")),
        (lambda p: p["lanes"][1].insert(0, ["wait", 1, 1]), ("cycle",)),
        (lambda p: p["lanes"][0].append(["wait", 7, 1]), ("lane 7",)),
        (lambda p: p["lanes"][0].append(["wait", 0.5, 1]), ("count",)),
        (lambda p: p.update(lanes=[]), ("lane",)),
    ],
)
def test_programs_that_cannot_run_are_refused(
    saved: Path, change: Callable[[Any], object], named: tuple[object, ...]
) -> None:
    sealed(saved, change)
    refuses(saved, *named)


def _overlap(plan: Any) -> None:
    plan["offsets"] = [min(byte, 0) for byte in plan["offsets"]]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_overlap, ("'t2'", "'t3'", "'u2'")),
        (lambda p: p.update(nbytes=64), ("buffer", 64)),
        (lambda p: p.update(version=2), ("memory plan of version 1",)),
        (lambda p: p["offsets"].pop(), ("memory plan", "program", "buffers")),
        (lambda p: p["offsets"].append(-1), ("memory plan", "program", "buffers")),
        (lambda p: p["offsets"].__setitem__(0, 0), ("memory plan", "program", "buffers")),
        (
            lambda p: p.update(offsets=[-1] * len(p["offsets"])),
            ("memory plan", "program", "buffers"),
        ),
        (lambda p: p.update(offsets=[b + (b >= 0) for b in p["offsets"]]), ("byte 1",)),
        (lambda p: p["offsets"].__setitem__(0, -2), ("count",)),
        (lambda p: p.pop("nbytes"), ("'nbytes'",)),
        (lambda p: p.update(offsets=3), ("list",)),
    ],
)
def test_memory_plans_that_spoil_buffers_are_refused(
    saved: Path, change: Callable[[Any], object], named: tuple[object, ...]
) -> None:
    sealed(saved, change, "memory.json")
    refuses(saved, *named)


def test_a_file_that_is_not_sealed_is_not_read(saved: Path) -> None:
    lines = (saved / "SHA256SUMS").read_text().splitlines(keepends=True)
    (saved / "SHA256SUMS").write_text("".join(x for x in lines if "kernels.so" not in x))
    refuses(saved, "kernels.so")


def as_version_3(saved: Path) -> None:
    """The checksums in meta.json, the last one of Python's own text of the rest."""
    meta = json.loads((saved / "meta.json").read_text())
    (saved / "SHA256SUMS").unlink()
    files = [file for file in sorted(saved.iterdir()) if file.name != "meta.json"]
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    meta |= {"version": 3, "files": sums}
    text = json.dumps(meta, sort_keys=True)
    meta["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (saved / "meta.json").write_text(json.dumps(meta, indent=1))


def test_what_was_saved_as_version_3_is_read(executable: Executable, saved: Path) -> None:
    as_version_3(saved)
    loaded = load(saved)
    assert loaded.program == executable.program
    np.testing.assert_array_equal(outputs(loaded)["last"], outputs(executable)["last"])
    # It may be replaced, as a package of today may.
    loaded.save(saved)
    assert sorted(f.name for f in saved.iterdir()) == FILES
    for name in set(FILES) - {"SHA256SUMS", "meta.json"}:
        as_version_3(saved)
        (saved / name).write_bytes((saved / name).read_bytes() + b"more")
        refuses(saved, name, "damaged")
        loaded.save(saved)


def test_sha256sum_finds_all_sound(saved: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum")
    checked = subprocess.run(
        ["sha256sum", "--strict", "-c", "SHA256SUMS"],
        cwd=saved,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line.partition(":")[0] for line in checked.stdout.splitlines()] == FILES[1:]


def test_more_files_are_left_alone(executable: Executable, saved: Path) -> None:
    (saved / "README").write_text("mine")
    load(saved)
    with refused(ExecutableError, "out"):
        executable.save(saved)
    assert (saved / "README").read_text() == "mine"


def test_a_buffer_larger_than_the_machine_is_refused(saved: Path) -> None:
    sealed(saved, lambda p: p["buffers"].append(["huge", [1 << 58], "float32", "scratch"]))
    sealed(saved, lambda p: p["offsets"].append(0), "memory.json")
    sealed(saved, lambda p: p.update(nbytes=1 << 61), "memory.json")
    with refused(UserError, "2305843009213693952 bytes"):
        load(saved).session()


def test_the_folder_of_a_tar_goes_with_its_executable(
    executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "x.tar")
    loaded = load(tmp_path / "x.tar")
    folder = loaded.kernels.parent
    assert folder.is_dir()
    del loaded
    assert not folder.exists()


@pytest.mark.parametrize("known", [True, False])
def test_there_is_always_one_whole_executable(
    executable: Executable, saved: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced in one step where the file system can, in two where it cannot."""
    seen: list[bool] = []
    exchange = package._exchange

    def watched(one: Path, other: Path) -> bool:
        seen.append(known and exchange(one, other))
        return seen[-1]

    monkeypatch.setattr(package, "_exchange", watched)
    replace(executable, target="another").save(saved)
    assert seen == [known]
    assert load(saved).target == "another"
    assert [f.name for f in saved.parent.iterdir()] == [saved.name]


_SAVER = """
import sys
from runtime_ext.execution.executable import load
executable = load(sys.argv[1])
for _ in range(30):
    executable.save(sys.argv[2])
"""


def test_two_processes_save_to_one_place(saved: Path, tmp_path: Path) -> None:
    there = tmp_path / "shared"
    load(saved).save(there)
    command = [sys.executable, "-c", _SAVER, str(saved), str(there)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    savers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    while any(saver.poll() is None for saver in savers):
        # It may be replaced while it is read, but it is never gone or half of one.
        assert (there / "meta.json").exists()
    assert [saver.returncode for saver in savers] == [0, 0]
    load(there)
    assert {f.name for f in tmp_path.iterdir()} == {saved.name, "shared"}
