"""Packages with timing devices, installed as ``pip`` would: that of docs/devices.md, and others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_ios.extensions import extensions

PAGE = Path(__file__).parents[1] / "docs" / "devices.md"

#: Devices whose times follow from blocks and waits; ``computing`` has outputs from ONNX Runtime.
ABACUS = """
import os

from tvm_ios.devices.device import load_device
from tvm_ios.measuring.timing_device import Timed, Timing, UntimedError


class Abacus:
    name, version, gpu = "abacus", "2", load_device("rtx2080ti")
    arch, lanes, persistent = "compute_75", 4, True
    timing = Timing(launch_overhead=0.0)
    asked = []

    def time(self, graph):
        self.asked.append(graph)
        ends, spans = [], []
        for launch in graph.launches:
            begin = max((spans[other][1] + 1e-6 for other in launch.waits), default=0.0)
            spans.append((begin, begin + 1e-6 * (1 + launch.blocks / self.gpu.processors)))
        return Timed((max(end for _, end in spans),), tuple(spans))


class Picky(Abacus):
    name, persistent = "picky", False

    def time(self, graph):
        if sum(not launch.waits for launch in graph.launches) > 1:
            raise UntimedError("nothing runs beside another")
        return super().time(graph)


class Fragile(Abacus):
    def time(self, graph):
        if graph.policy == "greedy":
            raise KeyError("parser")
        return super().time(graph)


class Computing(Abacus):
    name = "computing"

    def run(self, graph, inputs):
        import onnxruntime

        session = onnxruntime.InferenceSession(os.environ["MODEL"])
        (value,), (port,) = inputs.values(), session.get_inputs()
        (result,) = session.run(None, {port.name: value})
        (output,) = (buffer.name for buffer in graph.buffers if buffer.role == "output")
        return {output: result * float(os.environ.get("FACTOR", "1"))}


class Wrong(Abacus):
    def time(self, graph):
        return Timed((-1.0,))


class Failing(Abacus):
    def time(self, graph):
        raise KeyError("cable")


def open_none():
    return 7


def open_unplugged():
    raise OSError("no such board")
"""

ENTRY_POINTS = """
[tvm_ios.timing_devices]
recording = replay:open_recording
abacus = abacus_devices:open_abacus
picky = abacus_devices:open_picky
computing = abacus_devices:open_computing
wrong = abacus_devices:open_wrong
failing = abacus_devices:open_failing
fragile = abacus_devices:open_fragile
none = abacus_devices:open_none
unplugged = abacus_devices:open_unplugged
missing = abacus_devices:missing
"""
_OPENERS = "".join(
    f"\n\ndef open_{kind.lower()}():\n    return {kind}()\n"
    for kind in ("Abacus", "Picky", "Fragile", "Computing", "Wrong", "Failing")
)


def example() -> str:
    """The package that docs/devices.md shows."""
    return PAGE.read_text().partition("```python\n")[2].partition("```")[0]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the packages for this process and those that it starts."""
    about = folder / "abacus_devices-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus-devices\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "abacus_devices.py").write_text(ABACUS + _OPENERS)
    (folder / "replay.py").write_text(example())
    monkeypatch.syspath_prepend(folder)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), before])))
    extensions.cache_clear()
