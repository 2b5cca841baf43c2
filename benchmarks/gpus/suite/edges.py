"""What an edge of a captured graph takes on this GPU, as JSON: kernels that do nothing, in a row.

``python -m benchmarks.gpus.suite.edges``; described engines assume these figures.
"""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median

from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.measure import time_program
from runtime_ext.cuda.nvidia.driver import open_device
from tvm_ios.devices.engine import launches_early
from tvm_ios.program.lane_writer import LaneWriter
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role

#: Kernels in a row.
_LENGTH = 200
#: An early one waits first, and then lets the next one come, as ours do.
_SOURCE = """\
.version {version}
.target {arch}
.address_size 64
.visible .entry nothing(.param .u64 buffer) {{ {waits} ret; }}
"""
_WAITS = "griddepcontrol.wait; griddepcontrol.launch_dependents;"
_NOTHING = Launchable(
    "nothing",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    shared_bytes=0,
    cubin=_SOURCE.format(version="7.0", arch="sm_52", waits="").encode() + b"\0",
)


def chain(lanes: int) -> Program:
    """Return kernels each of which waits for the one before, on lanes in turn."""
    writer = LaneWriter(lanes)
    for number in range(_LENGTH):
        writer.phase([(number % lanes, Launch(0, (0,), 0, 1, 0))], [0], [0])
    buffer = Buffer("b", BufferType((1,), "float32"), Role.OUTPUT)
    return Program(writer.lanes(), ("nothing",), (buffer,), ("nothing",))


def main() -> None:
    arch = "sm_{}{}".format(*open_device().compute_capability)
    measured = {"ordinary": (1, _NOTHING), "from stream to stream": (2, _NOTHING)}
    if launches_early(arch):
        waiting = _SOURCE.format(version="7.8", arch="sm_90", waits=_WAITS).encode() + b"\0"
        measured["early"] = (1, replace(_NOTHING, cubin=waiting, early=True))
    microseconds = {
        name: 1e6 * median(time_program(chain(lanes), lambda _, k=kernel: k)) / _LENGTH
        for name, (lanes, kernel) in measured.items()
    }
    print(json.dumps({"kernels": _LENGTH, "microseconds": microseconds}))


if __name__ == "__main__":
    main()
