"""Relax text as tests check it."""

from __future__ import annotations

import re
from pathlib import Path

import tvm

from tests.file_check import check_text

_TENSOR = re.compile(r'R\.Tensor\(\(([^()]*)\), dtype="float32"\)')
_CONSTANT = re.compile(r'metadata\["ir\.GenericConst"\]\[\d+\]')


def filecheck(module: tvm.IRModule, checks: str, folder: Path) -> None:
    """Fail unless the module's text has what the ``CHECK`` lines say.

    Types are shortened to ``f32(1, 3, 8, 8)`` and constants to ``const``, for legibility.
    """
    text = _TENSOR.sub(lambda match: f"f32({match[1].rstrip(',')})", module.script())
    check_text(_CONSTANT.sub("const", text), checks, folder)
