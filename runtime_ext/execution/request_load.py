"""A load of requests: so many always in flight, and the time of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

_Request = TypeVar("_Request")


@dataclass(frozen=True, slots=True)
class Served:
    """What serving requests took.

    Attributes
    ----------
    seconds
        From the first request to the end of the last.
    latencies
        For each request, in their order, the seconds from when it was submitted to when its outputs
        were there, in which it may have waited.
    """

    seconds: float
    latencies: tuple[float, ...]


def serve(
    submit: Callable[[_Request], Future[Any]],
    requests: Sequence[_Request],
    count: int,
    in_flight: int,
) -> Served:
    """Submit requests, a next one as soon as one is done, and wait for all.

    Parameters
    ----------
    submit
        Takes a request.
    requests
        Taken in turn, again and again.
    count
        How many there are to be.
    in_flight
        How many may be submitted and not yet done.

    Raises
    ------
    Exception
        That of the first request that failed.
    """
    places = threading.Semaphore(in_flight)
    latencies = [0.0] * count
    futures: list[Future[Any]] = []

    def done(place: int, began: float) -> None:
        latencies[place] = time.perf_counter() - began
        places.release()

    begin = time.perf_counter()
    for place in range(count):
        places.acquire()
        began = time.perf_counter()
        future = submit(requests[place % len(requests)])
        future.add_done_callback(lambda _, place=place, began=began: done(place, began))
        futures.append(future)
    for _ in range(in_flight):
        places.acquire()
    seconds = time.perf_counter() - begin
    for future in futures:
        future.result()
    return Served(seconds, tuple(latencies))
