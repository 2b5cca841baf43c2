"""The interface of a runner, which runs the jobs of a sweep."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tvm_ios.sweep.content import Job

#: Number of attempts at a task whose workers are killed.
ATTEMPTS = 3


class Runner(Protocol):
    """Runs jobs in workers; jobs that hold the same device run one at a time."""

    @property
    def workers(self) -> int:
        """The largest number of tasks that run at once."""
        ...

    def machine(self, lanes: int | None) -> str:
        """Describe the device ``here``, with ``lanes`` lanes or all of its CPUs."""
        ...

    def start(self, job: Job, schedule: str | None) -> None:
        """Run a job as soon as a worker, and the device that it holds, are free.

        Parameters
        ----------
        job
            The job to run.
        schedule
            The schedule that it needs, as JSON; None if it needs none.
        """
        ...

    def next(self) -> tuple[Job, dict[str, Any]]:
        """Wait for any job to end.

        Returns
        -------
        Job, dict
            The job, and the outcome that :func:`tvm_ios.sweep.worker.work` returned.
        """
        ...


#: A runner that is not started.
Workers = AbstractContextManager[Runner]


def killed(attempts: int) -> dict[str, Any]:
    """Return the outcome of a task each of whose workers was killed."""
    return {
        "error": f"each of the {attempts} workers that did it was killed, maybe for want of "
        "memory: give fewer --workers, or leave the task out"
    }


def describe_here(lanes: int | None) -> str:
    """Describe the machine of this process, as logs of measurements do."""
    from runtime_ext.machine.this_machine import available_lanes, device_name

    return device_name(lanes or available_lanes())
