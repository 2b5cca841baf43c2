"""Executables for 64-bit Arm, run by the C++ loader in a process of emulated Python."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from relay_passes.checks import require_numpy_types
from relay_passes.load import LoadedModel
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.machine.this_machine import host_target
from tvm_ios.files.array_files import Array
from tvm_ios.policies.greedy import greedy_schedule

ROOT = Path(__file__).parents[2]
#: Python on Arm, a script that calls the emulator; and an environment of it, with this project.
EMULATED = ROOT / "build" / "arm" / "root" / "usr" / "bin" / "emulated-python"
PYTHON = ROOT / "build" / "arm" / "env" / "bin" / "python"

#: The tests that this marks are skipped where there is no such environment.
needs_python = pytest.mark.skipif(not PYTHON.exists(), reason="needs Python for Arm: make test-arm")


class Executables:
    """A process that runs executables on Arm; if one ends it, it starts again."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._start()

    def _start(self) -> None:
        command = [PYTHON, Path(__file__).with_name("run_executables.py"), *self._options]
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        atexit.register(self._process.kill)

    def run(self, folder: Path, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the outputs of an executable; raise AssertionError with its error."""
        if self._process.poll() is not None:
            self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as room:
            given, computed = Path(room) / "in.npz", Path(room) / "out.npz"
            np.savez(given, **inputs)
            self._process.stdin.write(f"{folder}\t{given}\t{computed}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer == "\n", answer or f"{folder} ended the emulated process"
            with np.load(computed) as outputs:
                return [outputs[name] for name in outputs.files]


def run_on_arm(
    loaded: LoadedModel, inputs: Mapping[str, Array], folder: Path, *options: str
) -> list[Array]:
    """Compile a model for Arm, and return what its executable computes there, with its tail.

    Units run side by side on two lanes where they can, which nothing has measured. ``options`` are
    of ``run_executables.py``.
    """
    prepared = prepare(loaded.module)
    require_numpy_types(prepared)
    module = apply_schedule(prepared, greedy_schedule(prepared.units))
    model = build(module, lanes=2, target=host_target(2, "armv8-a"))
    model.save(folder, tail=loaded.tail)
    return executables(*options).run(folder, inputs)


@cache
def executables(*options: str) -> Executables:
    """The one process of all tests that run one after another with these options."""
    return Executables(*options)
