"""Checks of Relay text, by the ``filecheck`` package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import tvm

_COMMENT = re.compile(r" ?/\*.*?\*/")
_TENSOR = re.compile(r"Tensor\[\(([^()]*)\), float32\]")
_CONSTANT = re.compile(r"meta\[relay\.Constant\]\[\d+\]")


def filecheck(module: tvm.IRModule, checks: str, folder: Path) -> None:
    """Fail unless the text of ``main`` has what the ``CHECK`` lines say.

    Types are shortened to ``f32(1, 3, 8, 8)`` and constants to ``const``, for legibility.
    """
    text = _COMMENT.sub("", module["main"].astext(show_meta_data=False))
    text = _TENSOR.sub(lambda found: f"f32({found[1].rstrip(',')})", text)
    ir, wanted = folder / "ir.txt", folder / "check.txt"
    ir.write_text(_CONSTANT.sub("const", text))
    wanted.write_text(dedent(checks))
    command = [sys.executable, "-m", "filecheck", str(wanted), "--input-file", str(ir)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
