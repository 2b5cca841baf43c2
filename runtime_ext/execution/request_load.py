"""Submit requests so that a fixed number is always in flight, and time each."""

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
    """The times of serving requests.

    ``seconds`` run from the first request to the end of the last; ``latencies`` of each request, in
    order, from its submission to its outputs, waiting included.
    """

    seconds: float
    latencies: tuple[float, ...]


def serve(
    submit: Callable[[_Request], Future[Any]],
    requests: Sequence[_Request],
    count: int,
    in_flight: int,
) -> Served:
    """Submit ``count`` requests, the next one as soon as one is done, and wait for all.

    At most ``in_flight`` are submitted and not done; ``requests`` are taken in turn, again and
    again. Raise the exception of the first request that failed.
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
