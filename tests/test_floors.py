"""No floor imports one above it (docs/architecture.md), nor what decides any TVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = re.compile(r"tvm_ios/(cli/|api/|bench|__main__)")
ABOVE = {
    "tvm_ios": r"tvm\b|tvm_ffi|runtime_ext|relay_passes|tvm_ios\.(cli|api|bench)",
    "runtime_ext": r"relay_passes|tvm_ios\.(cli|api|bench)",
    "relay_passes": r"tvm_ios\.(cli|api|bench)",
}


@pytest.mark.parametrize("floor", ABOVE)
def test_floors(floor: str) -> None:
    above = re.compile(rf"^ *(from|import) ({ABOVE[floor]})", re.MULTILINE)
    files = (ROOT / floor).rglob("*.py")
    lower = [file for file in files if not TOP.match(str(file.relative_to(ROOT)))]
    assert len(lower) > 50
    assert [file for file in lower if above.search(file.read_text())] == []
