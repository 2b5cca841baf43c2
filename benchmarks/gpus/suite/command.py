"""A command that has so much time; then it is asked to end, and after some seconds ended."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

#: Seconds that a command has to end by itself when it is asked to.
_GRACE = 5.0
#: PR_SET_PDEATHSIG of prctl(2).
_DEATH_SIGNAL = 1


class Failed(Exception):
    """It ended otherwise than well; says how."""


class Late(Exception):
    """Its time was over; says how much it had."""


def output_of(
    command: Sequence[str | Path], end: float, environment: Mapping[str, str] | None = None
) -> str:
    """The standard output of a command; its progress goes on to stderr.

    Parameters
    ----------
    command
        With its arguments.
    end
        When its time is over, by :func:`time.monotonic`; what it started ends with it.
    environment
        Variables besides those of this process.

    Raises
    ------
    Failed, Late
        See there.
    """
    begin = time.monotonic()
    if begin >= end:
        raise Late("there was no time left for it; run it again")
    said: deque[str] = deque(maxlen=1)
    reader, writer = os.pipe()
    # What a command leaves running may hold its stderr for ever: nobody waits for that.
    echo = threading.Thread(target=_echo, args=(reader, said), daemon=True)
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(
            list(map(str, command)),
            stdout=out,
            stderr=writer,
            env={**os.environ, **(environment or {})},
            process_group=0,
            preexec_fn=_end_with_parent,
        ) as process,
    ):
        os.close(writer)
        echo.start()
        try:
            process.wait(end - begin)
        except subprocess.TimeoutExpired as error:
            raise Late(f"{end - begin:.0f} s were not enough; run it again, it goes on") from error
        finally:
            _end(process)
            echo.join(_GRACE)
        if process.returncode:
            raise Failed("".join(said).strip() or f"it ended with {process.returncode}")
        out.seek(0)
        return out.read()


def _end_with_parent() -> None:
    """Let the kernel end this process with the one that started it, whatever ends that."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started; what holds a GPU gets time to give it back."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    # Compilers' workers outlive who started them.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _echo(reader: int, said: deque[str]) -> None:
    with os.fdopen(reader, errors="replace") as lines:
        for line in lines:
            sys.stderr.write(line)
            if line.strip():
                said.append(line)
