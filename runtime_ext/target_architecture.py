"""The GPU architecture of a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def cuda_arch(target: Any) -> str | None:
    """Return the architecture of a CUDA target; None for other targets."""
    if isinstance(target, Mapping):
        return str(target.get("arch", "sm_90")) if target.get("kind") == "cuda" else None
    if target is None or isinstance(target, str) or target.kind.name != "cuda":
        return None
    return str(target.attrs["arch"])
