"""TVM's default pipeline on its virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime_ext.contest import virtual_machine
from runtime_ext.runners.runner import Array, Started


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Load a compiled module; TVM has counted its threads when it was imported."""
    return Started(virtual_machine(path, list(inputs.values())), _arrays)


def _arrays(result: Any) -> list[Array]:
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]
