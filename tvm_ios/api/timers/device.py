"""Time programs on a device of another package, as graphs of launches."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.api.reference import reference_for
from tvm_ios.api.timers.described import search_by
from tvm_ios.api.timers.timer import Timed
from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import Errors, Reference, Verify
from tvm_ios.contest.rounds import Samples
from tvm_ios.contest.verdict import PolicyResult, Verdict, kept_policy
from tvm_ios.errors import UserError
from tvm_ios.measuring.timing_device import RunningDevice, TimingDevice, timed
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.api.job import Job
    from tvm_ios.measuring.launch_graph import LaunchGraph
    from tvm_ios.search import Search


class DeviceTimer:
    """A timer that gives each program's launches to a timing device of another package."""

    def __init__(self, device: TimingDevice) -> None:
        self._device = device
        self.place: str | None = f"{device.name} {device.version}"

    def search(self, job: Job) -> Search:
        """Return the search by stages timed on the device, or by the costs of the options."""
        return job.module.search if job.options.cost is None else search_by(job)

    def time(self, job: Job, candidates: Candidates, allowed: Collection[str]) -> Timed:
        """Time each program by itself, and verify it first if the device can run programs.

        Raise UserError if the device has no time of the sequential program, or of any allowed one.
        """
        graphs = launch_graphs(self._device, candidates.built, job.loaded.name)
        if job.options.launches is not None:
            _write(graphs, job.options.launches)
        why_not = self._not_verified(job)
        reference = reference_for(
            job, candidates.built["sequential"], on_cpu=False, runs=not why_not
        )
        errors: dict[str, Errors] = {}
        if not why_not:
            reference, errors = self._verified(job, candidates, graphs, reference)
        samples, untimed = time_graphs(self._device, graphs, job.report)
        rows = tuple(
            PolicyResult(
                policy=policy,
                latency=statistics.median(seconds),
                ratio=statistics.median(seconds) / statistics.median(samples["sequential"]),
                stages=len(candidates.schedules[policy].stages),
                launches=len(graphs[policy].launches),
                max_abs_error=errors[policy][0] if errors else None,
                max_rel_error=errors[policy][1] if errors else None,
            )
            for policy, seconds in samples.items()
        )
        kept = _kept(samples, allowed)
        untried = sum(job.module.timer.untimed.values())
        return Timed(
            candidates,
            Verdict(rows, kept, {}, untimed, reference.source),
            reference,
            (f"{untried} stages were not tried: {next(iter(job.module.timer.untimed))}",)
            if untried
            else (),
            why_not,
        )

    def _not_verified(self, job: Job) -> str:
        """Return a sentence why programs are not verified; empty if they are."""
        if not isinstance(self._device, RunningDevice):
            return f"not verified: the device {self._device.name!r} times programs, and runs none"
        return "not verified: --verify off" if job.options.verify is Verify.off else ""

    def _verified(
        self,
        job: Job,
        candidates: Candidates,
        graphs: Mapping[str, LaunchGraph],
        reference: Reference,
    ) -> tuple[Reference, dict[str, Errors]]:
        from runtime_ext.cuda.plugged_device import PluggedSession
        from runtime_ext.verification.reference import judged

        assert isinstance(self._device, RunningDevice)
        errors: dict[str, Errors] = {}
        for done, (policy, graph) in enumerate(graphs.items()):
            job.report("verifying", done, len(graphs))
            session = PluggedSession(self._device, candidates.built[policy], graph)
            attempt = partial(verified, policy, session)
            reference, of_all = judged(job.loaded.original, reference, attempt)
            assert of_all is not None, "there is something to compare with"
            errors[policy] = of_all
        job.report("verifying", len(graphs), len(graphs))
        return reference, errors


def launch_graphs(
    device: TimingDevice, built: Mapping[str, BuiltModel], model: str
) -> dict[str, LaunchGraph]:
    """Return the graph of launches of each policy's program, for a device to time."""
    from runtime_ext.cuda.launch_graphs import launch_graph

    return {
        policy: launch_graph(
            program.program,
            program.kernels.function,
            device.arch,
            program.constants,
            model=model,
            policy=policy,
        )
        for policy, program in built.items()
    }


def _write(graphs: Mapping[str, LaunchGraph], folder: Path) -> None:
    from tvm_ios.measuring.launch_files import write_launches

    for policy, graph in graphs.items():
        write_launches(graph, folder / f"{policy}.json")


def time_graphs(
    device: TimingDevice, graphs: Mapping[str, LaunchGraph], report: Progress = silent
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Return the times of each policy's program, and the reasons of policies without any.

    Equal programs are timed once. Raise UserError if the sequential program has no time, because
    there is nothing to compare with then; another program that the device fails at has none.
    """
    samples: dict[str, tuple[float, ...]] = {}
    skipped: dict[str, str] = {}
    of_digest: dict[str, tuple[float, ...]] = {}
    for done, (policy, graph) in enumerate(graphs.items()):
        report("timing programs", done, len(graphs))
        try:
            if graph.digest not in of_digest:
                of_digest[graph.digest] = timed(device, graph).samples
        except UserError as error:
            if policy == "sequential":
                raise
            skipped[policy] = str(error)
        else:
            samples[policy] = of_digest[graph.digest]
    report("timing programs", len(graphs), len(graphs))
    return samples, skipped


def _kept(samples: Samples, allowed: Collection[str]) -> str:
    """Return the fastest policy if all its times are below all of the sequential program's."""
    fitting = [policy for policy in samples if policy in allowed]
    if not fitting:
        raise UserError("the device has no time of any program within the memory budget")
    best = min(fitting, key=lambda policy: statistics.median(samples[policy]))
    # A device's samples are not taken in pairs: the worst pair of them decides.
    worst = {best: [max(samples[best])], "sequential": [min(samples["sequential"])]}
    return kept_policy(best, [worst], "sequential" in fitting)[0]
