"""What runs the jobs of a sweep, wherever that is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tvm_ios.sweep.content import Job

#: How often a task is begun whose worker is killed.
ATTEMPTS = 3


class Runner(Protocol):
    """Runs jobs in workers; those that hold a device one at a time.

    As a context it has its workers, which end with it.
    """

    @property
    def workers(self) -> int:
        """How many tasks run at once, at most."""
        ...

    def machine(self, lanes: int | None) -> str:
        """What the device ``here`` is, with so many lanes or all of it."""
        ...

    def start(self, job: Job, schedule: str | None) -> None:
        """Run a job as soon as there is a worker, and its device, for it.

        Parameters
        ----------
        job
            What is to be done.
        schedule
            The schedule that it needs, as JSON.
        """
        ...

    def next(self) -> tuple[Job, dict[str, Any]]:
        """Wait for a job to end.

        Returns
        -------
        Job, dict
            The job, and what :func:`tvm_ios.sweep.worker.work` made of it.
        """
        ...


#: A runner that is not started.
Workers = AbstractContextManager[Runner]


def killed(attempts: int) -> dict[str, Any]:
    """The outcome of a task whose workers do not survive."""
    return {
        "error": f"each of the {attempts} workers that did it was killed, maybe for want of "
        "memory: give fewer --workers, or leave the task out"
    }


def describe_here(lanes: int | None) -> str:
    """The machine of this process, as logs of measurements have it."""
    from runtime_ext.machine.this_machine import available_lanes, device_name

    return device_name(lanes or available_lanes())
