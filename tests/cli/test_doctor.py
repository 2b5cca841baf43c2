"""``doctor``, where all is well and where it is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_process


def test_json() -> None:
    result = tvm_ios("doctor", "--json").json
    assert list(result) == ["checks", "problems", "warnings"]
    assert result["problems"] == 0, result
    names = [check["name"] for check in result["checks"]]
    wanted = {"python", "compiler", "processor", "lanes", "gpu", "cache", "kernel"}
    assert wanted <= set(names)
    for check in result["checks"]:
        assert list(check) == ["name", "status", "detail", "remedy"]
        assert bool(check["remedy"]) == (check["status"] != "ok")


def test_a_missing_tvm_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself must not need what it looks for, nor what it looks with."""
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("raise ImportError('no [tvm] here')\n")
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "__init__.py").write_text("raise ImportError('nor packaging')\n")
    before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *before]))
    table = tvm_ios("doctor")
    assert table.code == 1
    assert "no [tvm] here" in table.stdout
    assert "Traceback" not in table.stderr
    outcome = tvm_ios_process("doctor", "--json")
    assert outcome.code == 1
    problems = [c for c in json.loads(outcome.stdout)["checks"] if c["status"] == "problem"]
    assert [check["name"] for check in problems] == ["python", "packages", "tvm", "kernel"]
    assert "nor packaging" in problems[0]["detail"]
