"""A runner whose workers are processes of this machine."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import deque
from collections.abc import Collection, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from multiprocessing.process import BaseProcess
from typing import Any

from tvm_ios.sweep.content import MODELS_KEPT, Job
from tvm_ios.sweep.runners.runner import ATTEMPTS, Runner, describe_here, killed
from tvm_ios.sweep.tasks import HERE
from tvm_ios.sweep.worker import begin_worker, work


@contextmanager
def processes(workers: int) -> Generator[Runner]:
    """Open a runner with up to ``workers`` processes, started when there is work for them."""
    runner = _Processes(workers)
    try:
        yield runner
    finally:
        runner.end()


@dataclass
class _Begun:
    """A job that waits or runs, and the number of attempts so far."""

    job: Job
    schedule: str | None
    attempts: int = 0


@dataclass(eq=False)
class _Worker:
    """A worker process, as a pool of its own: if it is killed, no other pool breaks.

    ``models`` are those that it has read last.
    """

    pool: ProcessPoolExecutor = field(default_factory=lambda: _pool())
    #: The models that it keeps, see :attr:`tvm_ios.sweep.content.Job.model`; the last one is new.
    models: deque[str] = field(default_factory=lambda: deque(maxlen=MODELS_KEPT))


class _Processes:
    """A :class:`tvm_ios.sweep.runners.runner.Runner` on processes of this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        #: The one that ended a job last is the first.
        self._idle = [_Worker() for _ in range(workers)]
        self._waiting: list[_Begun] = []
        self._running: dict[Future[str], tuple[_Begun, _Worker]] = {}
        self._children: set[BaseProcess] = set()

    def machine(self, lanes: int | None) -> str:
        return describe_here(lanes)

    def start(self, job: Job, schedule: str | None) -> None:
        self._waiting.append(_Begun(job, schedule))

    def next(self) -> tuple[Job, dict[str, Any]]:
        while True:
            self._begin_what_may()
            done = wait(self._running, return_when=FIRST_COMPLETED).done.pop()
            begun, worker = self._running.pop(done)
            try:
                outcome: dict[str, Any] = json.loads(done.result())
            except BrokenProcessPool:
                worker.pool.shutdown()
                worker = _Worker()
                if begun.attempts < ATTEMPTS:
                    self._idle.insert(0, worker)
                    self._waiting.insert(0, begun)
                    continue
                outcome = killed(begun.attempts)
            self._idle.insert(0, worker)
            return begun.job, outcome

    def end(self) -> None:
        """Kill all workers, also those with running jobs."""
        # A pool waits for what its process does.
        for child in self._children:
            child.kill()
        for worker in (*self._idle, *(worker for _, worker in self._running.values())):
            worker.pool.shutdown(cancel_futures=True)

    def _begin_what_may(self) -> None:
        """Begin jobs that need no model read first, and those that hold a device if it is free."""
        while self._idle:
            held = {begun.job.holds for begun, _ in self._running.values()}
            may = [begun for begun in self._waiting if self._may_begin(begun.job.holds, held)]
            if not may:
                return
            begun, worker = min(product(may, self._idle), key=self._reading)
            self._waiting.remove(begun)
            self._idle.remove(worker)
            begun.attempts += 1
            self._begin(begun, worker)

    def _reading(self, pair: tuple[_Begun, _Worker]) -> int:
        """Return the rank of a (job, worker) pair; the lowest is started first.

        0 if the worker has read the model, 1 if no worker has, 2 if only another has. To read a
        model takes longer than most searches.
        """
        begun, worker = pair
        if begun.job.model in worker.models:
            return 0
        others = (*self._idle, *(worker for _, worker in self._running.values()))
        return 2 if any(begun.job.model in other.models for other in others) else 1

    def _may_begin(self, holds: str | None, held: Collection[str | None]) -> bool:
        if HERE in held:
            # A job that measures here has the machine to itself.
            return False
        if holds == HERE:
            others = (begun for begun in self._waiting if begun.job.holds != HERE)
            return not self._running and not any(others)
        return holds is None or holds not in held

    def _begin(self, begun: _Begun, worker: _Worker) -> None:
        job = begun.job
        files = {name: str(path.absolute()) for name, path in job.files.items()}
        before = set(multiprocessing.active_children())
        future = worker.pool.submit(work, json.dumps(job.content), files, begun.schedule)
        self._children |= set(multiprocessing.active_children()) - before
        self._running[future] = begun, worker
        if job.model in worker.models:
            worker.models.remove(job.model)
        worker.models.append(job.model)


def _pool() -> ProcessPoolExecutor:
    """Return a pool of one process, which is started with its first job."""
    spawned = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        1, mp_context=spawned, initializer=begin_worker, initargs=(os.getpid(),)
    )
