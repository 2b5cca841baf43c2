"""What there is to tune in a Relay model: AutoTVM's tasks of its units and merge candidates."""

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
    """The different tasks of what a search may put into a program.

    Those of the units come first, then those of units that can be merged.

    Parameters
    ----------
    model
        Whose sources are Relay functions in the layouts of the model.
    target
        Of the kernels.
    progress
        Called with (what, done, total).
    """
    merges = {units: len(places) for units, places in model.merges.items()}
    every = {(unit,): 0 for unit in range(len(model.graph))} | merges
    tasks: dict[tuple[Any, ...], AutotvmTask] = {}
    extracted: dict[int, list[Any]] = {}
    for done, (units, places) in enumerate(every.items()):
        for inner in _extracted(model.source(units), target, extracted):
            key = (inner.name, inner.args)
            task = tasks.setdefault(key, AutotvmTask(model.named(units), inner, 0, 0))
            weight = task.weight + (len(units) == 1)
            tasks[key] = replace(task, weight=weight, merged=task.merged + places)
        progress("extracting tasks", done + 1, len(every))
    return tuple(tasks.values())


def _extracted(function: Any, target: tvm.target.Target, known: dict[int, list[Any]]) -> list[Any]:
    """AutoTVM's tasks of a function; of equal functions they are extracted once."""
    digest = tvm.ir.structural_hash(function)
    if digest not in known:
        known[digest] = autotvm.task.extract_from_program(function, target=target, params={})
    return known[digest]
