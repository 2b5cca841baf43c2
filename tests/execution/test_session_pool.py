"""Many requests on several workers: their outputs in order, their errors, and nothing lost."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.session import Session
from runtime_ext.execution.session_pool import SessionPool
from runtime_ext.native_errors import BusyError, ForkError, RequestsError, SessionError
from tests.refusals import refused
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role, Wait

ROW = BufferType((4,), "int64")
#: Lane 1 finishes what lane 0 began; both halves write one output.
PROGRAM = Program(
    lanes=(
        (Launch(0, (0, 2), 0, 4, 0), Wait(1, 1), Launch(1, (1, 2, 3), 0, 2, 1)),
        (Wait(0, 1), Launch(1, (1, 2, 3), 2, 4, 1)),
    ),
    kernels=("double", "add"),
    buffers=(
        Buffer("x", ROW, Role.INPUT),
        Buffer("y", ROW, Role.INPUT),
        Buffer("twice", ROW, Role.INTERMEDIATE),
        Buffer("sum", ROW, Role.OUTPUT),
    ),
    units=("u", "v"),
)


def double(x: Any, twice: Any, begin: int, end: int) -> None:
    np.from_dlpack(twice)[begin:end] = 2 * np.from_dlpack(x)[begin:end]


def add(y: Any, twice: Any, total: Any, begin: int, end: int) -> None:
    rows = slice(begin, end)
    np.from_dlpack(total)[rows] = np.from_dlpack(twice)[rows] + np.from_dlpack(y)[rows]


def session(first: Callable[..., None] = double, **options: Any) -> Session:
    return Session(PROGRAM, {"double": first, "add": add}, {}, **options)


def request(number: int) -> dict[str, Any]:
    return {"x": np.full(4, number), "y": np.arange(4) * 1000}


def check(number: int, result: Any) -> None:
    assert result.keys() == {"sum"}
    np.testing.assert_array_equal(result["sum"], 2 * number + np.arange(4) * 1000)


@pytest.mark.parametrize("workers", [None, 1, 2, 5])
@pytest.mark.parametrize("executor", ["native", "reference"])
def test_outputs_come_in_the_order_of_requests(workers: int | None, executor: Any) -> None:
    live = session(executor=executor)
    live.run(**request(77))
    for _ in range(2):
        results = live.run_many(map(request, range(30)), workers=workers)
        assert len(results) == 30
        for number, result in enumerate(results):
            check(number, result)
    assert live.pool(workers).workers == (workers or 2)
    # The session itself was not touched.
    check(77, {"sum": live.get_output("sum")})
    assert live.run_many([]) == []
    live.close()


def test_what_is_asked_for_may_be_changed_afterwards() -> None:
    with SessionPool(lambda: session().for_worker(2), ["x", "y"], 2) as pool:
        first = pool.submit(request(1)).result()
        second = pool.submit(request(2)).result()
        first["sum"][:] = 0
        check(2, second)
        check(1, pool.submit(request(1)).result())


def test_a_worker_runs_all_on_one_lane() -> None:
    live = session()
    assert len(live.for_worker(2).program.lanes) == 1
    assert live.for_worker(1).program is PROGRAM


def test_errors_lose_no_other_request() -> None:
    def fail(x: Any, twice: Any, begin: int, end: int) -> None:
        if np.from_dlpack(x)[0] == 13:
            raise RuntimeError("unlucky")
        double(x, twice, begin, end)

    live = session(fail)
    requests = [request(n) for n in range(20)]
    requests[5] = {"x": requests[5]["x"]}
    requests[6] = {**requests[6], "x": np.zeros(3, "int64")}
    requests[7] = {**requests[7], "z": 1}
    with refused(RequestsError, "5 of 20", "'y'", "3 others") as caught:
        live.run_many(requests)
    error = caught.value
    assert sorted(error.errors) == [5, 6, 7, 13]
    assert "unlucky" in str(error.errors[13])
    assert "'z'" in str(error.errors[7])
    for number, result in enumerate(error.results):
        if number in error.errors:
            assert result is None
        else:
            check(number, result)
    check(3, live.run_many([request(3)])[0])
    live.close()


def test_a_worker_that_is_held_up_delays_its_request_alone() -> None:
    held, go = threading.Event(), threading.Event()

    def wait(x: Any, twice: Any, begin: int, end: int) -> None:
        if np.from_dlpack(x)[0] == 0:
            held.set()
            assert go.wait(30)
        double(x, twice, begin, end)

    live = session(wait)
    pool = live.pool()
    first = pool.submit(request(0))
    assert held.wait(30)
    for number in range(1, 20):
        check(number, pool.submit(request(number)).result(30))
    assert not first.done()
    go.set()
    check(0, first.result(30))
    live.close()


def test_few_requests_of_a_generator_are_in_memory() -> None:
    go, lock = threading.Event(), threading.Lock()
    begun, finished, most = 0, 0, 0

    def counted(x: Any, twice: Any, begin: int, end: int) -> None:
        nonlocal finished
        assert go.wait(30)
        with lock:
            finished += 1
        double(x, twice, begin, end)

    def requests() -> Iterator[dict[str, Any]]:
        nonlocal begun, most
        for number in range(40):
            with lock:
                begun += 1
                most = max(most, begun - finished)
            yield request(number)
            if number == 4:
                go.set()

    live = session(counted)
    # Of two workers four requests, and the one that the generator holds.
    timer = threading.Timer(0.2, go.set)
    timer.start()
    assert len(live.run_many(requests())) == 40
    assert most <= 2 * 2 + 1
    live.close()


def test_a_broken_source_of_requests_is_told() -> None:
    def requests() -> Iterator[dict[str, Any]]:
        yield request(1)
        raise OSError("no more")

    live = session()
    with pytest.raises(OSError, match="no more"):
        live.run_many(requests())
    check(2, live.run_many([request(2)])[0])
    live.close()


def test_closing_runs_what_was_submitted_and_refuses_more() -> None:
    live = session()
    pool = live.pool()
    futures = [pool.submit(request(n)) for n in range(10)]
    live.close()
    for number, future in enumerate(futures):
        check(number, future.result(0))
    with refused(BusyError, "closed"):
        pool.submit(request(1))
    with refused(BusyError, "closed"):
        live.run_many([request(1)])
    pool.close()


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int) -> None:
    live = session()
    with refused(SessionError, workers, "workers"):
        live.run_many([], workers=workers)
    live.close()


def test_a_session_that_does_not_open_leaves_no_thread() -> None:
    before = threading.active_count()
    opened = iter([session()])

    def open_session() -> Session:
        try:
            return next(opened)
        except StopIteration:
            raise SessionError("there is no memory") from None

    with refused(SessionError, "memory"):
        SessionPool(open_session, ["x", "y"], 2)
    assert threading.active_count() == before


def test_workers_that_nobody_has_end() -> None:
    before = threading.active_count()
    live = session()
    check(1, live.run_many([request(1)])[0])
    assert threading.active_count() > before
    del live
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_forked_child_is_refused() -> None:
    live = session()
    pool = live.pool()

    def child(pipe: Any) -> None:
        try:
            pool.submit(request(1))
        except ForkError as error:
            pipe.send(str(error))

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
    process.start()
    assert here.poll(30)
    assert "fork" in here.recv()
    process.join()
    check(1, pool.submit(request(1)).result(30))
    live.close()


def test_an_executable_runs_many(executable: Executable) -> None:
    live = executable.session()
    requests = [live.random_inputs(seed) for seed in range(6)]
    for asked, result in zip(requests, live.run_many(requests), strict=True):
        live.run(**asked)
        assert result.keys() == {port.name for port in live.outputs}
        for name, value in result.items():
            np.testing.assert_array_equal(value, live.get_output(name))
    live.close()
