"""What there is to tune in a model: the contractions of its units and of its merge candidates."""

from __future__ import annotations

from relay_passes.measured_module import MeasuredModule
from relay_passes.relax.target_units import RelaxUnits
from tvm_ios.ios.merge_candidates import merge_candidates
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.task import Task
from runtime_ext.tuning.tuning_folder import workload_name
from runtime_ext.units.unit import plan_unit


def tuning_tasks(module: MeasuredModule[RelaxUnits]) -> tuple[Task, ...]:
    """The different contractions that the search may put into a program.

    Those of the units come first, then those of units that an ending within the search's
    pruning holds and that can be merged.
    """
    found: dict[str, Task] = {}
    space = module.units.kernels.space

    def add(units: tuple[int, ...], weight: int, merged: int) -> None:
        name = "+".join(module.prepared.units.operators[u].name for u in units)
        for kernel in plan_unit(module.units.source(units).alone, space).kernels:
            if not isinstance(kernel.spec, Contraction):
                continue
            key = workload_name(space.workload(kernel.spec))
            known = found.setdefault(key, Task(name, kernel.spec, 0, 0))
            found[key] = Task(known.name, known.spec, known.weight + weight, known.merged + merged)

    for number in range(len(module.prepared.units)):
        add((number,), 1, 0)
    for units, places in merge_candidates(
        module.graph, module.problem.blocks, module.options.limits.pruning
    ).items():
        add(units, 0, places)
    return tuple(found.values())
