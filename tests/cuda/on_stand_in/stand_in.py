"""The stand-in driver as these checks use it, and kernels for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from runtime_ext.cuda.machine_code.launchable import Launchable
from tests.random_units import Case
from tvm_ios.program.program import Program

LIBRARY = ctypes.CDLL("libcuda.so.1")
KERNELS = (Path(os.environ["LD_LIBRARY_PATH"].split(os.pathsep)[0]) / "kernels.so").read_bytes()


def seed(number: int) -> None:
    """Of the order in which the stand-in runs what it may."""
    LIBRARY.stand_in_seed(number)


def recover() -> None:
    """Forget a failure, and work that nobody waited for."""
    LIBRARY.stand_in_recover()


def calls(name: str) -> int:
    """How often a function of the driver was called."""
    return LIBRARY.stand_in_calls(name.encode())


def live(kind: str) -> int:
    """How many streams, events, modules ... were not given back."""
    return LIBRARY.stand_in_live(kind.encode())


def kernel(entry: str, grid: tuple[int, int, int] = (1, 1, 1), **facts: object) -> Launchable:
    return Launchable(entry, grid, (32, 1, 1), facts.pop("shared_bytes", 0), KERNELS, **facts)  # type: ignore[arg-type]


def kernels_of(case: Case, program: Program) -> Mapping[str, Launchable]:
    """The kernels that compute what ``case.functions()`` do."""
    launchables: dict[str, Launchable] = {}
    for unit, code in case.code.items():
        outputs = code.outputs
        data = len(code.parameters) - outputs - 1
        for call in code.calls:
            form = {"mix": "mix_only", "finish": "finish_only"}
            entry = form.get(call.symbol.partition(".")[2], "whole")
            launchables[call.symbol] = kernel(
                f"{entry}_{len(call.arguments)}", (unit + 1, data, outputs), early=True
            )
    return {symbol: launchables[symbol] for symbol in program.kernels}
