import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from runtime_ext.execution.executable import Executable, load
from runtime_ext.native_errors import ExecutableError
from tests.execution.chain_executable import chain_executable
from tests.execution.small_executable import FILES, IMAGE, change
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.files import swapping
from tvm_ios.schedule.schedule import Schedule


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return chain_executable(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def saved(executable: Executable, tmp_path: Path) -> Path:
    executable.save(tmp_path / "out")
    return tmp_path / "out"


def outputs(executable: Executable) -> dict[str, np.ndarray]:
    session = executable.session()
    session.run(image=IMAGE)
    return {port.name: session.get_output(port.name) for port in session.outputs}


def test_computes_what_the_kernels_say(executable: Executable) -> None:
    computed = outputs(executable)
    w = executable.constants
    first = IMAGE * w["u0/1"] + 1
    np.testing.assert_allclose(computed["first"], first, rtol=1e-5)
    last = ((first * w["u1/1"] + 1) * w["u2/1"] + 1) * w["u3/1"] + 1
    np.testing.assert_allclose(computed["last"], last, rtol=1e-5, atol=1e-5)


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
    with np.load(tmp_path / "found.npz") as computed:
        expected = outputs(executable)
        assert set(computed.files) == set(expected) == {"first", "last"}
        for key, value in expected.items():
            np.testing.assert_array_equal(computed[key], value)


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


def _unwait(program: Any) -> None:
    program["lanes"] = [[item for item in lane if item[0] != "wait"] for lane in program["lanes"]]


def _overlap(plan: Any) -> None:
    plan["offsets"] = [min(byte, 0) for byte in plan["offsets"]]


@pytest.mark.parametrize(
    ("file", "edit", "named"),
    [
        ("meta.json", lambda m: m.pop("target") and None, ["'target'"]),
        ("program.json", _unwait, ["buffer"]),
        ("memory.json", _overlap, ["'t2'", "'t3'", "'u2'"]),
    ],
)
def test_what_tvms_runtime_need_not_know_is_looked_at_too(
    saved: Path, file: str, edit: Callable[[Any], object], named: list[str]
) -> None:
    change(saved, file, edit)
    with refused(ExecutableError, saved, *named):
        load(saved)


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
        with refused(ExecutableError, name, "damaged"):
            load(saved)
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
    change(
        saved,
        "program.json",
        lambda p: p["buffers"].append(["huge", [1 << 58], "float32", "scratch"]),
    )
    change(saved, "memory.json", lambda p: p["offsets"].append(0))
    change(saved, "memory.json", lambda p: p.update(nbytes=1 << 61))
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


@pytest.mark.parametrize("exchanges", [True, False])
def test_there_is_always_one_whole_executable(
    executable: Executable, saved: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced in one step where the file system can, in two where it cannot."""
    seen: list[bool] = []
    exchange = swapping._exchange

    def watched(one: Path, other: Path) -> bool:
        seen.append(exchanges and exchange(one, other))
        return seen[-1]

    monkeypatch.setattr(swapping, "_exchange", watched)
    replace(executable, target="another").save(saved)
    assert seen == [exchanges]
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
