"""Workers that are processes of this machine."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from tvm_ios.sweep.content import Job
from tvm_ios.sweep.runners.runner import ATTEMPTS, Runner, describe_here, killed
from tvm_ios.sweep.tasks import HERE
from tvm_ios.sweep.worker import begin_worker, work


@contextmanager
def processes(workers: int) -> Generator[Runner]:
    """So many worker processes, which are started when there is work for them."""
    runner = _Processes(workers)
    try:
        yield runner
    finally:
        runner.end()


@dataclass
class _Begun:
    """A job that waits or runs."""

    job: Job
    schedule: str | None
    attempts: int = 0


class _Processes:
    """See :class:`tvm_ios.sweep.runners.runner.Runner`."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        # One pool a process: who is killed breaks no pool but its own.
        self._idle = [_pool() for _ in range(workers)]
        self._waiting: list[_Begun] = []
        self._running: dict[Future[str], tuple[_Begun, ProcessPoolExecutor]] = {}
        self._children: set[BaseProcess] = set()

    def machine(self, lanes: int | None) -> str:
        return describe_here(lanes)

    def start(self, job: Job, schedule: str | None) -> None:
        self._waiting.append(_Begun(job, schedule))

    def next(self) -> tuple[Job, dict[str, Any]]:
        while True:
            self._begin_what_may()
            done = wait(self._running, return_when=FIRST_COMPLETED).done.pop()
            begun, pool = self._running.pop(done)
            try:
                outcome: dict[str, Any] = json.loads(done.result())
            except BrokenProcessPool:
                pool.shutdown()
                pool = _pool()
                if begun.attempts < ATTEMPTS:
                    self._idle.append(pool)
                    self._waiting.insert(0, begun)
                    continue
                outcome = killed(begun.attempts)
            self._idle.append(pool)
            return begun.job, outcome

    def end(self) -> None:
        """End all workers, whatever they do."""
        # A pool waits for what its process does.
        for child in self._children:
            child.kill()
        for pool in (*self._idle, *(pool for _, pool in self._running.values())):
            pool.shutdown(cancel_futures=True)

    def _begin_what_may(self) -> None:
        """Begin jobs in turn, but those that hold a device only if it is free."""
        for begun in tuple(self._waiting):
            if not self._idle:
                return
            if self._may_begin(begun.job.holds):
                self._waiting.remove(begun)
                begun.attempts += 1
                self._begin(begun, self._idle.pop())

    def _may_begin(self, holds: str | None) -> bool:
        held = {begun.job.holds for begun, _ in self._running.values()}
        if HERE in held:
            # What is measured here is alone on the machine.
            return False
        if holds == HERE:
            others = (begun for begun in self._waiting if begun.job.holds != HERE)
            return not self._running and not any(others)
        return holds is None or holds not in held

    def _begin(self, begun: _Begun, pool: ProcessPoolExecutor) -> None:
        job = begun.job
        files = {name: str(path.absolute()) for name, path in job.files.items()}
        before = set(multiprocessing.active_children())
        future = pool.submit(work, json.dumps(job.content), files, begun.schedule)
        self._children |= set(multiprocessing.active_children()) - before
        self._running[future] = begun, pool


def _pool() -> ProcessPoolExecutor:
    """A pool of one process, which begins with its first job."""
    spawned = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        1, mp_context=spawned, initializer=begin_worker, initargs=(os.getpid(),)
    )
