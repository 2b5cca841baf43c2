"""Files are replaced whole or stay as they were."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_ios.files.array_files import save_tensors
from tvm_ios.files.atomic import require_writable, temporary_folder, write_atomically
from tvm_ios.files.locks import locked


def test_writes_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file.json"]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_others_may_read_what_the_umask_lets_them(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"x")
        save_tensors({"x": np.ones(3)}, tmp_path / "tensors")
        with locked(tmp_path / "lines", AssertionError()):
            pass
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("file", "tensors", "lines"), 0o666 & ~mask)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_no_litter(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_the_old_content_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    link, path = tmp_path / "link", tmp_path / "folder" / "file"
    link.symlink_to(path)
    for data in (b"first", b"second"):
        require_writable(link)
        write_atomically(link, data)
        assert link.is_symlink()
        assert path.read_bytes() == data
    assert os.listdir(path.parent) == ["file"]


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, link):
        require_writable(path)
        write_atomically(path, b"through")
        assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_device_that_takes_nothing_is_named(tmp_path: Path) -> None:
    # By a link, so that a failure of this test cannot replace the device.
    (tmp_path / "full").symlink_to("/dev/full")
    require_writable(tmp_path / "full")
    with pytest.raises(OSError, match=r"No space left on device: .*/full"):
        write_atomically(tmp_path / "full", b"x")


def test_a_folder_in_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file" / "inner", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


KILLED = """
import os, sys
from pathlib import Path
from tvm_ios.files.atomic import temporary_folder
with temporary_folder(Path(sys.argv[1]), ".out.") as folder:
    (folder / "half").write_text("of a file")
    os.kill(os.getpid(), int(sys.argv[2]))
"""


def run_killed(folder: Path, number: int) -> None:
    command = [sys.executable, "-c", KILLED, str(folder), str(number)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    assert subprocess.run(command, env=environment).returncode == -number


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    run_killed(tmp_path, signal.SIGKILL)
    run_killed(tmp_path, signal.SIGKILL)
    # The second swept what the first had left.
    (left,) = tmp_path.iterdir()
    assert (left / "half").exists()
    with temporary_folder(tmp_path, ".other."):
        assert left.exists()
    write_atomically(tmp_path / "out", b"whole")
    assert os.listdir(tmp_path) == ["out"]


def test_folders_in_use_and_folders_of_users_stay(tmp_path: Path) -> None:
    (tmp_path / ".out.mine").mkdir()
    (tmp_path / ".out.mine" / "thesis.txt").write_text("years of work")
    with (
        temporary_folder(tmp_path, ".out.") as first,
        temporary_folder(tmp_path, ".out.") as second,
    ):
        assert first != second
        assert first.is_dir()
        assert second.is_dir()
    assert os.listdir(tmp_path) == [".out.mine"]
    assert (tmp_path / ".out.mine" / "thesis.txt").exists()


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a[b]*?", b"x")
    with temporary_folder(tmp_path, ".a*.") as folder:
        write_atomically(tmp_path / "a*", b"y")
        assert folder.is_dir()


def _use_many(folder: Path, failures: Any) -> None:
    try:
        for _ in range(150):
            with temporary_folder(folder, "new-") as room:
                (room / "file").write_text("x")
                assert (room / "file").read_text() == "x"
    except BaseException as error:
        failures.put(repr(error))
        raise


def test_processes_do_not_sweep_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    failures = context.Queue()
    processes = [context.Process(target=_use_many, args=(tmp_path, failures)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0, failures.get()
    assert not os.listdir(tmp_path)


def test_a_full_disk_is_named_and_leaves_the_old_content(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from tvm_ios.files.atomic import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(Path(sys.argv[1]), bytes(2000))
except OSError as error:
    print(error.filename, error.strerror, sep="|")
"""
    (tmp_path / "file").write_bytes(b"old")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", script, str(tmp_path / "file")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{tmp_path / 'file'}|File too large\n"
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".", "Is a directory"),
        ("file/inner", "Not a directory"),
        ("file/inner/deeper", "Not a directory"),
        ("/proc/file", "No such file"),
    ],
)
def test_what_cannot_be_written_is_known_before(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match=sentence):
        require_writable(tmp_path / name)
    require_writable(tmp_path / "new" / "file")
    require_writable(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert not os.listdir(tmp_path / "new")
