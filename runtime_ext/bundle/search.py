"""The measured search on the machine that runs a bundle; its log makes it resumable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
from tvm_ios.errors import UserError
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.measuring.measured_costs import measured_costs
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.policies.policy import Found, Limits, Problem
from tvm_ios.policies.registry import policy_named
from tvm_ios.progress import Progress
from tvm_ios.search import Search, require_fit


@dataclass(frozen=True)
class BundleSearch:
    """The search for schedules of a bundle's model, and the timer that measures for it."""

    search: Search
    timer: StageTimer

    def end_run(self) -> None:
        """Let the next run measure again, unless one of the searches ran out of time."""
        if not self.search.out_of_time:
            self.timer.end_run()


def limits_of(bundle: Bundle, max_measurements: int | None, time_limit: float | None) -> Limits:
    """Return the limits that the bundle was made with, and a budget."""
    about = bundle.about["limits"]
    return Limits(
        pruning=Pruning(about["r"], about["s"]),
        max_block=about["max_block"],
        budget=Budget(max_measurements, time_limit),
    )


def bundle_search(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    folder: Path,
    limits: Limits,
    progress: Progress,
    *,
    measure_again: bool = True,
) -> BundleSearch:
    """Set up a search whose measurements are kept in ``log.jsonl`` of a folder.

    Without ``measure_again`` nothing that the log has is measured again.
    """
    header = LogHeader(backend.device.name, bundle.about["target"], bundle.about["versions"]["tvm"])
    log = MeasurementLog(folder / "log.jsonl", header)
    if not measure_again:
        log.reuse()
    kernels = backend.compiler
    graph, parts = bundle.graph, bundle.parts
    timer = StageTimer(MeasuredUnits(graph, lambda u: u, kernels, backend.device, log, parts))
    costs = measured_costs(timer, progress, choose_forms=kernels.has_choices)
    blocks = cut_blocks(graph, limits.max_block)
    problem = Problem(graph, blocks, mergeable=kernels.mergeable)
    return BundleSearch(Search(problem, costs, limits, progress), timer)


def search_policies(
    search: Search, policies: tuple[str, ...], folder: Path
) -> tuple[Mapping[str, Found], Mapping[str, str]]:
    """Search and save each policy's schedule; return those found, and why others failed."""
    found: dict[str, Found] = {}
    skipped: dict[str, str] = {}
    for policy in policies:
        require_fit(policy_named(policy), search.costs, search.limits)
    for policy in dict.fromkeys(("sequential", *policies)):
        try:
            found[policy] = search.find(policy, priced=True)
        except UserError as error:
            if policy == "sequential":
                raise
            skipped[policy] = str(error)
        else:
            path = folder / f"schedule-{policy}.json"
            found[policy].schedule.save(path, search.problem.units)
    return found, skipped
