"""Convert a program and its kernels to the launch graph that timing devices take."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from runtime_ext.cuda.event_graph import event_graph
from runtime_ext.cuda.machine_code.launchable import Launchable, LaunchedWork
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS
from tvm_ios.measuring.launch_graph import GraphBuffer, KernelLaunch, LaunchGraph
from tvm_ios.program.program import Program


def launch_graph(
    program: Program,
    function: Callable[[str], LaunchedWork],
    arch: str,
    contents: Mapping[str, Array] = NO_CONSTANTS,
    *,
    model: str = "",
    policy: str = "",
) -> LaunchGraph:
    """Return the launches of a GPU program, each with the launches that it waits for.

    ``function`` maps symbols to kernels, ``contents`` buffer names to data. Raise UserError if a
    launch calls cuDNN, which only a GPU has.
    """
    kernels = {symbol: _kernel(symbol, function(symbol)) for symbol in program.kernels}
    codes = {symbol: _code(kernel) for symbol, kernel in kernels.items()}
    events = event_graph(program)
    waits: dict[int, list[int]] = {}
    for before, after in sorted(events.edges):
        waits.setdefault(after, []).append(before)
    wholes = [number for number, buffer in enumerate(program.buffers) if buffer.part is None]
    place = {number: n for n, number in enumerate(wholes)}
    launches: list[KernelLaunch] = []
    for number, node in enumerate(events.nodes):
        symbol = program.kernels[node.launch.kernel]
        kernel = kernels[symbol]
        launches.append(
            KernelLaunch(
                unit=program.units[node.launch.unit],
                code=hashlib.sha256(codes[symbol]).hexdigest(),
                entry=kernel.entry,
                grid=kernel.grid,
                block=kernel.block,
                shared_bytes=kernel.shared_bytes,
                arguments=tuple(place[program.whole_of(b)] for b in node.launch.buffers),
                cleared=kernel.cleared,
                waits=tuple(waits.get(number, ())),
                registers=kernel.registers,
                local_bytes=kernel.local_bytes,
                static_shared_bytes=kernel.static_shared_bytes,
            )
        )
    buffers = (program.buffers[number] for number in wholes)
    return LaunchGraph(
        arch=arch,
        code={hashlib.sha256(code).hexdigest(): code for code in codes.values()},
        buffers=tuple(GraphBuffer(b.name, b.type, b.role, contents.get(b.name)) for b in buffers),
        launches=tuple(launches),
        model=model,
        policy=policy,
    )


def _kernel(symbol: str, work: Any) -> Launchable:
    if not isinstance(work, Launchable):
        raise UserError(
            f"the launch {symbol!r} is a call of cuDNN, which only a GPU has: search without it "
            "(--no-cudnn)"
        )
    return work


def _code(kernel: Launchable) -> bytes:
    # PTX ends in a zero byte, which only drivers need.
    return kernel.cubin if kernel.cubin.startswith(b"\x7fELF") else kernel.cubin.rstrip(b"\0")
