"""Packages that are damaged or do not fit, as Python loads them and as TVM's runtime does."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.machine.cpu_features import missing_features
from runtime_ext.native_errors import ExecutableError
from tests.execution.small_executable import FILES, OUTSIDE, change, plan
from tests.refusals import refused
from tvm_ios.files.atomic import temporary_folder

#: A user who owns nothing, by Linux's convention.
_NOBODY = 65534


def refuses(path: Path, *named: object) -> None:
    """As what Python runs, and as a module of TVM's runtime."""
    for load_either in (load, load_module):
        with refused(ExecutableError, *named):
            load_either(path)


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


def test_a_file_that_cannot_be_read_is_named(saved: Path) -> None:
    with temporary_folder() as folder:
        folder.chmod(0o755)
        shutil.copytree(saved, folder / "out")
        file = folder / "out" / "params.safetensors"
        file.chmod(0)
        # An administrator may read everything.
        before = os.geteuid()
        if before == 0:
            os.seteuid(_NOBODY)
        try:
            refuses(folder / "out", "cannot read", file, "Permission denied")
        finally:
            os.seteuid(before)


@pytest.mark.parametrize(
    ("file", "edit", "named"),
    [
        ("meta.json", lambda m: m | {"version": 99}, ["version 99"]),
        ("meta.json", lambda m: m | {"format": "a poem"}, ["not a tvm-ios executable"]),
        ("meta.json", lambda m: m | {"machine": "riscv64"}, ["riscv64"]),
        ("meta.json", lambda m: m | {"features": ["warp-drive"]}, ["warp-drive"]),
        (
            "meta.json",
            lambda m: m | {"versions": m["versions"] | {"apache-tvm-ffi": "0.99.1"}},
            ["apache-tvm-ffi 0.99.1"],
        ),
        ("meta.json", lambda m: {k: v for k, v in m.items() if k != "inputs"}, ["'inputs'"]),
        ("meta.json", lambda m: m | {"constants": {}}, ["'w'"]),
        ("meta.json", lambda m: m | {"constants": {"w": "0"}}, ["'w'"]),
        ("meta.json", lambda m: m | {"inputs": [{"name": "x"}]}, ["'buffer'"]),
        (
            "meta.json",
            lambda m: m | {"inputs": [m["inputs"][0] | {"buffer": "nose"}]},
            ["'image'", "'nose'"],
        ),
        (
            "meta.json",
            lambda m: m | {"inputs": [m["inputs"][0] | {"dtype": "float64"}]},
            ["'image'", "float64[8, 4]", "float32[8, 4]"],
        ),
        (
            "program.json",
            lambda p: p["buffers"][3].__setitem__(3, "intermediate"),
            ["memory plan", "program", "buffers"],
        ),
        ("program.json", lambda p: p.update(version=2), ["program of version 3"]),
        ("program.json", lambda p: p.update(lanes=[]), ["lane"]),
        ("program.json", lambda p: p.update(uses=[]), ["launched"]),
        ("program.json", lambda p: p["lanes"][0].insert(0, ["wait", 1, 2]), ["lane 0", "wait"]),
        ("program.json", lambda p: p["lanes"][0].append(["wait", 7, 1]), ["lane 7"]),
        ("program.json", lambda p: p["lanes"][0].append(["wait", 0.5, 1]), ["count"]),
        ("program.json", lambda p: p["lanes"][0].append(["launch", 0, [0]]), ["3 values"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(4, 9), ["0 to 9"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 1]), ["2 buffers"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 2, 0]), ["input"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 2, 99]), ["exist"]),
        ("program.json", lambda p: p["buffers"][4][4].__setitem__(0, 5), ["part"]),
        ("program.json", lambda p: p["buffers"][7].__setitem__(1, [1 << 61]), ["allocated"]),
        ("program.json", lambda p: p["buffers"][7].__setitem__(2, "handle"), ["'handle'"]),
        ("program.json", lambda p: p["buffers"][2].__setitem__(1, [32]), ["float32[32]"]),
        ("memory.json", plan(*OUTSIDE), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE, -1), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE[:-1], 0, 0), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE, 32), ["'spare'", "byte 32"]),
        ("memory.json", plan(*OUTSIDE, 256), ["'spare'", "byte 256 of 1024"]),
        ("memory.json", plan(version=2), ["memory plan of version 1"]),
        ("memory.json", plan(*OUTSIDE, 0, nbytes=64), ["'spare'", 64]),
        ("memory.json", plan(*OUTSIDE, 1), ["'spare'", "byte 1"]),
        ("memory.json", plan(*OUTSIDE, -2), ["count"]),
        ("memory.json", lambda p: p.update(offsets=3), ["list"]),
        ("memory.json", lambda p: p.pop("nbytes") and None, ["'nbytes'"]),
    ],
)
def test_what_does_not_fit_is_refused(
    saved: Path, file: str, edit: Callable[[Any], Any], named: Sequence[object]
) -> None:
    change(saved, file, edit)
    refuses(saved, *named)


def test_an_output_in_the_arena_is_refused(saved: Path) -> None:
    change(saved, "program.json", lambda p: p["buffers"][3].__setitem__(3, "intermediate"))
    change(saved, "memory.json", plan(-1, -1, -1, 0, *OUTSIDE[:3], 192))
    refuses(saved, "'inner'", "'both'")


def test_a_lesser_cpu_is_refused(saved: Path) -> None:
    """By what this machine lacks, and by what the loader has never heard of."""
    some = ["avx512fp16", "amx-tile", "avx512bf16"]
    missing = missing_features(some)
    names = [*some, "sse4.2", "avx1024f"]
    change(saved, "meta.json", lambda m: m | {"features": names})
    refuses(saved, "CPU", "avx1024f", *missing)


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


def test_a_file_that_is_not_sealed_is_not_read(saved: Path) -> None:
    lines = (saved / "SHA256SUMS").read_text().splitlines(keepends=True)
    (saved / "SHA256SUMS").write_text("".join(x for x in lines if "kernels.so" not in x))
    refuses(saved, "kernels.so")


@pytest.mark.parametrize(
    "garbage",
    [b"\xff", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2"],
)
def test_what_is_no_text_is_not_quoted(saved: Path, garbage: bytes) -> None:
    sums = saved / "SHA256SUMS"
    sums.write_bytes(sums.read_bytes().replace(b"kernels.so", b"kernels" + garbage))
    refuses(saved, sums.name)


def test_another_file_in_the_folder_is_named_before_it_is_replaced(
    saved: Path, executable: Executable
) -> None:
    (saved / "notes.txt").write_text("mine")
    with refused(ExecutableError, saved, "'notes.txt'", "move it away"):
        executable.save(saved)
    (saved / "notes.txt").unlink()
    executable.save(saved)


@pytest.mark.parametrize("name", ["m.zip", "m.tar.gz"])
def test_archives_that_are_not_written_are_refused(
    name: str, executable: Executable, tmp_path: Path
) -> None:
    with refused(ExecutableError, name, ".tar"):
        executable.save(tmp_path / name)
    assert not (tmp_path / name).exists()
