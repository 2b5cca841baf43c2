"""The results of a sweep as rows: one per task, all with the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_ios.sweep.run import SweepOutcome
from tvm_ios.sweep.tasks import CrossingTask, MemoryTask, SearchTask, columns_of

_RESULTS = {
    **dict.fromkeys(("units", "stages"), "int64"),
    **dict.fromkeys(("latency_ms", "program_ms", "to_sequential", "to_specialised"), "float64"),
    **dict.fromkeys(("memory_kib", "search_seconds"), "float64"),
    **dict.fromkeys(("states", "transitions", "stages_measured"), "int64"),
    "complete": "bool",
    **dict.fromkeys(("peak_kib", "bound_kib", "arena_kib"), "float64"),
    "proof": "bool",
}
#: The columns of rows, and their types: of tasks, results, and their provenance.
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("kind", "model"), "string"),
    "batch": "int64",
    **dict.fromkeys(("shapes", "device", "policy"), "string"),
    **dict.fromkeys(("r", "s"), "int64"),
    "scheduler": "string",
    "made_for_batch": "int64",
    **dict.fromkeys(("made_for_shapes", "made_for_device"), "string"),
    **_RESULTS,
    "seconds": "float64",
    **dict.fromkeys(("worker", "key", "error"), "string"),
}


def rows_of(swept: SweepOutcome) -> list[dict[str, Any]]:
    """Return one row per task, in the order of the tasks.

    ``to_sequential`` is the latency divided by that of the policy ``sequential`` (of programs the
    median over pairs of runs), ``to_specialised`` the latency of a crossing's schedule divided by
    that of the schedule that was searched for the same conditions.
    """
    results = {task: o.get("result", {}) for task, o in swept.outcomes.items()}
    sequential = {
        (task.workload, task.device): latency_of(result)
        for task, result in results.items()
        if isinstance(task, SearchTask) and task.policy == "sequential"
    }
    rows: list[dict[str, Any]] = []
    for task, result in results.items():
        compared: dict[str, Any] = {}
        if not isinstance(task, MemoryTask):
            compared["to_sequential"] = result.get("to_sequential") or _ratio(
                latency_of(result), sequential.get((task.workload, task.device))
            )
        if isinstance(task, CrossingTask):
            own = SearchTask(task.workload, task.device, task.search.policy, task.search.pruning)
            compared["to_specialised"] = _ratio(
                latency_of(result), latency_of(results.get(own, {}))
            )
        columns = columns_of(task)
        columns["batch"] = columns["batch"] or result.get("graph_batch")
        outcome = swept.outcomes[task]
        rows.append(
            {
                **columns,
                **{name: compared.get(name, result.get(name)) for name in _RESULTS},
                "seconds": outcome.get("seconds"),
                "worker": outcome.get("worker"),
                "key": swept.keys[task],
                "error": outcome.get("error"),
            }
        )
    return rows


def latency_of(result: Mapping[str, Any]) -> float | None:
    """Return a result's latency in ms: of its program if that was timed, else of its stages.

    None if it has neither.
    """
    program = result.get("program_ms")
    return result.get("latency_ms") if program is None else program


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
