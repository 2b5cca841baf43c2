"""Run an executable with the times of its launches, here or on a timing device."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime_ext.cpu.peak import measured_peak
from runtime_ext.cuda.event_graph import event_graph
from runtime_ext.cuda.launch_graphs import launch_graph
from runtime_ext.cuda.machine_code.launchable import LaunchedWork
from runtime_ext.execution.executor import Span
from runtime_ext.execution.packages.kernel_files import read_launched
from runtime_ext.machine.hardware import last_level_cache
from tvm_ios.errors import UserError
from tvm_ios.explain.bounds import Peaks
from tvm_ios.explain.timeline import Timeline, read_timeline
from tvm_ios.measuring.timing_device import Timed, TimingDevice, timed

if TYPE_CHECKING:
    from runtime_ext.execution.executable import Executable
    from tvm_ios.program.program import Program


@dataclass(frozen=True)
class Profile:
    """Timelines of a program's runs, and the peak speed of the machine."""

    #: The timeline of each profiled run.
    runs: tuple[Timeline, ...]
    #: Seconds of runs that were not profiled; of a device those that it reports.
    samples: tuple[float, ...]
    #: The peak arithmetic and memory rates of the machine.
    peaks: Peaks
    #: Times in a run that the system stopped a lane to run something else.
    preemptions: float = 0.0
    #: The timing device; None for this machine.
    device: str | None = None
    #: Runs of a second program, taken in turn with those of the first one.
    beside: tuple[Timeline, ...] = ()


def profile_here(
    executable: Executable, repeat: int, seed: int, beside: Program | None = None
) -> Profile:
    """Time ``repeat`` runs of an executable on this machine, on random inputs, and profile as many.

    Runs of ``beside``, another program of the same kernels and buffers with its own memory plan,
    are taken in turn.
    """
    program = executable.program
    # Before the runs, because it leaves the caches full of its own data.
    peak = measured_peak(len(program.lanes))
    peaks = Peaks(peak.gflops * 1e9, peak.gbps * 1e9, last_level_cache())
    with ExitStack() as opened:
        session = opened.enter_context(closing(executable.program_session()))
        inputs = session.random_inputs(seed)
        session.run(**inputs)
        other = None
        if beside is not None:
            # Imported only here: executables run without a solver.
            from tvm_ios.program.arena.planner import plan_memory

            variant = replace(executable, program=beside, plan=plan_memory(beside).plan)
            other = opened.enter_context(closing(variant.program_session()))
            other.run(**inputs)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        samples = session.benchmark(number=1, repeat=repeat)
        preemptions = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before
        runs: list[Timeline] = []
        other_runs: list[Timeline] = []
        for _ in range(repeat):
            if other is not None and beside is not None:
                other_runs.append(read_timeline(beside, other.profile()))
                # Run once unprofiled, because the other program has filled the caches.
                session.run()
            runs.append(read_timeline(program, session.profile()))
    return Profile(
        tuple(runs), tuple(samples), peaks, preemptions / repeat, beside=tuple(other_runs)
    )


def profile_there(
    executable: Executable, device: TimingDevice, beside: Program | None = None
) -> Profile:
    """Profile an executable on a timing device; parameters as of :func:`profile_here`.

    Raise UserError if it was compiled for something else than the device, or the device does not
    report when launches run.
    """
    # The executable names the machine code's architecture; its kernels may name PTX.
    arch, kernels = (None, {}) if executable.arch is None else read_launched(executable.libraries)
    if arch != device.arch:
        raise UserError(
            f"the executable has code for {arch or executable.target}, and the device "
            f"{device.name!r} takes {device.arch}: make one with tvm-ios optimize --device"
        )
    run, said = _timed_run(executable, kernels, executable.program, device)
    other = () if beside is None else (_timed_run(executable, kernels, beside, device)[0],)
    # The device's caches are unknown: assume that they hold everything.
    peaks = Peaks(device.gpu.peak_flops, device.gpu.bandwidth, 1 << 62)
    name = f"{device.name} {device.version}"
    return Profile((run,), tuple(said.samples), peaks, device=name, beside=other)


def _timed_run(
    executable: Executable,
    kernels: Mapping[str, LaunchedWork],
    program: Program,
    device: TimingDevice,
) -> tuple[Timeline, Timed]:
    graph = launch_graph(program, kernels.__getitem__, device.arch, executable.constants)
    said = timed(device, graph)
    if not said.spans and graph.launches:
        raise UserError(
            f"the device {device.name!r} says how long programs take and not when their launches "
            "run, without which there is nothing to explain"
        )
    nodes = event_graph(program).nodes
    spans = [Span(n.lane, n.number, *span) for n, span in zip(nodes, said.spans, strict=True)]
    return read_timeline(program, spans), said
