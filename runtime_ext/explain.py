"""Profile an executable and find out what bounds its speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.foreign_build import ForeignBuild
from runtime_ext.execution.packages.kernel_files import TVM
from runtime_ext.isa.isa import BYTES
from runtime_ext.native_errors import ExecutableError
from runtime_ext.profiling import profile_here, profile_there
from tvm_ios.explain.advice import advise
from tvm_ios.explain.bounds import Peaks, Region, measure_region, split_blocks
from tvm_ios.explain.hot_units import HotUnits, hot_units
from tvm_ios.explain.one_after_another import one_after_another
from tvm_ios.explain.tasks import Work, find_work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.measuring.timing_device import TimingDevice
from tvm_ios.policies.registry import OURS, policy_named
from tvm_ios.program import bfloat16, winograd
from tvm_ios.program.program import Program
from tvm_ios.program.winograd import share_of_products
from tvm_ios.schedule.computed_units import computed_units
from tvm_ios.schedule.first_difference import filter_extents, has_contraction
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

#: Kinds of units that an explanation names.
_HOTTEST = 5

#: Integer products that an instruction adds up in the time of one in float32.
_PRODUCTS_AT_ONCE = {BYTES: 4, "int16": 2}


@dataclass(frozen=True)
class Explanation:
    """An account of an executable's time."""

    executable: Executable
    #: The tasks of its program.
    work: Work
    #: The policy that made its schedule.
    policy: str
    #: Latencies of the policies when the executable was made, in seconds, if it has them.
    measured: Mapping[str, float]
    #: For each unit of the program its name and, in brackets, the kind of its operator.
    names: tuple[str, ...]
    #: For each unit the kind of its operator, and the implementation that its schedule names; empty
    #: if unknown.
    kinds: tuple[str, ...]
    #: Floating-point operations of each unit; None if unknown.
    flops: Sequence[int] | None
    #: Median seconds of runs that were not profiled.
    latency: float
    #: That median over the fastest of these runs: far above one if something else keeps the machine
    #: busy.
    disturbance: float
    #: Times in a run that the system stopped a lane to run something else.
    preemptions: float
    #: Seconds that this took of a profiled run, the mean of all runs, summed over the lanes.
    held_up: float

    lanes: int
    #: Bytes of the arena that tensors between units share, and bytes without sharing.
    arena: int
    unshared: int
    #: The peak arithmetic and memory rates of this machine with these lanes.
    peaks: Peaks
    #: The figures of the whole program.
    total: Region
    #: The figures of each block.
    blocks: tuple[Region, ...]
    #: A sentence for the total and then for each block.
    advice: tuple[str, ...]
    #: The units whose code takes most of the time.
    hot: tuple[HotUnits, ...]
    #: The timeline of the fastest run.
    timeline: Timeline
    #: A sentence about the model's tail, which runs after the program; None if there is none.
    tail: str | None
    #: The timing device that it was timed on; None for this machine.
    device: str | None
    #: All timelines.
    runs: tuple[Timeline, ...]
    #: The program of the same kernels one after another, and the timeline of its fastest run; None
    #: if it was not asked for.
    sequential: tuple[Work, Timeline] | None


def explain(
    path: Path,
    repeat: int = 40,
    seed: int = 0,
    device: TimingDevice | None = None,
    *,
    beside: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Explanation | ForeignBuild:
    """Profile an executable on random inputs, and account for its time.

    Of the ``repeat`` runs, each block's numbers are medians over the tenth in which it was fastest.
    ``device`` times it instead of this machine; ``beside`` also runs the same kernels one after
    another; ``shapes`` are those of the inputs of a program for a range. Another runtime's build is
    returned as it is: its launches cannot be observed. Raise ExecutableError if it cannot be
    loaded, or its facts about units are impossible; raise UserError if it was compiled for
    something else than the device, or the device has no times of its launches.
    """
    executable = load(path)
    if isinstance(executable, ForeignBuild):
        return executable
    is_open = bool(executable.program.symbols)
    executable = executable.at_shapes(shapes or {})
    program, plan = executable.program, executable.fixed_plan()
    lanes = len(program.lanes)
    try:
        kinds, flops, tunable = _units(program, executable.schedule)
        measured = measured_latencies(executable.notes)
        # The schedule has the operations at another shape.
        flops = None if is_open else flops
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExecutableError(f"{path} misstates its units ({error}); save it again") from error
    if TVM not in executable.packages:
        # AutoTVM tunes more of Relay's operators.
        tunable = frozenset(range(len(program.units)))
    work = find_work(program)
    rival = one_after_another(work) if beside else None
    seen = (
        profile_here(executable, repeat, seed, rival)
        if device is None
        else profile_there(executable, device, rival)
    )
    runs, peaks, latency = seen.runs, seen.peaks, statistics.median(seen.samples)
    names = tuple(
        f"{name} ({kind})" if kind else name
        for name, kind in zip(program.units, kinds, strict=True)
    )
    blocks = split_blocks(work)
    all_units = tuple(range(len(program.units)))
    regions = [
        measure_region(work, units, runs, flops, peaks, plan) for units in (all_units, *blocks)
    ]
    policy = str(executable.schedule["policy"])
    searched = any(
        Strategy.CONCURRENT in policy_named(name).strategies
        for name in (policy, *measured)
        if name in OURS
    )
    return Explanation(
        executable=executable,
        work=work,
        policy=policy,
        measured=measured,
        names=names,
        kinds=kinds,
        flops=flops,
        latency=latency,
        disturbance=latency / min(seen.samples),
        preemptions=seen.preemptions,
        held_up=statistics.fmean(run.held_up for run in runs),
        lanes=lanes,
        arena=plan.nbytes,
        unshared=sum(program.buffers[n].type.nbytes for n in plan.offsets),
        peaks=peaks,
        total=regions[0],
        blocks=tuple(regions[1:]),
        advice=tuple(advise(r, names, peaks, lanes, searched, tunable) for r in regions),
        hot=hot_units(work, runs, flops)[:_HOTTEST],
        timeline=min(runs, key=lambda run: run.seconds),
        tail=None if executable.tail is None else executable.tail.sentence,
        device=seen.device,
        runs=runs,
        sequential=None
        if rival is None
        else (find_work(rival), min(seen.beside, key=lambda run: run.seconds)),
    )


def measured_latencies(notes: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each policy that an executable's notes have."""
    return {str(row["policy"]): float(row["latency"]) for row in notes.get("policies", ())}


def _units(
    program: Program, schedule: Mapping[str, Any]
) -> tuple[tuple[str, ...], Sequence[int] | None, frozenset[int]]:
    """Return the kinds of the program's units, their FLOPs, and the units that can be tuned.

    Where the schedule does not say, kinds are empty, the FLOPs are None and all can be tuned. A
    Winograd convolution counts its products only, without its transforms; integer operations count
    as the float32 operations that take as long.
    """
    if "flops" not in schedule:
        return ("",) * len(program.units), None, frozenset(range(len(program.units)))
    described = schedule["graph"]["units"]
    applied = Schedule.from_json(schedule)
    computed = computed_units(applied, schedule["units"])
    units_of = [computed.get(name, ()) for name in program.units]
    forms = {
        unit: form
        for unit, form in applied.kernels.items()
        if form.startswith(winograd.FORM) or form in (bfloat16.FORM, *_PRODUCTS_AT_ONCE)
    }

    def counted(unit: int, flops: int) -> int:
        form = forms.get(unit, "")
        if form.startswith(winograd.FORM):
            return round(flops * share_of_products(form, filter_extents(described[unit])))
        return flops // _PRODUCTS_AT_ONCE.get(form, 1)

    flops = [counted(*each) for each in enumerate(schedule["flops"])]

    def kind(units: Sequence[int]) -> str:
        names = [described[u]["kind"] for u in units]
        return "+".join(dict.fromkeys([*names, *(forms[u] for u in units if u in forms)]))

    return (
        tuple(map(kind, units_of)),
        [sum(flops[u] for u in units) for units in units_of] if all(units_of) else None,
        frozenset(
            number
            for number, units in enumerate(units_of)
            if not units or any(has_contraction(described[u]) for u in units)
        ),
    )
