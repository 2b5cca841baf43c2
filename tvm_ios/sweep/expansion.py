"""Expanding a sweep's file into its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import permutations, product
from typing import Any

from tvm_ios.policies.registry import policy_named
from tvm_ios.sweep.sweep_file import SweepFile
from tvm_ios.sweep.tasks import CrossingTask, MemoryTask, SearchTask, Task
from tvm_ios.sweep.toml_values import SweepError


def expand(sweep: SweepFile) -> tuple[Task, ...]:
    """Return all tasks: searches in the order of the file, their crossings, and memory schedulers.

    Raise SweepError if an exclusion fits no task, or nothing is left.
    """
    searches = [
        SearchTask(*values)
        for values in product(sweep.workloads, sweep.devices, sweep.policies, sweep.pruning)
    ]
    orders = [MemoryTask(*values) for values in product(sweep.workloads, sweep.memory)]
    for number, exclusion in enumerate(sweep.exclude, start=1):
        if not any(_fits(exclusion, task) for task in (*searches, *orders)):
            raise SweepError(f"entry {number} of exclude fits no task: {dict(exclusion)}")
    left = [t for t in searches if not any(_fits(e, t) for e in sweep.exclude)]
    orders = [t for t in orders if not any(_fits(e, t) for e in sweep.exclude)]
    crossings = [task for crossed_by in sweep.crossings for task in _crossed(left, crossed_by)]
    tasks = (*left, *crossings, *orders)
    if not tasks:
        raise SweepError("exclude leaves no task")
    return tasks


def _crossed(searches: Sequence[SearchTask], crossed_by: str) -> Iterator[CrossingTask]:
    """Yield a task for each two searches that differ in ``crossed_by`` alone, both ways round.

    It prices the schedule that the one finds on the workload and device of the other. Policies
    that ask for no costs are left out: they find the same schedule everywhere.
    """

    def others(task: SearchTask) -> str:
        workload = task.workload
        rest: dict[str, Any] = {
            "batches": workload.batch,
            "shapes": workload.shapes,
            "devices": task.device,
        }
        del rest[crossed_by]
        return repr((workload.model, task.policy, task.pruning, rest))

    groups: dict[str, list[SearchTask]] = {}
    for task in searches:
        if not policy_named(task.policy).needs:
            continue
        groups.setdefault(others(task), []).append(task)
    for group in groups.values():
        for source, place in permutations(group, 2):
            yield CrossingTask(source, place.workload, place.device)


def _fits(exclusion: Mapping[str, tuple[Any, ...]], task: SearchTask | MemoryTask) -> bool:
    """Return whether a task has, for each key of an exclusion, one of its values."""
    values: dict[str, Any] = {"model": task.workload.model, "batch": task.workload.batch}
    if isinstance(task, SearchTask):
        values |= {"device": task.device, "policy": task.policy, "pruning": task.pruning}
    else:
        values["memory"] = task.scheduler
    return all(
        key in values and any(_equal(wanted, values[key]) for wanted in alternatives)
        for key, alternatives in exclusion.items()
    )


def _equal(wanted: Any, value: Any) -> bool:
    """Return whether a value is the wanted one; names may be patterns."""
    if isinstance(wanted, str):
        return fnmatchcase(value, wanted)
    return wanted == value
