"""From a model to the schedule that is fastest on a timing device of another package."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.candidates import Candidates, build_candidates, find_schedules, fitting
from tvm_ios.api.device_results import OnDevice, PolicyOnDevice
from tvm_ios.api.verified_on_device import verify_on_device
from tvm_ios.contest.outputs import Verify
from tvm_ios.errors import UserError
from tvm_ios.measuring.timing_device import TimingDevice, UntimedError, timed
from tvm_ios.models.source import AnyModel
from tvm_ios.policies.registry import tried_policies
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.published.imported import read_schedule

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.measuring.launch_graph import LaunchGraph
    from tvm_ios.search import Search


def optimize_on_device(
    model: AnyModel,
    output: Path | None,
    *,
    options: SearchOptions,
    cost: str | None = None,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    memory_budget: int | None = None,
    launches: Path | None = None,
    verify: Verify = Verify.onnx,
    progress: Progress | None = None,
) -> OnDevice:
    """Schedule a model for the timing device of the options, and keep what is fastest there.

    A schedule is kept only if every time of its program is below every one of the sequential
    program's. Where the device computes, outputs are compared first; where it cannot, nothing is
    verified, and the result says so.

    Parameters
    ----------
    model, policies, schedule, memory_budget, progress
        As of :func:`tvm_ios.api.optimize`.
    output
        Where the executable goes; its schedule goes beside it, as ``NAME.schedule.json``. None to
        save neither.
    options
        Their ``device`` times the programs.
    cost
        What the searches go by: by default stages timed on the device; else a described device's
        name or file, or a log (``.jsonl``). The device then times whole programs alone.
    launches
        A folder for the launches of each policy's program, as files.
    verify
        What the programs' outputs are compared with.

    Raises
    ------
    UserError
        If the model cannot be scheduled, or the device has no time of its sequential program.
    VerificationError
        If a program computes something else on the device.
    MemoryBudgetError
        If no program fits into the memory budget.
    """
    from relay_passes.load import load_model
    from runtime_ext.execution.package import require_writable

    device, report = options.device, progress or silent
    assert device is not None, "the options have one"
    if output is not None:
        require_writable(output)
    loaded = load_model(model, report)
    from relay_passes.checks import require_numpy_types
    from relay_passes.measured_module import measured_module

    prepared = loaded.prepared()
    require_numpy_types(prepared)
    module = measured_module(prepared, options, progress)
    search = _search(module, cost)
    tried, broken = (
        tried_policies(search.costs.offers, prepared.units) if policies is None else (policies, ())
    )
    found, skipped = find_schedules(module, ("sequential", *tried), search, memory_budget)
    schedules = {policy: each.schedule for policy, each in found.items()}
    if schedule is not None:
        schedules["given"] = read_schedule(schedule, prepared.units).schedule
    candidates = build_candidates(module, schedules, report)
    graphs = launch_graphs(device, candidates.built, loaded.name)
    if launches is not None:
        _write(graphs, launches)
    errors, reference, not_verified = verify_on_device(
        loaded, device, candidates.built, graphs, options, verify, report
    )
    samples, untimed = time_graphs(device, graphs, report)
    skipped |= {**candidates.unbuilt, **untimed}
    rows = _rows(candidates, graphs, samples, errors)
    kept = _kept(samples, fitting(candidates.built, memory_budget, skipped))
    built = candidates.built[kept]
    where = f"{device.name} {device.version}"
    schedule_path = None
    if output is not None:
        notes = {
            "model": loaded.name,
            "policies": [asdict(row) for row in rows],
            "kept": kept,
            "reference": reference,
            "precision": options.precision or "float32",
            "timed_on": where,
        }
        built.save(output, notes, loaded.tail)
        schedule_path = output.with_name(f"{output.stem}.schedule.json")
        candidates.schedules[kept].save(schedule_path, prepared.units)
    if cost is None:
        module.end_run()
    untimed_stages = sum(module.timer.untimed.values())
    return OnDevice(
        model=loaded.name,
        device=where,
        cost=cost or "measured",
        policies=rows,
        kept=kept,
        reference=reference,
        not_verified=not_verified,
        skipped=skipped,
        stages_measured=module.timer.stages_measured,
        memory=built.memory,
        executable=output,
        schedule=schedule_path,
        notes=(
            *([] if loaded.tail is None else [loaded.tail.sentence]),
            *broken,
            *(
                [f"{untimed_stages} stages were not tried: {next(iter(module.timer.untimed))}"]
                if untimed_stages
                else []
            ),
        ),
    )


def _search(module: MeasuredModule[Any], cost: str | None) -> Search:
    if cost is None:
        return module.search
    return module.recorded(Path(cost)) if cost.endswith(".jsonl") else module.described(cost)


def launch_graphs(
    device: TimingDevice, built: Mapping[str, BuiltModel], model: str
) -> dict[str, LaunchGraph]:
    """The launches of the policies' programs, as a device times them.

    Parameters
    ----------
    device
        The device that the programs were built for.
    built
        For each policy its program.
    model
        The model's name.
    """
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
    """Times of each policy's program, and why others have none; equal programs are timed once.

    Raises
    ------
    UntimedError
        If the sequential program has none: there is nothing to compare with then.
    """
    samples: dict[str, tuple[float, ...]] = {}
    skipped: dict[str, str] = {}
    of_digest: dict[str, tuple[float, ...]] = {}
    for done, (policy, graph) in enumerate(graphs.items()):
        report("timing programs", done, len(graphs))
        try:
            if graph.digest not in of_digest:
                of_digest[graph.digest] = timed(device, graph).samples
        except UntimedError as error:
            if policy == "sequential":
                raise
            skipped[policy] = str(error)
        else:
            samples[policy] = of_digest[graph.digest]
    report("timing programs", len(graphs), len(graphs))
    return samples, skipped


def _rows(
    candidates: Candidates,
    graphs: Mapping[str, LaunchGraph],
    samples: Mapping[str, Sequence[float]],
    errors: Mapping[str, float],
) -> tuple[PolicyOnDevice, ...]:
    sequential = statistics.median(samples["sequential"])
    return tuple(
        PolicyOnDevice(
            policy=policy,
            stages=len(candidates.schedules[policy].stages),
            launches=len(graphs[policy].launches),
            latency=statistics.median(seconds),
            ratio=statistics.median(seconds) / sequential,
            max_rel_error=errors.get(policy),
        )
        for policy, seconds in samples.items()
    )


def _kept(samples: Mapping[str, Sequence[float]], allowed: Collection[str]) -> str:
    """The fastest policy, if it is always faster than the sequential one."""
    fitting = [policy for policy in samples if policy in allowed]
    if not fitting:
        raise UserError("the device has no time of any program within the memory budget")
    best = min(fitting, key=lambda policy: statistics.median(samples[policy]))
    if "sequential" not in fitting or max(samples[best]) < min(samples["sequential"]):
        return best
    return "sequential"
