"""Try compiled code in another process: TVM, the native executor, a kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from runtime_ext.cpu.linker import INSTALL, find_linker
from runtime_ext.doctor.check import Check, Status
from tvm_ios.distributions import only_runs
from tvm_ios.errors import UserError

_REMEDIES = {
    "tvm": "install the pinned versions: run `pip install --force-reinstall tvm-ios`",
    "native executor": "build it: run `pip install .` in the source, or unset TVM_IOS_NATIVE_LIB",
    "kernel": "see to the findings above first; if there are none, report this with the model",
    "program": "see to the findings above first; if there are none, report this",
}
#: The trial's steps where executables are made, and where they are only run.
_MAKING = ("tvm", "native executor", "kernel")
_RUNNING = ("native executor", "program")
_SECONDS = 300


def check_compiled_code() -> Iterator[Check]:
    """Check that each step of :mod:`runtime_ext.doctor.trial` works that is needed here."""
    linker = _has_linker()
    steps = _RUNNING if only_runs() else _MAKING if linker else _MAKING[:-1]
    command = [sys.executable, "-m", "runtime_ext.doctor.trial", *steps]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        output, end = process.stdout, _end(process.returncode)
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        end = f"hangs: it was ended after {_SECONDS} s"
    lines = [_line(text) for text in output.splitlines()]
    line_by_step = {line["step"]: line for line in lines if "step" in line}
    for step in steps:
        remedy = _REMEDIES[step]
        if step in line_by_step and "detail" in line_by_step[step]:
            yield Check(step, Status.OK, line_by_step[step]["detail"])
        elif step in line_by_step:
            yield Check(step, Status.PROBLEM, line_by_step[step]["error"], remedy)
        elif {"begin": step} in lines:
            yield Check(step, Status.PROBLEM, end, remedy)
        else:
            yield Check(step, Status.PROBLEM, "could not be tried", "see to the others first")
    if steps == _MAKING[:-1]:
        yield Check("kernel", Status.WARNING, "was not tried: nothing links it", INSTALL)


def _has_linker() -> bool:
    try:
        return find_linker() is not None
    except UserError:
        # The variable CXX or CC names no program: the kernel's step will report it.
        return True


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
