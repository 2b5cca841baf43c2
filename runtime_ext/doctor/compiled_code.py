"""TVM, the native executor and a kernel, tried in another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from runtime_ext.doctor.check import Check, Status

_REMEDIES = {
    "tvm": "install the pinned versions: run `pip install --force-reinstall tvm-ios`",
    "native executor": "build it: run `pip install .` in the source, or unset TVM_IOS_NATIVE_LIB",
    "kernel": "see to the findings above first; if there are none, report this with the model",
}
_SECONDS = 120


def check_compiled_code() -> Iterator[Check]:
    """Whether each step of :mod:`runtime_ext.doctor.trial` works."""
    command = [sys.executable, "-m", "runtime_ext.doctor.trial"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        printed, end = done.stdout, _end(done.returncode)
    except subprocess.TimeoutExpired as error:
        printed = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        end = f"hangs: it was ended after {_SECONDS} s"
    lines = [_line(text) for text in printed.splitlines()]
    ended = {line["step"]: line for line in lines if "step" in line}
    for step, remedy in _REMEDIES.items():
        if step in ended and "detail" in ended[step]:
            yield Check(step, Status.OK, ended[step]["detail"])
        elif step in ended:
            yield Check(step, Status.PROBLEM, ended[step]["error"], remedy)
        elif {"begin": step} in lines:
            yield Check(step, Status.PROBLEM, end, remedy)
        else:
            yield Check(step, Status.PROBLEM, "could not be tried", "see to the others first")


def _line(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    except json.JSONDecodeError:
        return {}


def _end(code: int) -> str:
    if code < 0:
        return f"ends the process ({signal.Signals(-code).name})"
    return f"ends the process (exit code {code})"
