"""The content of a report page, as plain data.

A document has ``units`` with their stage, group and block, ``edges`` between them, ``runs`` (the
spans of units on rows, waits between launches, and the bytes in use), ``blocks`` with their bounds
and advice, ``policies`` with their results, and ``facts`` of the machine and the model. Times are
milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm_ios.costs.stage_spans import ScheduleSpans
from tvm_ios.explain.arena_use import arena_use
from tvm_ios.explain.tasks import Work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.explain.waits import awaited_launches
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.operator_families import family_of
from tvm_ios.schedule.stage import Stage

#: Decimals of milliseconds: 10 ns.
_DECIMALS = 5


def run_document(title: str, work: Work, run: Timeline, row: str) -> dict[str, Any]:
    """Return the document of a measured run, or of one that a device timed launch by launch.

    ``row`` names a row of it: a lane, or a stream.
    """
    number = {(step.lane, step.place): place for place, step in enumerate(run.steps)}
    return {
        "title": title,
        "ms": milliseconds(run.seconds),
        "row": row,
        "rows": run.lanes,
        "spans": [
            [s.unit, s.lane, s.lane, milliseconds(s.begin), milliseconds(s.end)] for s in run.steps
        ],
        "waits": [
            [number[w.lane, w.place], number[w.by_lane, w.by_place], milliseconds(w.seconds)]
            for w in awaited_launches(work.program, run)
        ],
        "arena": [[milliseconds(second), nbytes] for second, nbytes in arena_use(work, run)],
    }


def staged_document(title: str, spans: ScheduleSpans) -> dict[str, Any]:
    """Return the document of a schedule laid out by its stages, where no run was measured."""
    return {
        "title": f"{title} ({spans.basis.value})",
        "ms": milliseconds(spans.ends[-1]) if spans.ends else 0.0,
        "row": spans.row_name,
        "rows": spans.rows,
        "spans": [
            [unit, s.first_row, s.last_row, milliseconds(s.begin), milliseconds(s.end)]
            for s in spans.spans
            for unit in s.units
        ],
        "waits": [],
        "arena": [],
    }


def graph_document(
    graph: OpGraph,
    kinds: Sequence[str],
    stages: Sequence[Stage],
    blocks: Sequence[Iterable[int]],
    of_schedule: Mapping[str, Sequence[int]],
) -> dict[str, Any]:
    """Return the units with their place in the schedule, and the tensors between them.

    ``of_schedule`` has, by name of a unit, the schedule's units that it computes: several if they
    are merged, none if it stands in no stage.
    """
    place = {
        unit: (number, stage.strategy.value, group_number)
        for number, stage in enumerate(stages)
        for group_number, group in enumerate(stage.groups)
        for unit in group
    }
    block_of = {unit: number for number, units in enumerate(blocks) for unit in units}
    units: list[dict[str, Any]] = []
    for number, (op, kind) in enumerate(zip(graph.operators, kinds, strict=True)):
        scheduled = of_schedule.get(op.name, ())
        stage, strategy, group = (
            place.get(scheduled[0], (None, "", 0)) if scheduled else (None, "", 0)
        )
        units.append(
            {
                "name": op.name,
                "kind": kind,
                "family": family_of(kind).value,
                "stage": stage,
                "strategy": strategy,
                "group": group,
                "block": block_of.get(number, 0),
                "outputs": [_tensor(graph, tensor) for tensor in op.outputs],
            }
        )
    edges = [
        [before, after] for after in range(len(graph)) for before in bits(graph.predecessors[after])
    ]
    return {"units": units, "edges": edges, "stages": len(stages)}


def policy_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's latency, ratio, stages and error from a row of notes or results.

    The row is of an executable's notes, or of a bundle's results.
    """
    ms = row["latency_ms"] if "latency_ms" in row else row["latency"] * 1e3
    return {
        "policy": str(row["policy"]),
        "ms": ms,
        "ratio": row.get("ratio"),
        "stages": row.get("stages"),
        "error": row.get("max_rel_error"),
    }


def target_name(text: str) -> str:
    """Return the usual name of a target, whose text is JSON in some versions of TVM."""
    try:
        target = json.loads(text)
        return " ".join(str(target[key]) for key in ("kind", "mcpu", "arch") if target.get(key))
    except (ValueError, AttributeError, TypeError):
        return text


def _tensor(graph: OpGraph, number: int) -> str:
    tensor = graph.tensors[number]
    return f"{'x'.join(map(str, tensor.shape))} {tensor.dtype}"


def milliseconds(seconds: float) -> float:
    """Return milliseconds rounded to 10 ns, the page's resolution."""
    return round(seconds * 1e3, _DECIMALS)
