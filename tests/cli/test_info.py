"""``tvm-ios info``: of executables of this machine and of others, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime_ext.execution.executable import Executable
from tests.cli.command_line import tvm_ios
from tests.execution.small_executable import change, small_executable


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return small_executable(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_what_an_executable_is(name: str, executable: Executable, tmp_path: Path) -> None:
    path = tmp_path / name
    executable.save(path)
    found: dict[str, Any] = tvm_ios("info", path, "--json").json
    ports = [{"name": p.name, "shape": list(p.shape), "dtype": p.dtype} for p in executable.inputs]
    assert found["inputs"] == ports
    assert found["lanes"] == len(executable.program.lanes)
    assert found["kernels"] == len(executable.program.kernels)
    assert found["arena_bytes"] == executable.plan.nbytes
    assert set(found["versions"]) == {"apache-tvm", "apache-tvm-ffi"}
    assert found["files"]["kernels.so"] == executable.kernels.stat().st_size
    assert found["problem"] is None
    shown = tvm_ios("info", path)
    assert shown.code == 0
    assert "it runs on this machine" in shown.stdout
    assert all(port["name"] in shown.stdout for port in ports)


def test_one_of_another_machine(executable: Executable, tmp_path: Path) -> None:
    path = tmp_path / "out"
    executable.save(path)
    change(path, "meta.json", lambda meta: meta | {"machine": "riscv64"})
    assert "riscv64" in tvm_ios("info", path, "--json").json["problem"]
    assert "does not run on this machine" in tvm_ios("info", path).stdout


def test_what_is_none_is_refused(executable: Executable, tmp_path: Path) -> None:
    tvm_ios("info", tmp_path).refuses(tmp_path, "not an executable")
    tvm_ios("info", tmp_path / "nothing").refuses(tmp_path / "nothing")
    tvm_ios("info", "squeezenet").refuses("tvm-ios optimize")
    executable.save(tmp_path / "out")
    file = tmp_path / "out" / "program.json"
    file.write_bytes(file.read_bytes()[:-9])
    tvm_ios("info", tmp_path / "out").refuses("program.json", "damaged")
