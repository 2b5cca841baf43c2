"""Cycles of this project's own CUDA kernels in a simulator, and what is predicted for them.

The file has programs launch by launch (GPGPU-Sim 4.2, its QV100 configuration). A prediction takes
the cycles of each kernel alone, from the sequential program of a model, and which launch waited for
which; how kernels slow each other is computed by the rules of described devices.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.costs.contention import Launch, makespans
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import DeviceDescription, load_device

from .latencies import SHARED

FILE = SHARED / "simulated_v100.json"
#: Cycles a second of the simulated processors.
CLOCK = 1132e6
#: Cycles between the end of a launch and the first of one that waits for it: assumed, 1 us.
_EDGE = 1133
#: What units of the Inception block read from: persistent kernels have no launches that tell.
_BLOCK = {
    **dict.fromkeys(("lv3", "lv5", "lv7", "lv9", "lv11", "lv20", "lv32"), ("lv",)),
    **dict.fromkeys(("lv14", "lv16"), ("lv11",)),
    "lv23": ("lv20",),
    **dict.fromkeys(("lv26", "lv28"), ("lv23",)),
    "lv33": ("lv32",),
}


@dataclass(frozen=True, slots=True)
class Simulated:
    """A program, simulated and predicted."""

    #: What was scheduled, and how.
    model: str
    policy: str
    #: Of the whole program, in the simulator.
    cycles: int
    #: The same from the cycles of kernels alone.
    predicted: float


def simulated_device() -> DeviceDescription:
    """The simulator's GPU: a V100 on which launches cost what the simulation assumes."""
    return replace(load_device("v100"), contention_overhead=0.0)


def simulated_programs() -> list[Simulated]:
    """All programs of the file, those of a model together and its sequential one first."""
    programs = json.loads(FILE.read_text())["programs"]
    results: list[Simulated] = []
    alone: dict[str, list[tuple[int, int]]] = {}
    for program in programs:
        if program["policy"] == "sequential":
            alone = {}
            for name, begin, end in program["launches"]:
                blocks = int(re.findall(r" (\d+)x\d+$", name)[0])
                alone.setdefault(name.split(":")[0], []).append((end - begin + 1, blocks))
        predict = _fused if program["policy"] == "rammer" else _launched
        cycles = predict(program["launches"], alone, simulated_device()) * CLOCK
        results.append(
            Simulated(program["model"], program["policy"], program["cycles"]["1.0"], cycles)
        )
    return results


def _launched(
    launches: Sequence[Any], alone: dict[str, list[tuple[int, int]]], device: DeviceDescription
) -> float:
    """Seconds of a program of streams: each launch waits for those that end an edge before it."""
    ordered = sorted(launches, key=lambda launch: launch[1])
    kernels = {unit: iter(of_unit) for unit, of_unit in alone.items()}
    program: list[Launch] = []
    for name, begin, _ in ordered:
        after = tuple(
            place
            for place, (*_, end) in enumerate(ordered[: len(program)])
            if abs(begin - _EDGE - end) <= 2
        )
        if not after and begin > _EDGE:
            ended = [place for place, (*_, end) in enumerate(ordered) if end + _EDGE <= begin]
            after = (max(ended, key=lambda place: ordered[place][2]),)
        kernel = _kernel(*next(kernels[name.split(":")[0]]), device)
        program.append(Launch(kernel, after, _EDGE / CLOCK if after else 0.0))
    return float(makespans([program], device)[0])


def _fused(
    launches: Sequence[Any], alone: dict[str, list[tuple[int, int]]], device: DeviceDescription
) -> float:
    """Seconds of persistent kernels one after another, in which tiles wait for tiles."""
    programs: list[list[Launch]] = []
    for name, *_ in launches:
        program: list[Launch] = []
        last: dict[str, int] = {}
        for unit in name.split(":")[0].split("+"):
            after = tuple(last[source] for source in _BLOCK.get(unit, ()) if source in last)
            for cycles, blocks in alone.get(unit, ()):
                wait = device.wait_overhead if after else 0.0
                program.append(Launch(_kernel(cycles, blocks, device), after, wait))
                after = (len(program) - 1,)
            last[unit] = len(program) - 1
        programs.append(program)
    return float(makespans(programs, device).sum()) + (len(launches) - 1) * _EDGE / CLOCK


def _kernel(cycles: int, blocks: int, device: DeviceDescription) -> KernelEstimate:
    """A kernel of blocks of 128 threads that takes so many cycles alone."""
    share = device.arithmetic_share(128)
    waves = max(1.0, share * math.ceil(blocks / device.processors))
    return KernelEstimate(blocks, cycles / CLOCK / waves, share, 0, 0.0)
