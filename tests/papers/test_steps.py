"""Steps are computed once, and again when what they depend on has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvm_ios.devices.device import load_device
from tvm_ios.papers import sources
from tvm_ios.papers.steps import Steps

CALLS: list[tuple[Any, ...]] = []


def called(*arguments: Any) -> dict[str, Any]:
    CALLS.append(arguments)
    return {"arguments": arguments, "calls": len(CALLS)}


@pytest.fixture(autouse=True)
def _unchanged_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a working tree may be younger than the process."""
    CALLS.clear()
    monkeypatch.setattr(sources, "_BEGUN", float("inf"))


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


@pytest.mark.parametrize("key", ["sources", "surroundings"])
def test_what_holds_no_more_is_computed_again(tmp_path: Path, key: str) -> None:
    Steps(tmp_path).once(called, 1)
    data = json.loads(record(tmp_path).read_text())
    changed = {"tvm_ios/errors.py": "other"} if key == "sources" else {"machine": "other"}
    data[key] |= changed
    record(tmp_path).write_text(json.dumps(data))
    assert Steps(tmp_path).once(called, 1)["calls"] == 2


def test_other_systems_may_change(tmp_path: Path) -> None:
    Steps(tmp_path).once(called, 1)
    data = json.loads(record(tmp_path).read_text())
    data["sources"] |= {"tvm_ios/papers/row.py": "other", "tvm_ios/papers/ios/rows.py": "other"}
    record(tmp_path).write_text(json.dumps(data))
    assert Steps(tmp_path).once(called, 1)["calls"] == 1


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]"])
def test_damaged_records_are_computed_again(tmp_path: Path, content: bytes) -> None:
    Steps(tmp_path).once(called, 1)
    record(tmp_path).write_bytes(content)
    assert Steps(tmp_path).once(called, 1)["calls"] == 2


def test_nothing_is_kept_of_code_that_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_BEGUN", 0.0)
    Steps(tmp_path).once(called, 1)
    assert not list(tmp_path.glob("*.json"))


def test_data_that_is_read_is_a_source() -> None:
    load_device("k80")
    loaded = sources.loaded_sources()
    assert loaded is not None
    assert "tvm_ios/devices/device_data/k80.json" in loaded


def test_sources_are_those_that_are_loaded() -> None:
    loaded = sources.loaded_sources()
    assert loaded is not None
    assert {"tvm_ios/papers/steps.py", "tvm_ios/__init__.py"} <= loaded.keys()
    assert sources.are_unchanged(loaded)
    assert not sources.are_unchanged({"tvm_ios/no_such_module.py": ""})
