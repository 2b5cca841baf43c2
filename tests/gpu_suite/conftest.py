"""Preparing the suite without what takes minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import benchmarks.gpus.suite.prepare


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``prepare.py`` without what is fetched or takes long to pack."""
    module = benchmarks.gpus.suite.prepare
    (tmp_path / "libnative.so").touch()
    monkeypatch.setenv("TVM_IOS_NATIVE_LIB", str(tmp_path / "libnative.so"))
    monkeypatch.setattr(module, "_fetch_wheels", lambda *_: None)
    monkeypatch.setattr(module, "_pack_tvm_runtime", lambda *_: None)
    return module
