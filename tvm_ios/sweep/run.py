"""All tasks of a sweep, each after the one whose schedule it takes, and none that is finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.progress import Progress, silent
from tvm_ios.sweep.content import Job, Jobs
from tvm_ios.sweep.finished import FinishedTasks
from tvm_ios.sweep.perform import SCHEDULE
from tvm_ios.sweep.runners.runner import Runner
from tvm_ios.sweep.tasks import Task

Outcome = Mapping[str, Any]


@dataclass(frozen=True)
class SweepOutcome:
    """The outcomes of a sweep's tasks (as :func:`tvm_ios.sweep.worker.work` returns them).

    ``keys`` has the key of each task's content; ``resumed`` counts tasks that were finished before.
    """

    outcomes: Mapping[Task, Outcome]
    keys: Mapping[Task, str]
    resumed: int


def run_sweep(
    tasks: Sequence[Task],
    jobs: Jobs,
    runner: Runner,
    finished: FinishedTasks,
    progress: Progress = silent,
    tell: Callable[[Task, str], None] = lambda task, error: None,
) -> SweepOutcome:
    """Do the tasks that are not finished, and store their outcomes.

    A task that fails stops no other but those that need its schedule. ``jobs`` turns tasks into
    jobs, ``runner`` runs these, and ``finished`` stores outcomes. ``progress`` is called with
    (what, done, total), ``tell`` with each task that fails and the reason. Raise OSError if a
    model's file is gone, or a result cannot be written.
    """
    job_of = {task: jobs.job(task) for task in tasks}
    tasks_of: dict[str, list[Task]] = {}
    for task, job in job_of.items():
        tasks_of.setdefault(job.key, []).append(task)
    done: dict[str, Outcome] = {}
    waiting: dict[str, list[Job]] = {}
    running = 0

    def end(job: Job, outcome: Outcome) -> None:
        nonlocal running
        done[job.key] = outcome
        if "error" in outcome:
            for task in tasks_of[job.key]:
                tell(task, outcome["error"])
        progress("tasks", sum(len(tasks_of[key]) for key in done), len(tasks))
        for next_job in waiting.pop(job.key, ()):
            begin(next_job)

    def begin(job: Job) -> None:
        nonlocal running
        schedule = None
        if job.needs is not None:
            if job.needs not in done:
                waiting.setdefault(job.needs, []).append(job)
                return
            needed = done[job.needs]
            if "error" in needed:
                return end(job, {"error": f"its schedule was not found: {needed['error']}"})
            schedule = json.dumps(needed["result"][SCHEDULE])
        runner.start(job, schedule)
        running += 1

    unique = {job.key: job for job in job_of.values()}
    for job in unique.values():
        if (outcome := finished.outcome(job)) is not None:
            done[job.key] = outcome
    resumed = sum(len(tasks_of[key]) for key in done)
    progress("tasks", resumed, len(tasks))
    for job in unique.values():
        if job.key not in done:
            begin(job)
    while running:
        job, outcome = runner.next()
        running -= 1
        if changed := jobs.changed(job):
            outcome = {"error": f"{changed} was changed meanwhile: begin the sweep again"}
        finished.keep(job, dict(outcome))
        end(job, outcome)
    return SweepOutcome(
        {task: done[job.key] for task, job in job_of.items()},
        {task: job.key for task, job in job_of.items()},
        resumed,
    )
