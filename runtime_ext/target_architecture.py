"""The architecture of a target: of its GPU, or of the machine that its code runs on."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import Any


def cuda_arch(target: Any) -> str | None:
    """Return the architecture of a CUDA target; None for other targets."""
    if isinstance(target, Mapping):
        return str(target.get("arch", "sm_90")) if target.get("kind") == "cuda" else None
    if target is None or isinstance(target, str) or target.kind.name != "cuda":
        return None
    return str(target.attrs["arch"])


def machine_of(target: Any) -> str:
    """Return the machine that a CPU target's triple names, as ``uname`` does; by default this one.

    The target is a ``tvm.target.Target``, or the data or text of one.
    """
    if isinstance(target, str):
        found = re.search(r'mtriple"?[=:]"?(\w+)', target)
        return found[1] if found else platform.machine()
    triple = target.get("mtriple") if isinstance(target, Mapping) else target.attrs.get("mtriple")
    return str(triple).partition("-")[0] if triple else platform.machine()
