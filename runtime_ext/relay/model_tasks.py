"""Extract the AutoTVM tasks of a Relay model's units and merge candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import autotvm

from runtime_ext.relay.autotvm_task import AutotvmTask
from tvm_ios.measuring.tuning import ModelToTune
from tvm_ios.progress import Progress, silent


def tuning_tasks(
    model: ModelToTune, target: tvm.target.Target, progress: Progress = silent
) -> tuple[AutotvmTask, ...]:
    """Return the different tasks of all units, and then of all units that can be merged.

    The model's sources are Relay functions in its own layouts.
    """
    merges = {units: len(places) for units, places in model.merges.items()}
    merges_by_units = {(unit,): 0 for unit in range(len(model.graph))} | merges
    tasks: dict[tuple[Any, ...], AutotvmTask] = {}
    extracted: dict[int, list[Any]] = {}
    for done, (units, places) in enumerate(merges_by_units.items()):
        for autotvm_task in _extracted(model.source(units), target, extracted):
            key = (autotvm_task.name, autotvm_task.args)
            task = tasks.setdefault(key, AutotvmTask(model.named(units), autotvm_task, 0, 0))
            weight = task.weight + (len(units) == 1)
            tasks[key] = replace(task, weight=weight, merged=task.merged + places)
        progress("extracting tasks", done + 1, len(merges_by_units))
    return tuple(tasks.values())


def _extracted(
    function: Any, target: tvm.target.Target, tasks_by_digest: dict[int, list[Any]]
) -> list[Any]:
    """Return AutoTVM's tasks of a function; those of equal functions are cached."""
    digest = tvm.ir.structural_hash(function)
    if digest not in tasks_by_digest:
        tasks_by_digest[digest] = autotvm.task.extract_from_program(
            function, target=target, params={}
        )
    return tasks_by_digest[digest]
