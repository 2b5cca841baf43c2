"""The policy ``rammer``: rTasks of waves of units, placed on lanes (Rammer, section 3)."""

from __future__ import annotations

from functools import partial

from tvm_ios.costs.costs import Offer
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.promise import too_little
from tvm_ios.policies.rprogram_profile import RProgramProfile
from tvm_ios.rammer.rprogram import simulate
from tvm_ios.rammer.streams import with_streams
from tvm_ios.rammer.wavefront import rammer_schedule, wavefront_programs


def find(request: Request) -> Found:
    """Return Rammer's schedule; its rPrograms are measured where they can be, else simulated."""
    units, rtasks = request.problem.units, request.rtasks
    measuring, measured = rtasks.measuring, None
    if measuring is not None:
        # Raise before minutes of profiling rather than after.
        measuring.require_any()
    if why_not := too_little(request):
        return Found(request.found("sequential").schedule, why_not=why_not)
    rtasks.prepare(request.progress)
    if measuring is not None:
        measured = RProgramProfile(
            measuring.seconds,
            request.limits.budget,
            lambda done: request.progress(f"{request.policy}: measuring rPrograms", done, done),
            measuring.can_run,
        )
    profile, kernels = measured or simulate, partial(rtasks.kernels, units)
    programs = wavefront_programs(units, kernels, rtasks.lanes, profile)
    seconds = measured(programs) if measured else rtasks.seconds(units, programs)
    schedule = rammer_schedule(units, programs, seconds, kernels)
    # Simulated times, used once the budget was spent, are not compared with measured ones.
    if measured is None or measured.complete:
        on_streams = partial(rtasks.on_streams, units)
        schedule = with_streams(schedule, units.predecessors, on_streams)
    if measured is None:
        return Found(schedule)
    statistics = SearchStatistics(
        seconds=measured.seconds,
        candidates=measured.measured,
        stages_measured=measured.measured,
        complete=measured.complete,
    )
    return Found(schedule, statistics)


RAMMER = Policy(
    "rammer",
    "Rammer's rTasks of independent units, placed on lanes",
    find,
    needs=frozenset({Offer.RTASKS}),
)
