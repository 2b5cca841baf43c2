"""A deployment of the model of rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deployment.rows_model import add_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of 1 and 4 on one lane, and 4 on two."""
    app = tmp_path_factory.mktemp("made") / "app"
    add_rows(app, 1)
    add_rows(app, 4)
    add_rows(app, 4, lanes=2)
    return app


@pytest.fixture
def app(made: Path, tmp_path: Path) -> Path:
    """A copy, which a test may change."""
    return shutil.copytree(made, tmp_path / "app")
