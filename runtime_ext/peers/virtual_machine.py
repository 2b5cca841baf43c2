"""TVM's own build of a model, on its virtual machine or its graph executor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runtime_ext.contest import machine_outputs, virtual_machine
from runtime_ext.peers.runner import Array, Started


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Load a compiled module; TVM has counted its threads when it was imported."""
    return Started(virtual_machine(path, inputs), machine_outputs)
