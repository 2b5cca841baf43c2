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
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        output, end = process.stdout, _end(process.returncode)
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        end = f"hangs: it was ended after {_SECONDS} s"
    lines = [_line(text) for text in output.splitlines()]
    line_by_step = {line["step"]: line for line in lines if "step" in line}
    for step, remedy in _REMEDIES.items():
        if step in line_by_step and "detail" in line_by_step[step]:
            yield Check(step, Status.OK, line_by_step[step]["detail"])
        elif step in line_by_step:
            yield Check(step, Status.PROBLEM, line_by_step[step]["error"], remedy)
        elif {"begin": step} in lines:
            yield Check(step, Status.PROBLEM, end, remedy)
        else:
            yield Check(step, Status.PROBLEM, "could not be tried", "see to the others first")


def _line(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
        return data if isinstance(data, dict) else {}
    except json.JSONDecodeError:
        return {}


def _end(code: int) -> str:
    if code < 0:
        return f"ends the process ({signal.Signals(-code).name})"
    return f"ends the process (exit code {code})"
