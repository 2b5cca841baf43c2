"""Our kernels on TVM's virtual machine (``LegalizeUnits``) beside our executor.

Units run one after another in both, and tiles on all lanes. The two run in turn, in a process for
each number of lanes, which TVM reads once. A ratio above 1 says that the virtual machine is slower.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import tvm
from rich.table import Table
from tvm import relax

from benchmarks.in_turn import compared, measure_networks, session_runner, shown
from relay_passes import IOSSchedule, LegalizeUnits
from relay_passes.load import load_model
from runtime_ext.build import build
from runtime_ext.cpu.device import random_buffers
from runtime_ext.fresh_process import run_fresh_process
from runtime_ext.machine.this_machine import host_target
from tvm_ios.cli.frame.output import console

RESULT = "virtual_machine"
NETWORKS = ("resnet34", "mobilenet_v2", "inception_v3", "transformer")


def measure(network: str, lanes: int) -> dict[str, Any]:
    """The ratio of the two on a network, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.networks.virtual_machine", "--child"]
    task = {"network": network, "lanes": lanes}
    return {**task, **run_fresh_process(command, task, {"TVM_NUM_THREADS": str(lanes)})}


def measured_here(network: str, lanes: int) -> dict[str, Any]:
    """The figures of a network in this process, whose TVM has so many threads."""
    scheduled = IOSSchedule("sequential")(load_model(network).module)
    model = build(scheduled, lanes=lanes)
    buffers = zip(model.program.buffers, random_buffers(model.program), strict=True)
    arrays = {buffer.name: array for buffer, array in buffers}
    session = model.session()
    session.run(**{port.name: arrays[port.buffer] for port in session.inputs})
    target = host_target(lanes)
    begin = time.perf_counter()
    library = relax.build(LegalizeUnits(target)(scheduled), target)
    seconds = time.perf_counter() - begin
    device: Any = tvm.cpu()
    main = relax.VirtualMachine(library, device)["main"]
    inputs = [tvm.runtime.tensor(arrays[port.buffer]) for port in session.inputs]

    def machine(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            main(*inputs)
        return (time.perf_counter() - start) / number

    result = main(*inputs)
    results = [result] if hasattr(result, "numpy") else list(result)
    equal = all(
        r.numpy().tobytes() == session.get_output(i).tobytes() for i, r in enumerate(results)
    )
    ratio, (ours, _) = compared(session_runner(session), machine, most=15.0)
    return {
        "milliseconds": ours * 1e3,
        "ratio": asdict(ratio),
        "same_bits": equal,
        "build_seconds": seconds,
    }


def show(figures: Sequence[dict[str, Any]]) -> None:
    table = Table("network", "lanes", "our executor, ms", "virtual machine / ours", "same bits")
    for row in figures:
        texts = (f"{row['milliseconds']:.2f}", shown(row["ratio"]), str(row["same_bits"]))
        table.add_row(row["network"], str(row["lanes"]), *texts)
    console().print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        print(json.dumps(measured_here(**json.loads(sys.stdin.readline()))))
    else:
        measure_networks(RESULT, __doc__, NETWORKS, measure, show)
