"""The trial in another process, with what it needs broken in turn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime_ext.doctor import compiled_code
from runtime_ext.doctor.check import Check, Status
from runtime_ext.doctor.compiled_code import check_compiled_code


def found() -> dict[str, Check]:
    return {check.name: check for check in check_compiled_code()}


def test_an_executor_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib.so").write_bytes(b"no library")
    monkeypatch.setenv("TVM_IOS_NATIVE_LIB", str(tmp_path / "lib.so"))
    checks = found()
    assert checks["tvm"].status is Status.OK
    assert checks["native executor"].status is Status.PROBLEM
    assert "TVM_IOS_NATIVE_LIB" in checks["native executor"].remedy
    assert checks["kernel"].status is Status.PROBLEM


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("raise ImportError('libtvm.so: undefined symbol')", "libtvm.so: undefined symbol"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import time; time.sleep(60)", "hangs"),
        ("print('a word on stdout'); raise RuntimeError('broken')", "RuntimeError: broken"),
    ],
)
def test_a_broken_tvm(
    code: str, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text(code + "\n")
    before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *before]))
    monkeypatch.setattr(compiled_code, "_SECONDS", 3 if "sleep" in code else 100)
    checks = found()
    assert checks["tvm"].status is Status.PROBLEM
    assert detail in checks["tvm"].detail
    assert "pip install" in checks["tvm"].remedy
    assert checks["kernel"].status is Status.PROBLEM


def test_the_runtime_needs_no_tvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("raise ImportError('not for running')\n")
    before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *before]))
    monkeypatch.setattr(compiled_code, "only_runs", lambda: True)
    checks = found()
    assert list(checks) == ["native executor", "program"]
    assert {check.status for check in checks.values()} == {Status.OK}, checks


def test_without_a_linker_no_kernel_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_code, "find_linker", lambda: None)
    checks = found()
    assert checks["tvm"].status is Status.OK
    assert checks["kernel"].status is Status.WARNING
    assert "tvm-ios[linker]" in checks["kernel"].remedy
