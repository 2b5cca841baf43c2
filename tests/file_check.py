"""Checks of text, by the ``filecheck`` package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent


def check_text(text: str, checks: str, folder: Path) -> None:
    """Fail unless a text has what the ``CHECK`` lines say."""
    ir, wanted = folder / "ir.txt", folder / "check.txt"
    ir.write_text(text)
    wanted.write_text(dedent(checks))
    command = [sys.executable, "-m", "filecheck", str(wanted), "--input-file", str(ir)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
