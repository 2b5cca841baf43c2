"""Preparing the suite without what takes minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``prepare.py`` without what is fetched or takes long to pack."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    (tmp_path / "libnative.so").touch()
    monkeypatch.setenv("TVM_IOS_NATIVE_LIB", str(tmp_path / "libnative.so"))
    import gpu_suite.prepare as module

    monkeypatch.setattr(module, "_fetch_wheels", lambda *_: None)
    monkeypatch.setattr(module, "_pack_tvm_runtime", lambda *_: None)
    return module
