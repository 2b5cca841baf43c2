"""Sweeps on a real cluster of Ray, all of it on the loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import tvm_ios_process
from tests.onnx_sketch import save_small
from tests.sweep.sweep_package import odd_policies, sweep_file

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

#: 127.0.0.1, ::ffff:127.0.0.1 and ::1, as the kernel writes them.
_LOOPBACK_ADDRESSES = {
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
}
#: What :mod:`tvm_ios.sweep.runners.on_ray` tells a cluster of its own.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with odd_policies(tmp_path, monkeypatch) as folder:
        yield folder


def swept(file: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    outcome = tvm_ios_process("sweep", file, "-o", file.parent / "out", "--json", *arguments)
    assert outcome.code == code, outcome.stderr
    assert outcome.stdout.count("\n") == 1
    return json.loads(outcome.stdout)


def test_a_killed_worker_and_what_was_finished_before(tmp_path: Path, notes: Path) -> None:
    models = ["lstm_small"]
    swept(sweep_file(tmp_path, models=models, policies=["counts"]), "--workers", 1)
    policies = ["counts", "dies-once", "dies", "fails", "ios-both"]
    file = sweep_file(
        tmp_path, models=models, batches=[1, 2], policies=policies, crossings=["batches"],
        exclude=[{"policy": ["dies-once", "fails", "dies"], "batch": 2}],
    )  # fmt: skip
    result = swept(file, "--address", "local", "--workers", 2, code=1)
    errors = {row["policy"]: row["error"] for row in result["rows"] if row["error"]}
    assert errors.keys() == {"dies", "fails"}
    assert "killed" in errors["dies"]
    assert len((notes / "dies-once").read_text().splitlines()) == 2
    assert len({row["worker"] for row in result["rows"] if row["worker"]}) > 1
    crossings = [row for row in result["rows"] if row["kind"] == "crossing"]
    assert len(crossings) == 2
    assert all(row["to_specialised"] > 0 for row in crossings)
    # As without Ray, by the same keys.
    shutil.rmtree(tmp_path / "out")
    (notes / "dies-once").unlink()
    without = swept(file, "--workers", 2, code=1)
    figures = ("kind", "policy", "batch", "made_for_batch", "key", "latency_ms", "stages")
    assert [[row[f] for f in figures] for row in result["rows"]] == [
        [row[f] for f in figures] for row in without["rows"]
    ]


def test_all_of_it_listens_on_the_loopback(tmp_path: Path, notes: Path) -> None:
    file = sweep_file(tmp_path, policies=["waits"])
    command = [sys.executable, "-m", "tvm_ios", "sweep", str(file), "-o", str(tmp_path / "out")]
    process = subprocess.Popen([*command, "--address", "local"], stderr=subprocess.PIPE, text=True)
    try:
        while not (notes / "waits").exists():
            assert process.poll() is None, process.communicate()[1]
        ours = _family(process.pid)
        assert int((notes / "waits").read_text().split()[0]) in ours
        listening = {address for pid in ours for address in _listening(pid)}
        assert listening
        assert listening <= _LOOPBACK_ADDRESSES, listening
    finally:
        process.kill()
        process.communicate()


def test_a_cluster_that_is_there(tmp_path: Path, notes: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "home"
    environment = {**os.environ, **_LOOPBACK, "HOME": str(home), "RAY_AUTH_MODE": "disabled"}
    ray = Path(sys.executable).with_name("ray")
    start = [ray, "start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    start += ['--resources={"fleet:a": 1}', f"--temp-dir=/tmp/r{port}", "--disable-usage-stats"]
    # It stays in the group of a shell of its own, which is ended below.
    done = subprocess.Popen(
        [*map(str, start), "--block"], env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert done.stdout is not None
        for line in done.stdout:
            if re.search("Ray runtime started", line):
                break
        save_small(tmp_path)
        file = sweep_file(tmp_path, models=["small.onnx", "lstm_small"], policies=["ios-both"])
        with pytest.MonkeyPatch.context() as patch:
            for name in ("RAY_AUTH_MODE", *_LOOPBACK):
                patch.setenv(name, environment[name])
            result = swept(file, "--address", f"127.0.0.1:{port}")
            assert result["failed"] == 0
            (tmp_path / "small.onnx").write_bytes(b"no model")
            failed = swept(file, "--address", f"127.0.0.1:{port}", code=1)
            (error,) = (row["error"] for row in failed["rows"] if row["error"])
            # As the user knows the file, not as the worker does.
            assert str(tmp_path / "small.onnx") in error
            file = sweep_file(tmp_path, devices=["here"])
            command = ("sweep", file, "-o", tmp_path / "out", "--address", f"127.0.0.1:{port}")
            tvm_ios_process(*command).refuses("here", "ray start")
    finally:
        done.terminate()
        done.communicate(timeout=60)
        shutil.rmtree(f"/tmp/r{port}", ignore_errors=True)


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    command = ("sweep", sweep_file(tmp_path), "-o", tmp_path / "out", "--address")
    tvm_ios_process(*command, "127.0.0.1:1").refuses("127.0.0.1:1")


def _family(parent: int) -> set[int]:
    """A process and all that come from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {parent}
    while more := {pid for pid, up in parents.items() if up in found} - found:
        found |= more
    return found


def _listening(pid: int) -> Iterator[str]:
    """The addresses, as the kernel writes them, at which a process listens."""
    try:
        inodes = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                yield fields[1].partition(":")[0]
