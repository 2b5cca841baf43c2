"""A small executable, and where it is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_ext.execution.executable import Executable
from tests.execution.small_executable import small_executable


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return small_executable(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def saved(executable: Executable, tmp_path: Path) -> Path:
    executable.save(tmp_path / "out")
    return tmp_path / "out"
