"""CUDA kernels without a compiler of them."""

from __future__ import annotations

import pytest

from runtime_ext.cuda.machine_code import cubin_cache
from runtime_ext.cuda.machine_code.nvrtc import Cubin


def leave_uncompiled(patch: pytest.MonkeyPatch) -> None:
    """In the place of a kernel's machine code stands its source."""
    patch.setattr(cubin_cache, "compiler_version", lambda _: "none")
    patch.setattr(cubin_cache, "compile_cubin", lambda source, _: Cubin(source.encode(), 0, 0, 0))
