"""Ctrl-C and SIGTERM end a command in one sentence, whatever it is in the middle of.

An exception that a signal raises may come back from TVM as another one, be caught by a library, or
be what Typer makes a bare exit code of. What was received is therefore remembered, and counts
whatever is raised then. Where nothing can be raised, as in a destructor, it is raised again later.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Within so many seconds a second signal is the same one: `timeout` sends its signal to the command
#: and to its process group. One that comes later means it, and ends the tidying up too.
_SAME_SECONDS = 0.5
#: How long what cannot be interrupted, a destructor or an import's callback, is given.
_LATER_SECONDS = 0.01

#: Signals and when they came, in seconds of `time.monotonic`.
_received: list[tuple[int, float]] = []


@contextmanager
def reported() -> Generator[None]:
    """Around a whole command: if a signal comes meanwhile, say so in one sentence and exit.

    Raises
    ------
    SystemExit
        With 128 and the signal's number, as shells expect it.
    """
    signal.signal(signal.SIGALRM, _raise)
    sys.unraisablehook = _raise_later
    for number in _SIGNALS:
        # Who started us with a signal ignored, such as nohup or a shell's &, wants it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)
    try:
        yield
    finally:
        # What Python does after a command needs no exceptions in it, but may be ended too.
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in _SIGNALS:
            if signal.getsignal(number) is _receive:
                signal.signal(number, _end_at_once)
        if _received:
            _leave()


def raise_if_received() -> None:
    """Raise again what may have been lost."""
    if _received:
        raise KeyboardInterrupt


def _leave() -> NoReturn:
    number, _ = _received[0]
    what = "interrupted" if number == signal.SIGINT else "terminated"
    print(f"tvm-ios: {what}; what was measured so far is kept", file=sys.stderr)
    sys.exit(128 + number)


def _receive(number: int, _: Any) -> None:
    now = time.monotonic()
    if not _received or now - _received[-1][1] > _SAME_SECONDS:
        _received.append((number, now))
        raise KeyboardInterrupt


def _end_at_once(number: int, _: Any) -> None:
    os._exit(128 + number)


def _raise(*_: Any) -> None:
    raise KeyboardInterrupt


def _raise_later(lost: Any) -> None:
    if _received and isinstance(lost.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _LATER_SECONDS)
    else:
        sys.__unraisablehook__(lost)
