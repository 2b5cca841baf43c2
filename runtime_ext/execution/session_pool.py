"""Run many requests at once: each worker runs whole requests on a session of its own.

A CPU has the highest throughput when it runs a request alone: nothing waits for another lane, and
a worker that is held up delays its own request only. Sessions share weights and kernels; a worker
has buffers of its own.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from runtime_ext.native_errors import BusyError, ForkError, RequestsError, SessionError
from tvm_ios.files.array_files import Array

#: A request has the model's inputs by name, and its result the outputs by name.
Request = Mapping[str, Any]
Result = dict[str, Array]
#: Requests that run or wait for a worker, for each worker; more would only take memory.
_IN_FLIGHT_A_WORKER = 2


class PooledSession(Protocol):
    """A session on which a worker runs requests."""

    @property
    def outputs(self) -> Sequence[Any]:
        """The outputs, which have names; after a run those of this run."""
        ...

    def run(self, /, **inputs: Any) -> None:
        """Run once, after setting the inputs given."""
        ...

    def get_output(self, which: int | str = 0) -> Array:
        """Return a copy of an output of the last run."""
        ...

    def reserve(self) -> None:
        """Take at once the memory that any shape of a range may need."""
        ...

    def close(self) -> None:
        """End the session's threads."""
        ...


class SessionPool:
    """Runs requests in the order in which they come, each on the first worker that is free.

    Any number of threads may submit requests. A context manager, which ends its workers.

    Parameters
    ----------
    open_session
        Opens the session of a worker.
    inputs
        The names of the model's inputs.
    workers
        How many; each is a thread with a session.
    pin
        Bind each worker to one CPU. By default if there are as many workers as CPUs for this
        process, and more than one.

    Raises
    ------
    SessionError
        If ``workers`` is less than one.
    """

    def __init__(
        self,
        open_session: Callable[[], PooledSession],
        inputs: Sequence[str],
        workers: int,
        *,
        pin: bool | None = None,
    ) -> None:
        if workers < 1:
            raise SessionError(f"{workers} workers can run nothing: take one or more")
        cpus = sorted(os.sched_getaffinity(0))
        bound = pin if pin is not None else workers == len(cpus) > 1
        self.workers = workers
        self._process, self._closed, self._closing = os.getpid(), False, threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        sessions: list[PooledSession] = []
        try:
            for _ in range(workers):
                sessions.append(open_session())
        except BaseException:
            for session in sessions:
                session.close()
            raise
        # Threads hold the queue but not the pool, so that dropping the pool ends them.
        threads = [
            threading.Thread(
                target=_work,
                args=(session, inputs, self._jobs, cpus[place % len(cpus)] if bound else None),
                name=f"tvm-ios worker {place}",
                daemon=True,
            )
            for place, session in enumerate(sessions)
        ]
        for thread in threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._jobs, threads, self._process)

    def submit(self, request: Request) -> Future[Result]:
        """Queue a request; its inputs are copied when a worker takes it.

        Parameters
        ----------
        request
            All inputs of the model by name.

        Returns
        -------
        Future
            Of the outputs by name, or of the error of this request. Cancelled before a worker
            takes it, it does not run.

        Raises
        ------
        BusyError
            If the pool is closed.
        ForkError
            In a process that was forked from the pool's.
        """
        if os.getpid() != self._process:
            raise ForkError(
                "these workers were made before the process was forked; they are in the parent, "
                "so make new ones here"
            )
        future: Future[Result] = Future()
        # A request queued behind the end marker would never be taken.
        with self._closing:
            if self._closed:
                raise BusyError("these workers are closed; make a new session")
            self._jobs.put((request, future))
        return future

    def run_many(self, requests: Iterable[Request]) -> list[Result]:
        """Run requests, and return their outputs by name, in the order of the requests.

        Parameters
        ----------
        requests
            Each has all inputs of the model by name. They are taken as workers become free, so
            few of a generator's requests are in memory at once.

        Raises
        ------
        RequestsError
            If requests failed, when all have run; it has the outputs of the others.
        """
        places = threading.Semaphore(_IN_FLIGHT_A_WORKER * self.workers)
        futures: list[Future[Result]] = []
        try:
            for request in requests:
                places.acquire()
                future = self.submit(request)
                futures.append(future)
                future.add_done_callback(lambda _: places.release())
            for future in futures:
                future.exception()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        errors: dict[int, Exception] = {}
        for place, future in enumerate(futures):
            if isinstance(error := future.exception(), Exception):
                errors[place] = error
        if errors:
            results = [None if n in errors else f.result() for n, f in enumerate(futures)]
            raise RequestsError.of(results, errors)
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the workers, after the requests that were submitted; later ones are refused."""
        with self._closing:
            self._closed = True
        self._end()

    def __enter__(self) -> SessionPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_Job = tuple[Request, "Future[Result]"]


def _work(
    session: PooledSession,
    inputs: Sequence[str],
    jobs: queue.SimpleQueue[_Job | None],
    cpu: int | None,
) -> None:
    """Run requests from the queue on a worker's session until None comes; then close it."""
    if cpu is not None:
        # Where binding is forbidden, go on without: results are the same.
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})
    while (job := jobs.get()) is not None:
        request, future = job
        if future.set_running_or_notify_cancel():
            try:
                result = _run(session, inputs, request)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        # Hold nothing of this request while waiting for the next one.
        del job, request, future
    session.close()


def _run(session: PooledSession, inputs: Sequence[str], request: Request) -> Result:
    # Inputs of an earlier request would silently stand in for missing ones.
    missing = [name for name in inputs if name not in request]
    if missing:
        raise SessionError(f"the request has no input {missing[0]!r}")
    session.run(**request)
    return {port.name: session.get_output(port.name) for port in session.outputs}


def _end(
    jobs: queue.SimpleQueue[_Job | None], threads: Sequence[threading.Thread], process: int
) -> None:
    if os.getpid() != process:
        return
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        # The last reference to the pool may be dropped in a worker.
        if thread is not threading.current_thread():
            thread.join()


class SessionWithWorkers(ABC):
    """A session with workers for many requests, which the first call of ``run_many`` opens.

    ``input_names`` are those of the model; ``workers`` is the default number, and ``pin`` as of
    :class:`SessionPool`.
    """

    def __init__(self, input_names: Sequence[str], workers: int, pin: bool | None = None) -> None:
        self._input_names = input_names
        self.workers, self.pin = workers, pin
        self._pool: SessionPool | None = None
        self._pool_lock = threading.Lock()
        self._reserved = False

    @abstractmethod
    def for_worker(self, workers: int) -> PooledSession:
        """Open a session of the same model for one of ``workers`` workers."""

    @abstractmethod
    def _reserve(self) -> None:
        """Take the memory that any shape may need, but for workers."""

    def reserve(self) -> None:
        """Take at once the memory that any shape of a program for a range may need.

        Later runs allocate none but for what they return. Workers of :meth:`run_many` do so when
        they are opened: call it before. Programs of one shape have theirs already.

        Raises
        ------
        ExecutableError
            If there is not as much memory.
        """
        self._reserve()
        with self._pool_lock:
            # Those that are open are in use by their threads.
            self._reserved = True

    def run_many(self, requests: Iterable[Request], *, workers: int | None = None) -> list[Result]:
        """Run many requests, each on one of several workers; return their outputs in order.

        Each worker is a thread with buffers of its own, made by the first call; this session's
        inputs and outputs are not touched.

        Parameters
        ----------
        requests
            Each has all inputs of the model by name.
        workers
            How many run at once; by default as many as the session has.

        Raises
        ------
        RequestsError
            If requests failed, when all have run; it has the outputs of the others.
        """
        return self.pool(workers).run_many(requests)

    def pool(self, workers: int | None = None) -> SessionPool:
        """Return the workers of :meth:`run_many`, which take single requests as well.

        Those of another number are closed first.
        """
        wanted = self.workers if workers is None else workers
        with self._pool_lock:
            if self._pool is None or self._pool.workers != wanted:
                opened = SessionPool(
                    lambda: self._worker(wanted), self._input_names, wanted, pin=self.pin
                )
                if self._pool is not None:
                    self._pool.close()
                self._pool = opened
            return self._pool

    def _worker(self, workers: int) -> PooledSession:
        session = self.for_worker(workers)
        if self._reserved:
            session.reserve()
        return session

    def close(self) -> None:
        """End the workers, if there are any."""
        with self._pool_lock:
            if self._pool is not None:
                self._pool.close()
