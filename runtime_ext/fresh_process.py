"""Run measurements in fresh processes, which end with this one however it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.progress import Progress, silent

#: From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


class ProcessTimeLimit(UserError):
    """A process was ended because it took too long."""


def run_fresh_process(
    command: Sequence[str],
    task: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    progress: Progress = silent,
    *,
    limit: float | None = None,
) -> dict[str, Any]:
    """Run a program that measures, and return its result.

    It reads a task from its standard input, as one line of JSON in which paths are texts, and
    prints lines of JSON: arrays (what, done, total) are its progress, the last object is its
    result; other lines, which libraries may print, are ignored. ``environment`` is added to that of
    this process. After ``limit`` seconds it is killed, and ProcessTimeLimit is raised. If it fails,
    raise UserError with the last line of its errors.
    """
    result: dict[str, Any] | None = None
    late = threading.Event()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit or 0, end)
        if limit is not None:
            timer.start()
        try:
            _send(task, process.stdin)
            for line in process.stdout:
                if line.startswith('["'):
                    progress(*json.loads(line))
                elif line.startswith("{"):
                    result = json.loads(line)
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        code = process.wait()
        errors.seek(0)
        complaints = [f"it ended with code {code}", *errors.read().strip().splitlines()]
    if late.is_set() and result is None:
        raise ProcessTimeLimit(f"a fresh process took more than {limit:g} s")
    if code or result is None:
        raise UserError(f"the measurement in a fresh process failed: {complaints[-1]}")
    return result


def _send(task: Mapping[str, Any], stream: Any) -> None:
    try:
        stream.write(f"{json.dumps(task, default=os.fspath)}\n")
        stream.close()
    except BrokenPipeError:
        # The process has ended already; its errors say why.
        pass


def report(what: str, done: int, total: int) -> None:
    """Print the progress of a fresh process, as :func:`run_fresh_process` reads it."""
    print(json.dumps([what, done, total]), flush=True)


def end_with_parent(parent: int) -> None:
    """Ask the system to kill this process when its parent ends.

    The parent passes its own process number, because it may have ended already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that wanted these measurements is gone")
