"""Kernels for Arm are compiled as for use, in fast runs too: the optimiser is under test."""

from __future__ import annotations

import pytest

from runtime_ext.cpu import compiler, kernel_build


@pytest.fixture(autouse=True)
def optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "build_kernel", kernel_build.build_kernel)
