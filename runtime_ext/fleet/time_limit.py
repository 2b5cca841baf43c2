"""Time limits for calls that may never answer: a stopped server keeps its connection open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class LateError(Exception):
    """A call that did not answer in time."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return a call's result, or raise its error, if it ends in time; otherwise raise LateError.

    A late call goes on in a thread of its own, for ever if need be, and keeps all that it refers
    to: destructors of remote objects would wait for the same server.
    """
    answers: SimpleQueue[tuple[bool, T | BaseException]] = SimpleQueue()

    def answer() -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:
            answers.put((False, error))

    threading.Thread(target=answer, name="a call with a time limit", daemon=True).start()
    try:
        succeeded, result = answers.get(timeout=seconds)
    except Empty:
        raise LateError(f"no answer within {seconds:.3g} s") from None
    if succeeded:
        return result  # pyright: ignore[reportReturnType]
    assert isinstance(result, BaseException)
    try:
        raise result
    finally:
        # The exception's traceback holds this frame: the cycle would keep all that the call refers
        # to.
        del result
