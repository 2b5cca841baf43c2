"""The results that a bundle brought back from its machine, as plain data for pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_ios.costs.stage_spans import schedule_spans
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.report.document import graph_document, policy_document, staged_document, target_name
from tvm_ios.schedule.schedule import Schedule

_BUNDLE, _UNITS, _RESULTS = "bundle.json", "units.json", "results"


def is_bundle(path: Path) -> bool:
    """Return whether a folder is a bundle."""
    return (path / _BUNDLE).is_file()


def bundle_document(folder: Path) -> dict[str, Any]:
    """Return the results of a bundle that was run on its machine as the document of a page.

    It has the latencies of stages, units and policies; launches were not traced. Raise UserError if
    the bundle was not run yet, or its files are not as ``run.py`` writes them.
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
    name: str, found: Mapping[str, Any], graph: OpGraph, schedule: Schedule, sequential: Schedule
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
    # If no policy beat the sequential program, that is the kept one: show it once.
    chosen = both if schedule.stages != sequential.stages else both[1:]
    lanes = int(found["lanes"])
    latency = next(r["latency_ms"] for r in found["policies"] if r["policy"] == found["kept"])
    facts = {
        "device": found["device"],
        "target": target_name(found["target"]),
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
        "policies": [policy_document(row) for row in found["policies"]],
        "kept": found["kept"],
        "confirmed": found["confirmed"],
    }
