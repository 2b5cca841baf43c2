"""Handling of Ctrl-C and SIGTERM: the command ends with one sentence, whatever it is doing.

An exception that a signal raises may come back from TVM as another one, be caught by a library, or
be turned by Typer into a bare exit code. The signals received are therefore remembered, and the
command ends by them whatever exception arrives. Where nothing can be raised, as in a destructor,
the exception is raised again a little later.
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
#: A second signal within so many seconds counts as the same one: `timeout` sends its signal to the
#: command and to its process group. A later one is a new signal, and ends the clean-up too.
_SAME_SECONDS = 0.5
#: Seconds to wait for code that cannot be interrupted: a destructor or an import's callback.
_LATER_SECONDS = 0.01

#: A sentence on what was saved, for the end of an interrupted command.
_notes: list[str] = []
#: Signals and when they came, in seconds of `time.monotonic`.
_received: list[tuple[int, float]] = []


@contextmanager
def reported() -> Generator[None]:
    """Run a whole command; if a signal came meanwhile, say so in one sentence and exit.

    The exit status is 128 and the signal's number, as shells expect it.
    """
    signal.signal(signal.SIGALRM, _raise)
    sys.unraisablehook = _raise_later
    for number in _SIGNALS:
        # A signal that was ignored at the start, as by nohup or a shell's &, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)
    try:
        yield
    finally:
        # Python's own shutdown must not get exceptions, but may be ended at once.
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in _SIGNALS:
            if signal.getsignal(number) is _receive:
                signal.signal(number, _end_at_once)
        if _received:
            _leave()


def note(sentence: str) -> None:
    """Note what was saved, to be told if a signal ends the command."""
    _notes.append(sentence)


def raise_if_received() -> None:
    """Raise KeyboardInterrupt if a signal was received, for its exception may have been lost."""
    if _received:
        raise KeyboardInterrupt


def _leave() -> NoReturn:
    number, _ = _received[0]
    what = "interrupted" if number == signal.SIGINT else "terminated"
    told = "; ".join((what, "what was measured so far is kept", *_notes[-1:]))
    print(f"tvm-ios: {told}", file=sys.stderr)
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
