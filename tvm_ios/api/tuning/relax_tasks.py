"""What there is to tune in a model: the contractions of its units and of its merge candidates."""

from __future__ import annotations

from relay_passes.measured import MeasuredSearch
from relay_passes.merge_candidates import merge_candidates
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.task import Task
from runtime_ext.tuning.tuning_folder import workload_name
from runtime_ext.units.plans import plan_unit


def tuning_tasks(search: MeasuredSearch) -> tuple[Task, ...]:
    """The different contractions that the search may put into a program.

    Those of the units come first, then those of units that an ending within the search's
    pruning holds and that can be merged.
    """
    found: dict[str, Task] = {}
    space = search.compiler.space

    def add(units: tuple[int, ...], weight: int, merged: int) -> None:
        name = "+".join(search.prepared.units.operators[u].name for u in units)
        for kernel in plan_unit(search.source(units).alone, space).kernels:
            if not isinstance(kernel.spec, Contraction):
                continue
            key = workload_name(space.workload(kernel.spec))
            known = found.setdefault(key, Task(name, kernel.spec, 0, 0))
            found[key] = Task(known.name, known.spec, known.weight + weight, known.merged + merged)

    for number in range(len(search.prepared.units)):
        add((number,), 1, 0)
    for units, places in merge_candidates(search).items():
        add(units, 0, places)
    return tuple(found.values())
