"""What there is to tune in a Relay model: AutoTVM's tasks of its units and merge candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import autotvm

from tvm_ios.ios.merge_candidates import merge_candidates
from relay_passes.measured_module import MeasuredModule
from relay_passes.relay.target_units import RelayUnits
from runtime_ext.relay.autotvm_task import AutotvmTask
from tvm_ios.progress import Progress


def tuning_tasks(
    module: MeasuredModule[RelayUnits], progress: Progress | None = None
) -> tuple[AutotvmTask, ...]:
    """The different tasks of what the search may put into a program.

    Those of the units come first, then those of units that can be merged.
    """
    units = {(number,): 0 for number in range(len(module.prepared.units))}
    merges = merge_candidates(
        module.graph, module.problem.blocks, module.options.limits.pruning
    )
    found: dict[tuple[Any, ...], AutotvmTask] = {}
    extracted: dict[int, list[Any]] = {}
    for done, (members, places) in enumerate((units | merges).items()):
        name = "+".join(module.prepared.units.operators[u].name for u in members)
        for task in _tasks(module.units.plain(members).function, module.units.target, extracted):
            key = (task.name, task.args)
            known = found.setdefault(key, AutotvmTask(name, task, 0, 0))
            weight = known.weight + (len(members) == 1)
            found[key] = replace(known, weight=weight, merged=known.merged + places)
        if progress is not None:
            progress("extracting tasks", done + 1, len(units) + len(merges))
    return tuple(found.values())


def _tasks(function: Any, target: tvm.target.Target, extracted: dict[int, list[Any]]) -> list[Any]:
    """AutoTVM's tasks of a function; of equal functions they are extracted once."""
    digest = tvm.ir.structural_hash(function)
    if digest not in extracted:
        extracted[digest] = autotvm.task.extract_from_program(function, target=target, params={})
    return extracted[digest]
