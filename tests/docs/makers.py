"""The scripts of ``docs/make``, which are no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load_maker(name: str) -> Any:
    """A script of docs/make as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "make" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
