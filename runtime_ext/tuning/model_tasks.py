"""The tuning tasks of a model: the contractions of its units and of its merge candidates."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning_log.folder import workload_name
from runtime_ext.tuning_log.space import Space
from runtime_ext.units.plans import plan_unit
from tvm_ios.measuring.tuning import ModelToTune


def tuning_tasks(model: ModelToTune, space: Space) -> tuple[ContractionTask, ...]:
    """Return the distinct contractions that a search may put into a program.

    Those of the model's units come first, then those of units that can be merged. The model's
    sources must be :class:`runtime_ext.units.unit.UnitSource`.
    """
    tasks: dict[str, ContractionTask] = {}

    def add(units: tuple[int, ...], weight: int, merged: int) -> None:
        for kernel in plan_unit(model.source(units).alone, space).kernels:
            if not isinstance(kernel.spec, Contraction):
                continue
            key = workload_name(space.workload(kernel.spec))
            task = tasks.setdefault(key, ContractionTask(model.named(units), kernel.spec, 0, 0))
            tasks[key] = replace(task, weight=task.weight + weight, merged=task.merged + merged)

    for unit in range(len(model.graph)):
        add((unit,), 1, 0)
    for units, places in model.merges.items():
        add(units, 0, len(places))
    return tuple(tasks.values())
