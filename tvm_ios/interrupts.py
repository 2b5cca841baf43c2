"""Ctrl-C and SIGTERM end a command in one sentence, whatever it is in the middle of.

An exception that a signal raises may come back from TVM as another one, or get lost in a
callback. What was received is therefore remembered, and counts whatever is raised then.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []


def listen() -> None:
    """Make these signals raise KeyboardInterrupt in the main thread."""
    for number in _SIGNALS:
        # Who started us with a signal ignored, such as nohup or a shell's &, wants it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)


def received() -> bool:
    """Whether a signal has come since :func:`listen`."""
    return bool(_received)


def raise_if_received() -> None:
    """Raise again what may have been lost."""
    if _received:
        raise KeyboardInterrupt


def leave() -> NoReturn:
    """Say what happened and exit as shells expect it: 128 and the signal's number."""
    number = _received[0] if _received else int(signal.SIGINT)
    what = "interrupted" if number == signal.SIGINT else "terminated"
    print(f"tvm-ios: {what}; what was measured so far is kept", file=sys.stderr)
    sys.exit(128 + number)


def _receive(number: int, _: Any) -> None:
    _received.append(number)
    raise KeyboardInterrupt
