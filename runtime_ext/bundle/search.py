"""The measured search on the machine that runs a bundle; its log makes it resumable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from tvm_ios.costs.log import LogHeader, MeasurementLog
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.ios.endings import Pruning
from tvm_ios.ios.lazy import Budget, LazyStatistics
from tvm_ios.measuring.device import UnfusedError
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_search import SearchLimits, StageSearch
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule


@dataclass(frozen=True)
class Found:
    """A schedule, and what the search for it took (None for those that need none)."""

    schedule: Schedule
    took: LazyStatistics | None


def limits_of(
    bundle: Bundle, max_measurements: int | None, time_limit: float | None
) -> SearchLimits:
    """The limits that the bundle was made with, and a budget."""
    about = bundle.about["limits"]
    return SearchLimits(
        pruning=Pruning(about["r"], about["s"]),
        max_block=about["max_block"],
        budget=Budget(max_measurements, time_limit),
    )


def bundle_search(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    folder: Path,
    limits: SearchLimits,
    progress: Progress,
    *,
    again: bool = True,
) -> StageSearch:
    """A search whose measurements go into ``log.jsonl`` of a folder, or are found there.

    Without ``again`` nothing is measured that it has, which is for runs of saved schedules.
    """
    header = LogHeader(backend.device.name, bundle.about["target"], bundle.about["versions"]["tvm"])
    log = MeasurementLog(folder / "log.jsonl", header)
    if not again:
        log.reuse()
    kernels = backend.compiler
    measured = MeasuredUnits(
        bundle.graph, lambda members: members, kernels, backend.device, log, bundle.parts
    )
    return StageSearch(
        StageTimer(measured),
        cut_blocks(bundle.graph, limits.max_block),
        limits,
        progress,
        choose_forms=kernels.has_choices,
        mergeable=kernels.mergeable,
    )


def search_policies(
    search: StageSearch, policies: tuple[str, ...], folder: Path
) -> tuple[Mapping[str, Found], Mapping[str, str]]:
    """The schedule of each policy, saved as ``schedule-POLICY.json``; why others have none."""
    found: dict[str, Found] = {}
    skipped: dict[str, str] = {}
    for policy in dict.fromkeys(("sequential", *policies)):
        made = search.measured_baseline(policy)
        try:
            found[policy] = Found(*search.schedule(policy)) if made is None else Found(made, None)
        except UnfusedError as error:
            skipped[policy] = str(error)
        else:
            found[policy].schedule.save(folder / f"schedule-{policy}.json", search.graph)
    return found, skipped
