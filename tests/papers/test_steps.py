"""Steps are computed once, and again with another revision of the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import steps
from benchmarks.papers.steps import Steps, revision

CALLS: list[tuple[Any, ...]] = []


def called(*arguments: Any) -> dict[str, Any]:
    CALLS.append(arguments)
    return {"arguments": arguments, "calls": len(CALLS)}


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_a_step_is_computed_once_and_gives_plain_data(tmp_path: Path) -> None:
    first = Steps(tmp_path).once(called, "x", (1, 2))
    assert first == {"arguments": ["x", [1, 2]], "calls": 1}
    assert Steps(tmp_path).once(called, "x", (1, 2)) == first
    assert Steps(tmp_path).once(called, "x", (1, 3))["calls"] == 2


def test_anew_computes_once_more_and_only_once(tmp_path: Path) -> None:
    Steps(tmp_path).once(called, 1)
    anew = Steps(tmp_path, anew=True)
    assert anew.once(called, 1)["calls"] == 2
    assert anew.once(called, 1)["calls"] == 2


def record(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


def test_another_revision_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Steps(tmp_path).once(called, 1)
    monkeypatch.setattr(steps, "revision", lambda: "other")
    assert Steps(tmp_path).once(called, 1)["calls"] == 2


def test_code_and_data_make_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tvm_ios").mkdir()
    monkeypatch.setattr(steps, "_ROOT", tmp_path)
    found = []
    for content in ("1", "2", "1"):
        (tmp_path / "tvm_ios" / "device.json").write_text(content)
        found.append(revision.__wrapped__())
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]"])
def test_damaged_records_are_computed_again(tmp_path: Path, content: bytes) -> None:
    Steps(tmp_path).once(called, 1)
    record(tmp_path).write_bytes(content)
    assert Steps(tmp_path).once(called, 1)["calls"] == 2
