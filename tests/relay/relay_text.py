"""Relay text as tests check it."""

from __future__ import annotations

import re
from pathlib import Path

import tvm

from tests.file_check import check_text

_COMMENT = re.compile(r" ?/\*.*?\*/")
_TENSOR = re.compile(r"Tensor\[\(([^()]*)\), float32\]")
#: The attributes of a call.
_PLACE = re.compile(r", __dict__=\{([^{}]*)\}, attrs_type_key=\"DictAttrs\"\)")
_CONSTANT = re.compile(r"meta\[relay\.Constant\]\[\d+\]")


def filecheck(module: tvm.IRModule, checks: str, folder: Path, function: str = "main") -> None:
    """Fail unless the text of a function has what the ``CHECK`` lines say.

    Types are shortened to ``f32(1, 3, 8, 8)`` and constants to ``const``, for legibility; a call's
    attributes stand after it, in braces.
    """
    text = _COMMENT.sub("", module[function].astext(show_meta_data=False))
    text = _TENSOR.sub(lambda found: f"f32({found[1].rstrip(',')})", text)
    text = _PLACE.sub(lambda found: f") {{{found[1]}}}", text)
    check_text(_CONSTANT.sub("const", text), checks, folder)
