"""What tvm-ios made, on the native executor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runtime_ext.execution.executable import load
from runtime_ext.peers.runner import Array, Started


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Load an executable; it has its lanes already."""
    session = load(path).session()
    session.set_input(**inputs)
    places = range(len(session.outputs))
    return Started(session.run, lambda _: [session.get_output(place) for place in places])
