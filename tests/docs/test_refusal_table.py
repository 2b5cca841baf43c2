"""The table of refusals in the documentation is what the commands say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_table_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "make" / "refusals.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
