"""Runs programs again and again on the native executor, and compares each run's every bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tvm_ffi

from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.execution.reference import ReferenceExecutor
from tests.cpp_compiler import compile_cpp
from tvm_ios.program.program import Program

from .programs import random_program

#: Runs of one program, of which each goes on from what the one before left in memory.
RUNS_EACH = 20


class Difference(AssertionError):
    """A run that is not what the reference says."""


def load_kernels(folder: Path) -> dict[str, Any]:
    """Compile the kernels into a folder."""
    library = folder / "kernels.so"
    source = Path(__file__).parent / "kernels.cc"
    compile_cpp(library, [source], "-O2", "-shared", "-fPIC")
    mix = tvm_ffi.load_module(library)["mix_kernel"]()
    return {f"mix{sources}": mix for sources in range(3)}


def run_programs(
    kernels: dict[str, Any], runs: int, seed: int = 0, done: Callable[[], None] | None = None
) -> int:
    """Run random programs, the native executor against the reference; how many waits they met.

    Raises
    ------
    Difference
        With the number of the program: ``random_program(Random(number))``.
    """
    waits = 0
    for number in range(seed, seed + -(-runs // RUNS_EACH)):
        waits += _run_program(random_program(Random(number)), kernels, number)
        if done is not None:
            done()
    return waits


def _run_program(program: Program, kernels: dict[str, Any], number: int) -> int:
    random = Random(number)
    actual, expected = (
        [np.zeros(b.type.shape, b.type.dtype) for b in program.buffers] for _ in "fe"
    )
    native = NativeExecutor(
        program,
        kernels,
        [tvm_ffi.from_dlpack(array) for array in actual],
        pin=random.choice((True, False)),
        # Sleeping at once, sleeping soon, and hardly ever.
        spin_seconds=random.choice((0.0, 20e-6, 1e-3)),
    )
    reference = ReferenceExecutor(
        program, kernels, [tvm_ffi.from_dlpack(array) for array in expected], seed=number
    )
    for run in range(RUNS_EACH):
        native.run()
        reference.run()
        for one, other in zip(actual, expected, strict=True):
            if not np.array_equal(one, other):
                raise Difference(f"run {run} of program {number} differs from the reference")
    native.close()
    return RUNS_EACH * sum(hasattr(item, "launches") for lane in program.lanes for item in lane)


def run_network(name: str, runs: int, lanes: int = 2) -> None:
    """Run a zoo network, scheduled greedily, with four inputs in turn.

    Raises
    ------
    Difference
        If a run differs from the reference executor's.
    """
    from relay_passes import IOSSchedule
    from relay_passes.relax.importer import import_onnx
    from runtime_ext.build import build
    from tvm_ios import zoo

    module = IOSSchedule("greedy", "v100").transform_module(import_onnx(zoo.build(name)), None)
    model = build(module, lanes=lanes, name=name)
    native, reference = model.session(), model.session(executor="reference")
    inputs = [native.random_inputs(seed) for seed in range(4)]
    expected = []
    for values in inputs:
        reference.run(**values)
        expected.append(reference.get_output(0))
    if any(np.array_equal(expected[0], other) for other in expected[1:]):
        raise Difference(f"the outputs of {name} do not depend on its input")
    for run in range(runs):
        native.run(**inputs[run % 4])
        if not np.array_equal(native.get_output(0), expected[run % 4]):
            raise Difference(f"run {run} of {name} differs from the reference")
    native.close()
