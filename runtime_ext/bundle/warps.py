"""Active warps over time, of a run whose kernels CUPTI traced through torch.profiler.

CUPTI gives the begin and end of every kernel, also in captured graphs, and does not stop kernels
from running concurrently. The number of a kernel's warps that a multiprocessor holds at once
follows from its grid, and from the occupancy that the profiler computes of its registers and shared
memory: warps are counted as active from a kernel's begin to its end, so that its last blocks, when
they are few, count as a full wave.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.bundle.saved_schedules import saved_schedule
from runtime_ext.cuda.nvidia.driver import open_device
from tvm_ios.devices.device import WARP
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.files.json_text import json_object
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress

#: Points of a timeline.
_POINTS = 100


@dataclass(frozen=True, slots=True)
class KernelSpan:
    """Begin and end of a kernel in seconds, and its mean resident warps on a multiprocessor."""

    begin: float
    end: float
    warps: float


@dataclass(frozen=True)
class ActiveWarps:
    """The active warps of one run."""

    #: From the first kernel's begin to the last one's end.
    seconds: float

    kernels: int
    #: Active warps of a multiprocessor, over this time.
    mean: float
    #: Share of the time in which a kernel ran.
    busy: float
    #: Share of the time in which several kernels ran.
    side_by_side: float
    #: Active warps of a multiprocessor in equal pieces of the time.
    timeline: tuple[float, ...]
    #: Warps that a multiprocessor can hold.
    most: int


def profile_warps(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Path],
    progress: Progress,
) -> dict[str, Any]:
    """Return the active warps of a run of each schedule, and why the others cannot run here.

    Raise UserError if the bundle is for a CPU, torch is not installed, or its profiler sees no
    kernels.
    """
    if bundle.about["kind"] != "cuda":
        raise UserError("a CPU has no warps: bundle the model with --target cuda")
    most = open_device().attribute("MAX_THREADS_PER_MULTIPROCESSOR") // WARP
    warps: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    for done, (name, path) in enumerate(schedules.items()):
        progress("profiling", done, len(schedules))
        try:
            schedule = saved_schedule(path, bundle.graph)
            session = backend.session(bundled_program(bundle, backend, timer, schedule))
        except UserError as error:
            skipped[name] = str(error)
            continue
        try:
            # The first run is eager, later ones replay a captured graph.
            session.run(**bundle.reference_inputs)
            session.run()
            spans = kernel_spans(trace_of(session.run), most)
        finally:
            session.close()
        warps[name] = asdict(active_warps(spans, most))
    return {"warps": warps, "skipped": skipped}


def active_warps(spans: Sequence[KernelSpan], most: int, points: int = _POINTS) -> ActiveWarps:
    """Add up the resident warps at each moment, at most ``most`` on a multiprocessor."""
    begin, end = min(s.begin for s in spans), max(s.end for s in spans)
    borders = sorted({border for s in spans for border in (s.begin, s.end)})
    step = (end - begin) / points
    busy = overlap = 0.0
    sums = [0.0] * points
    for left, right in pairwise(borders):
        active = [s for s in spans if s.begin <= left and right <= s.end]
        busy += (right - left) * (len(active) > 0)
        overlap += (right - left) * (len(active) > 1)
        warps = min(float(most), sum(s.warps for s in active))
        first = min(points - 1, int((left - begin) / step))
        last = min(points - 1, int((right - begin) / step))
        for i in range(first, last + 1):
            piece = min(right, begin + (i + 1) * step) - max(left, begin + i * step)
            sums[i] += warps * max(0.0, piece)
    seconds = end - begin
    return ActiveWarps(
        seconds=seconds,
        kernels=len(spans),
        mean=sum(sums) / seconds,
        busy=busy / seconds,
        side_by_side=overlap / seconds,
        timeline=tuple(round(value / step, 3) for value in sums),
        most=most,
    )


def kernel_spans(trace: Mapping[str, Any], most: int) -> list[KernelSpan]:
    """Return the kernels of a torch.profiler trace; raise UserError if it has none."""
    try:
        spans = [
            KernelSpan(e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6, _resident(e["args"], most))
            for e in trace["traceEvents"]
            if e.get("cat") == "kernel" and e["dur"] > 0
        ]
    except KeyError as error:
        raise UserError(
            f"this torch.profiler does not say {error} of kernels: update it"
        ) from error
    if not spans:
        raise UserError("torch.profiler saw no kernels: CUPTI is missing or not permitted here")
    return spans


def _resident(arguments: Mapping[str, Any], most: int) -> float:
    """Return the warps of a kernel on a multiprocessor: all, or as many as fit (the occupancy)."""
    occupied = (arguments["est. achieved occupancy %"] + 0.5) / 100 * most
    return min(arguments["warps per SM"], occupied)


def trace_of(run: Callable[[], object]) -> dict[str, Any]:
    """Trace one run by torch.profiler, after a warm-up run; raise UserError without torch."""
    try:
        from torch import profiler
    except ImportError as error:
        raise UserError("active warps are read through torch.profiler: install torch") from error
    # Once: a profiler that begins another cycle has forgotten the one before.
    schedule = profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    activities = profiler.supported_activities()
    with warnings.catch_warnings(), temporary_folder() as folder:
        warnings.simplefilter("ignore")
        with profiler.profile(activities=activities, schedule=schedule) as profile:
            for _ in range(2):
                run()
                profile.step()
        path = folder / "trace.json"
        profile.export_chrome_trace(str(path))
        return json_object(path.read_bytes())
