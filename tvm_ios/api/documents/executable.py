"""The profile of an executable's run as plain data, for ``explain --json`` and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.errors import UserError
from tvm_ios.explain.arena_use import least_arena
from tvm_ios.explain.unit_times import UnitTime, unit_times
from tvm_ios.report.document import graph_document, policy_document, run_document, target_name
from tvm_ios.report.inside_kernels import inside_kernels
from tvm_ios.schedule.computed_units import computed_units
from tvm_ios.schedule.schedule import ORIGINS, UNROLLED_FROM, Schedule

#: Keys of :func:`explanation_json` that a page takes unchanged.
_SAID = (
    "policy",
    "lanes",
    "latency_ms",
    "disturbance",
    "preemptions",
    "held_up_ms",
    "peak",
    "total",
)

if TYPE_CHECKING:
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.explain import Explanation
    from tvm_ios.measuring.timing_device import TimingDevice


def executable_document(
    path: Path,
    repeat: int = 40,
    device: TimingDevice | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Profile an executable, and its kernels one after another; return the document of a page.

    ``repeat`` runs are profiled, on ``device`` if it is given; ``shapes`` are those of the inputs
    of a program for a range. Raise UserError if the executable is
    another runtime's build, or as :func:`runtime_ext.explain.explain`.
    """
    from runtime_ext.explain import explain

    explained = explain(path, repeat, device=device, beside=True, shapes=shapes)
    explanation = require_ours(path, explained)
    return explained_document(path.name, explanation)


def require_ours(path: Path, explanation: Explanation | ForeignBuild) -> Explanation:
    """Return the explanation of an executable of ours.

    Raise UserError if it holds another runtime's build, of which no launches are known.
    """
    from runtime_ext.execution.foreign_build import ForeignBuild

    if isinstance(explanation, ForeignBuild):
        raise UserError(
            f"{path} is {explanation.sentence}, and only that runtime can say what it launches: "
            "`tvm-ios optimize --fallback none` keeps a program of ours"
        )
    return explanation


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return the JSON object that ``explain --json`` prints."""
    total, *blocks = [
        {**region.to_json(explanation.names), "advice": advice}
        for region, advice in zip(
            (explanation.total, *explanation.blocks), explanation.advice, strict=True
        )
    ]
    return {
        "policy": explanation.policy,
        **({} if explanation.device is None else {"device": explanation.device}),
        "measured_ms": {policy: seconds * 1e3 for policy, seconds in explanation.measured.items()},
        "lanes": explanation.lanes,
        "memory": {"arena_bytes": explanation.arena, "unshared_bytes": explanation.unshared},
        "latency_ms": explanation.latency * 1e3,
        "disturbance": explanation.disturbance,
        "preemptions": explanation.preemptions,
        "held_up_ms": explanation.held_up * 1e3,
        "peak": {
            "gflops": explanation.peaks.flops / 1e9,
            "gbps": explanation.peaks.bandwidth / 1e9,
            "cache_bytes": explanation.peaks.cache,
        },
        "tail": explanation.tail,
        "total": total,
        "blocks": blocks,
        "hot": [
            {
                "units": [explanation.names[unit] for unit in row.units],
                "kernels": row.kernels,
                "ms": row.seconds * 1e3,
                "share": row.share,
                "gflops": None if row.flops_per_second is None else row.flops_per_second / 1e9,
                "gbps": row.bytes_per_second / 1e9,
            }
            for row in explanation.hot
        ],
    }


def explained_document(name: str, explanation: Explanation) -> dict[str, Any]:
    """Return the document of a page called ``name`` about a profiled executable.

    It shows the run of the same kernels one after another too, if the explanation has it.
    """
    executable, work = explanation.executable, explanation.work
    schedule = Schedule.from_json(executable.schedule)
    blocks = [region.units for region in explanation.blocks]
    row = "lane" if executable.arch is None else "stream"
    runs = [run_document(explanation.policy, work, explanation.timeline, row)]
    if explanation.sequential is not None:
        title = "the same kernels, one unit after another"
        title += " on all lanes" if executable.arch is None else ""
        runs.insert(0, run_document(title, *explanation.sequential, row))
    if executable.arch is not None:
        runs += inside_kernels(executable.schedule, work.program.units, explanation.timeline)
    computed = computed_units(schedule, executable.schedule["units"])
    graph = graph_document(work.unit_graph, explanation.kinds, schedule.stages, blocks, computed)
    instances = _instances(executable.schedule)
    for unit, figures in zip(graph["units"], _figures(explanation), strict=True):
        unit |= figures | instances.get(unit["name"], {})
    said, notes = explanation_json(explanation), executable.notes
    least = {"least_bytes": least_arena(executable.program)}
    return {
        "format": "tvm-ios report",
        "version": 1,
        "name": name,
        "model": str(notes.get("model", "")),
        "basis": "measured" if explanation.device is None else f"timed by {explanation.device}",
        **{key: said[key] for key in _SAID},
        "memory": said["memory"] | least,
        "facts": _facts(executable.target, explanation),
        **graph,
        "runs": runs,
        "blocks": [
            {**block, "units": units} for block, units in zip(said["blocks"], blocks, strict=True)
        ],
        "policies": [policy_document(row) for row in notes.get("policies", ())],
        "kept": str(notes.get("kept", explanation.policy)),
        "confirmed": dict(notes.get("confirmed", {})),
    }


def _figures(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the rows of the table of units: times, speed, bytes, kernels and forms."""
    work, executable = explanation.work, explanation.executable
    nbytes = [0] * len(work.program.units)
    kernels: list[list[str]] = [[] for _ in nbytes]
    for number, task in enumerate(work.tasks):
        nbytes[task.unit] += work.nbytes(number)
        kernels[task.unit].append(task.kernel)
    notes = executable.notes.get("units", {})
    described = _described(executable.schedule)
    times = unit_times(len(nbytes), explanation.runs)
    peak_of_lane = explanation.peaks.flops / explanation.lanes
    rows: list[dict[str, Any]] = []
    for unit, (name, time) in enumerate(zip(work.program.units, times, strict=True)):
        flops = None if explanation.flops is None else explanation.flops[unit]
        rows.append(
            {
                "ms": time.seconds * 1e3,
                "lane_ms": time.lane_seconds * 1e3,
                "flops": flops,
                **_speed(flops, time, peak_of_lane),
                "bytes": nbytes[unit],
                "kernels": kernels[unit],
                **{
                    key: notes[name][key]
                    for key in ("forms", "tuned", "library")
                    if key in notes.get(name, {})
                },
                **described.get(name, {}),
            }
        )
    return rows


def _instances(schedule: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Map names of units that run in instances to their sub-graph and the part they compute."""
    if UNROLLED_FROM not in schedule:
        return {}
    subgraphs = schedule[UNROLLED_FROM]["instances"]["subgraphs"]
    owner = {unit: number for number, one in enumerate(subgraphs) for unit in one["units"]}
    origins = schedule[ORIGINS]
    subgraph_of = {instance: owner[unit] for instance, unit, _ in origins if unit in owner}
    # The instances of a sub-graph are numbered one after another.
    first = {number: instance for instance, number in sorted(subgraph_of.items(), reverse=True)}
    return {
        name: {"subgraph": number, "part": instance - first[number]}
        for name, (instance, *_) in zip(schedule["units"], origins, strict=True)
        if (number := subgraph_of.get(instance)) is not None
    }


def _speed(flops: int | None, time: UnitTime, peak_of_lane: float) -> dict[str, float | None]:
    if flops is None or not time.seconds:
        return {"gflops": None, "of_peak": None}
    return {
        "gflops": flops / time.seconds / 1e9,
        "of_peak": flops / time.lane_seconds / peak_of_lane,
    }


def _described(schedule: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Map names of unmerged units to their types, attributes and chosen rKernel."""
    graph, chosen = schedule.get("graph", {}), schedule.get("kernels", {})
    result: dict[str, dict[str, Any]] = {}
    for number, (name, unit) in enumerate(
        zip(schedule["units"], graph.get("units", ()), strict=False)
    ):
        attributes = {
            key: value
            for key, value in unit.items()
            if key not in ("kind", "reads", "input types", "output types")
        }
        result[str(name)] = {
            "types": {"inputs": unit["input types"], "outputs": unit["output types"]},
            "attributes": attributes,
            **({"rkernel": chosen[str(number)]} if str(number) in chosen else {}),
        }
    return result


def _facts(target: str, explanation: Explanation) -> list[list[str]]:
    executable = explanation.executable
    reference = executable.notes.get("reference")
    facts = {
        "scheduled for": executable.schedule.get("device", ""),
        "run on": explanation.device or "this machine",
        "target": target_name(target),
        "fingerprint": executable.fingerprint,
        "verified against": reference,
        "tail": explanation.tail,
    }
    return [[label, str(value)] for label, value in facts.items() if value]
