"""Run an executable and find out what bounds it."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_ext.cpu.peak import measured_peak
from runtime_ext.cuda.event_graph import event_graph
from runtime_ext.cuda.launch_graphs import launch_graph
from runtime_ext.cuda.machine_code.launchable import read_kernels
from runtime_ext.execution.executable import PACKAGES, Executable, load
from runtime_ext.execution.executor import Span
from runtime_ext.execution.foreign_build import ForeignBuild
from runtime_ext.machine.hardware import last_level_cache
from runtime_ext.native_errors import ExecutableError
from tvm_ios.errors import UserError
from tvm_ios.explain.advice import advise
from tvm_ios.explain.bounds import Peaks, Region, measure_region, split_blocks
from tvm_ios.explain.hot_units import HotUnits, hot_units
from tvm_ios.explain.tasks import find_work
from tvm_ios.explain.timeline import Timeline, read_timeline
from tvm_ios.measuring.timing_device import TimingDevice, timed
from tvm_ios.policies.registry import OURS, policy_named
from tvm_ios.program.program import Program
from tvm_ios.schedule.first_difference import has_contraction
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

#: Kinds of units that an explanation names.
_HOTTEST = 5


@dataclass(frozen=True)
class Explanation:
    """Where the time of an executable goes.

    Attributes
    ----------
    policy
        The policy that made its schedule.
    measured
        Latencies of the policies when the executable was made, in seconds, if it has them.
    names
        For each unit of the program its name and, in brackets, the kind of its operator.
    latency
        Median seconds of runs that were not profiled.
    disturbance
        That median over the fastest of these runs: far above one if something else keeps the
        machine busy.
    preemptions
        Times in a run that the system stopped a lane to run something else.
    lanes
        Lanes of the program.
    arena, unshared
        Bytes of the arena that tensors between units share, and bytes without sharing.
    peaks
        The peak of this machine with so many lanes.
    total
        The figures of the whole program.
    blocks
        The figures of each block.
    advice
        A sentence for the total and then for each block.
    hot
        The units whose code takes most of the time.
    timeline
        The timeline of the fastest run.
    tail
        What runs after the program, a sentence; None where nothing does.
    device
        The timing device that it was timed on; None for this machine.
    """

    policy: str
    measured: Mapping[str, float]
    names: tuple[str, ...]
    latency: float
    disturbance: float
    preemptions: float
    lanes: int
    arena: int
    unshared: int
    peaks: Peaks
    total: Region
    blocks: tuple[Region, ...]
    advice: tuple[str, ...]
    hot: tuple[HotUnits, ...]
    timeline: Timeline
    tail: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class _Observed:
    """Runs of a program, and how fast they could be; see :class:`Explanation`."""

    runs: Sequence[Timeline]
    samples: Sequence[float]
    peaks: Peaks
    preemptions: float = 0.0
    device: str | None = None


def explain(
    path: Path, repeat: int = 40, seed: int = 0, device: TimingDevice | None = None
) -> Explanation | ForeignBuild:
    """Profile an executable on random inputs, and account for its time.

    What is another runtime's build is given as that: nobody sees what it launches.

    Parameters
    ----------
    path
        What :meth:`runtime_ext.execution.executable.Executable.save` wrote.
    repeat
        Runs to profile. Each block's numbers are medians over the tenth of them in which it was
        fastest.
    seed
        Seed of the inputs.
    device
        What times it, in the place of this machine.

    Raises
    ------
    ExecutableError
        If it cannot be loaded, or says something impossible of its units.
    UserError
        If it was compiled for something else than the device, or the device has no times of its
        launches.
    """
    executable = load(path)
    if isinstance(executable, ForeignBuild):
        return executable
    program = executable.program
    lanes = len(program.lanes)
    try:
        names, flops, tunable = _units(program, executable.schedule)
        measured = measured_latencies(executable.notes)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExecutableError(f"{path} misstates its units ({error}); save it again") from error
    if PACKAGES[0] not in executable.packages:
        # AutoTVM tunes more of Relay's operators.
        tunable = frozenset(range(len(names)))
    seen = (
        _run_here(executable, repeat, seed) if device is None else _time_there(executable, device)
    )
    runs, peaks, latency = seen.runs, seen.peaks, statistics.median(seen.samples)
    work = find_work(program)
    blocks = split_blocks(work)
    all_units = tuple(range(len(program.units)))
    regions = [
        measure_region(work, units, runs, flops, peaks, executable.plan)
        for units in (all_units, *blocks)
    ]
    policy = str(executable.schedule["policy"])
    searched = any(
        Strategy.CONCURRENT in policy_named(name).strategies
        for name in (policy, *measured)
        if name in OURS
    )
    return Explanation(
        policy=policy,
        measured=measured,
        names=names,
        latency=latency,
        disturbance=latency / min(seen.samples),
        preemptions=seen.preemptions,
        lanes=lanes,
        arena=executable.plan.nbytes,
        unshared=sum(program.buffers[n].type.nbytes for n in executable.plan.offsets),
        peaks=peaks,
        total=regions[0],
        blocks=tuple(regions[1:]),
        advice=tuple(advise(r, names, peaks, lanes, searched, tunable) for r in regions),
        hot=hot_units(work, runs, flops)[:_HOTTEST],
        timeline=min(runs, key=lambda run: run.seconds),
        tail=None if executable.tail is None else executable.tail.sentence,
        device=seen.device,
    )


def _run_here(executable: Executable, repeat: int, seed: int) -> _Observed:
    program = executable.program
    # Before the runs, because it leaves the caches full of its own data.
    peak = measured_peak(len(program.lanes))
    peaks = Peaks(peak.gflops * 1e9, peak.gbps * 1e9, last_level_cache())
    with closing(executable.program_session()) as session:
        session.run(**session.random_inputs(seed))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        samples = session.benchmark(number=1, repeat=repeat)
        preemptions = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before
        runs = [read_timeline(program, session.profile()) for _ in range(repeat)]
    return _Observed(runs, samples, peaks, preemptions / repeat)


def _time_there(executable: Executable, device: TimingDevice) -> _Observed:
    program = executable.program
    arch, kernels = (None, {}) if executable.arch is None else read_kernels(executable.kernels)
    if arch != device.arch:
        raise UserError(
            f"the executable has code for {arch or executable.target}, and the device "
            f"{device.name!r} takes {device.arch}: make one with tvm-ios optimize --device"
        )
    graph = launch_graph(program, kernels.__getitem__, device.arch, executable.constants)
    said = timed(device, graph)
    if not said.spans and graph.launches:
        raise UserError(
            f"the device {device.name!r} says how long programs take and not when their launches "
            "run, without which there is nothing to explain"
        )
    nodes = event_graph(program).nodes
    spans = [Span(n.lane, n.number, *span) for n, span in zip(nodes, said.spans, strict=True)]
    # Nothing is known of its caches: what is moved once counts as held.
    peaks = Peaks(device.gpu.peak_flops, device.gpu.bandwidth, 1 << 62)
    name = f"{device.name} {device.version}"
    return _Observed([read_timeline(program, spans)], said.samples, peaks, device=name)


def measured_latencies(notes: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of each policy when an executable was made, as its notes have them."""
    return {str(row["policy"]): float(row["latency"]) for row in notes.get("policies", ())}


def _units(
    program: Program, schedule: Mapping[str, Any]
) -> tuple[tuple[str, ...], Sequence[int] | None, frozenset[int]]:
    """Names of the program's units for people, their FLOPs, and those that can be tuned.

    Where the schedule does not say, the FLOPs are None and all can be tuned.
    """
    everything = frozenset(range(len(program.units)))
    if "flops" not in schedule:
        return program.units, None, everything
    kinds: dict[str, str] = {}
    flops: dict[str, int] = {}
    tunable: dict[str, bool] = {}
    for stage in Schedule.from_json(schedule).stages:
        merged = stage.strategy is Strategy.MERGE
        for units in [stage.units] if merged else [(unit,) for unit in stage.units]:
            name = "+".join(schedule["units"][unit] for unit in units)
            described = schedule["graph"]["units"][units[0]]
            kinds[name] = described["kind"]
            flops[name] = sum(schedule["flops"][unit] for unit in units)
            tunable[name] = has_contraction(described)
    names = tuple(f"{name} ({kinds[name]})" if name in kinds else name for name in program.units)
    has_all = all(name in flops for name in program.units)
    return (
        names,
        [flops[name] for name in program.units] if has_all else None,
        frozenset(n for n in everything if tunable.get(program.units[n], True)),
    )
