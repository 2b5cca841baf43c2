"""Pages that show executables, and what bundles found on other machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.costs.stage_spans import schedule_spans
from tvm_ios.errors import UserError
from tvm_ios.explain.arena_use import least_arena
from tvm_ios.explain.unit_times import UnitTime, unit_times
from tvm_ios.files.atomic import require_writable, write_atomically
from tvm_ios.files.json_text import json_object
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.report.document import graph_document, run_document, staged_document
from tvm_ios.report.page import render
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

if TYPE_CHECKING:
    from runtime_ext.explain import Explanation
    from tvm_ios.measuring.timing_device import TimingDevice

_BUNDLE, _UNITS, _RESULTS = "bundle.json", "units.json", "results"


def require_page(path: Path) -> None:
    """Find out before long work whether a page can be written here.

    Raises
    ------
    UserError
        If its name does not end in ``.html``, by which browsers know it.
    OSError
        If it could not be written.
    """
    if path.suffix not in (".html", ".htm"):
        raise UserError(f"{path} is no name of a page: it must end in .html")
    require_writable(path)


def write_page(documents: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the page of one document, or of two side by side.

    Raises
    ------
    UserError
        As :func:`tvm_ios.report.page.render`.
    OSError
        If the file cannot be written.
    """
    title = " and ".join(str(document["name"]) for document in documents)
    write_atomically(path, render(documents, f"tvm-ios: {title}").encode())


def is_bundle(path: Path) -> bool:
    """Whether there is a bundle, whose results stand beside it."""
    return (path / _BUNDLE).is_file()


def executable_document(
    path: Path, repeat: int = 40, device: TimingDevice | None = None
) -> dict[str, Any]:
    """Run an executable, and its kernels one after another, and say what a page shows.

    Parameters
    ----------
    path
        What ``tvm-ios optimize`` wrote.
    repeat
        Runs to profile.
    device
        What times it, in the place of this machine.

    Raises
    ------
    UserError
        If it is another runtime's build, or as :func:`runtime_ext.explain.explain`.
    """
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.explain import explain

    explanation = explain(path, repeat, device=device, beside=True)
    if isinstance(explanation, ForeignBuild):
        raise UserError(
            f"{path} is {explanation.sentence}, and only that runtime can say what it launches: "
            "`tvm-ios optimize --fallback none` keeps a program of ours"
        )
    return explained_document(path.name, explanation)


def explained_document(name: str, explanation: Explanation) -> dict[str, Any]:
    """What a page shows of an executable that was run.

    Parameters
    ----------
    name
        What the page calls it.
    explanation
        With the program of the same kernels one after another, if the page is to have it.
    """
    executable, work = explanation.executable, explanation.work
    schedule = Schedule.from_json(executable.schedule)
    blocks = [region.units for region in explanation.blocks]
    overall, *advice = explanation.advice
    runs = [run_document(explanation.policy, work, explanation.timeline)]
    if explanation.sequential is not None:
        title = "the same kernels, one unit after another on all lanes"
        runs.insert(0, run_document(title, *explanation.sequential))
    graph = graph_document(
        work.unit_graph,
        explanation.kinds,
        schedule.stages,
        blocks,
        _of_schedule(schedule, executable.schedule["units"]),
    )
    for unit, figures in zip(graph["units"], _figures(explanation), strict=True):
        unit |= figures
    names = explanation.names
    notes = executable.notes
    return {
        "format": "tvm-ios report",
        "version": 1,
        "name": name,
        "model": str(notes.get("model", "")),
        "policy": explanation.policy,
        "basis": "measured" if explanation.device is None else f"timed by {explanation.device}",
        "lanes": explanation.lanes,
        "latency_ms": explanation.latency * 1e3,
        "disturbance": explanation.disturbance,
        "preemptions": explanation.preemptions,
        "peak": {
            "gflops": explanation.peaks.flops / 1e9,
            "gbps": explanation.peaks.bandwidth / 1e9,
        },
        "facts": _facts(executable.target, explanation),
        **graph,
        "runs": runs,
        "memory": {
            "arena_bytes": explanation.arena,
            "unshared_bytes": explanation.unshared,
            "least_bytes": least_arena(executable.program),
        },
        "total": {**explanation.total.to_json(names), "advice": overall},
        "blocks": [
            {**region.to_json(names), "units": region.units, "advice": sentence}
            for region, sentence in zip(explanation.blocks, advice, strict=True)
        ],
        "policies": [_policy(row) for row in notes.get("policies", ())],
        "kept": str(notes.get("kept", explanation.policy)),
        "confirmed": dict(notes.get("confirmed", {})),
    }


def bundle_document(folder: Path) -> dict[str, Any]:
    """What a page shows of the results that a bundle brought back from its machine.

    There are the latencies of stages and units, and of policies; launches were not traced.

    Raises
    ------
    UserError
        If the bundle was not run yet, or its files are not as ``run.py`` writes them.
    """
    results = folder / _RESULTS
    if not (results / "results.json").is_file():
        raise UserError(f"{folder} has no results yet: run `python {folder}/run.py` on its machine")
    try:
        found = json_object((results / "results.json").read_bytes())
        kept = str(found["kept"])
        graph = OpGraph.from_json(json_object((folder / _UNITS).read_bytes())["graph"])
        schedules = {
            policy: Schedule.load(results / f"schedule-{policy}.json")
            for policy in dict.fromkeys(("sequential", kept))
        }
        for schedule in schedules.values():
            schedule.validate(graph)
        return _bundled(folder.name, found, graph, schedules[kept], schedules["sequential"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{results} lacks or misstates {error}: run the bundle again") from error


def _bundled(
    name: str,
    found: Mapping[str, Any],
    graph: OpGraph,
    schedule: Schedule,
    sequential: Schedule,
) -> dict[str, Any]:
    names = [op.name for op in graph.operators]
    blocks = [tuple(bits(block)) for block in cut_blocks(graph)]
    document = graph_document(
        graph,
        [op.kind for op in graph.operators],
        schedule.stages,
        blocks,
        {unit_name: (number,) for number, unit_name in enumerate(names)},
    )
    for number, (unit, op) in enumerate(zip(document["units"], graph.operators, strict=True)):
        seconds = schedule.unit_latencies.get(number)
        unit |= {
            "ms": None if seconds is None else seconds[-1] * 1e3,
            "flops": op.flops,
            "bytes": graph.operator_bytes(number),
            "rkernel": schedule.kernels.get(number, ""),
        }
    both = [("one unit after another", sequential), (schedule.policy, schedule)]
    # Where nothing beat the sequential program, that is the one.
    chosen = both if schedule.stages != sequential.stages else both[1:]
    lanes = int(found["lanes"])
    latency = next(r["latency_ms"] for r in found["policies"] if r["policy"] == found["kept"])
    facts = {
        "device": found["device"],
        "target": _target(found["target"]),
        "when": found.get("date", ""),
    }
    return {
        "format": "tvm-ios report",
        "version": 1,
        "name": name,
        "model": str(found["model"]),
        "policy": schedule.policy,
        "basis": "stages and units were measured, launches were not",
        "lanes": lanes,
        "latency_ms": latency,
        "facts": [[label, str(value)] for label, value in facts.items() if value],
        **document,
        "runs": [
            staged_document(title, schedule_spans(graph, s, lanes=lanes)) for title, s in chosen
        ],
        "blocks": [{"units": units} for units in blocks],
        "policies": [_policy(row) for row in found["policies"]],
        "kept": found["kept"],
        "confirmed": found["confirmed"],
    }


def _figures(explanation: Explanation) -> list[dict[str, Any]]:
    """What the table of units says of each."""
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


def _speed(flops: int | None, time: UnitTime, peak_of_lane: float) -> dict[str, float | None]:
    if flops is None or not time.seconds:
        return {"gflops": None, "of_peak": None}
    return {
        "gflops": flops / time.seconds / 1e9,
        "of_peak": flops / time.lane_seconds / peak_of_lane,
    }


def _described(schedule: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of units that are not merged the types and attributes, and the rKernel that was chosen."""
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


def _of_schedule(schedule: Schedule, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """For each name of a unit of the program the schedule's units that it computes."""
    result: dict[str, tuple[int, ...]] = {name: (number,) for number, name in enumerate(names)}
    for stage in schedule.stages:
        if stage.strategy is Strategy.MERGE:
            result["+".join(names[unit] for unit in stage.units)] = stage.units
    return result


def _facts(target: str, explanation: Explanation) -> list[list[str]]:
    executable = explanation.executable
    reference = executable.notes.get("reference")
    facts = {
        "scheduled for": executable.schedule.get("device", ""),
        "run on": explanation.device or "this machine",
        "target": _target(target),
        "fingerprint": executable.fingerprint,
        "verified against": reference,
        "tail": explanation.tail,
    }
    return [[label, str(value)] for label, value in facts.items() if value]


def _target(text: str) -> str:
    """What people call a target, which is JSON in some versions of TVM."""
    try:
        target = json.loads(text)
        return " ".join(str(target[key]) for key in ("kind", "mcpu", "arch") if target.get(key))
    except (ValueError, AttributeError, TypeError):
        return text


def _policy(row: Mapping[str, Any]) -> dict[str, Any]:
    ms = row["latency_ms"] if "latency_ms" in row else row["latency"] * 1e3
    return {
        "policy": str(row["policy"]),
        "ms": ms,
        "ratio": row.get("ratio"),
        "stages": row.get("stages"),
        "error": row.get("max_rel_error"),
    }
