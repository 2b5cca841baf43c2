"""A load keeps as many requests in flight as it is told, and times each."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from runtime_ext.execution.request_load import serve


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_so_many_are_in_flight(in_flight: int) -> None:
    lock, inside, most, seen = threading.Lock(), 0, 0, list[int]()

    def work(request: int) -> None:
        nonlocal inside
        with lock:
            inside -= 1
        seen.append(request)

    with ThreadPoolExecutor(2) as pool:

        def submit(request: int) -> Future[None]:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            return pool.submit(work, request)

        served = serve(submit, [7, 8, 9], 20, in_flight)
    assert sorted(seen) == sorted([7, 8, 9] * 6 + [7, 8])
    assert most <= in_flight
    assert len(served.latencies) == 20
    assert 0 < min(served.latencies) <= max(served.latencies) <= served.seconds


def test_an_error_is_told() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        serve(lambda request: pool.submit(lambda: 1 // request), [1, 0], 4, 2)
