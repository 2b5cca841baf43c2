"""The interfaces by which a measured search uses a device: the device itself, and its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.program import Launch, Program
from tvm_ios.progress import Steps

#: Returns the function of a kernel's symbol.
Function = Callable[[str], Any]
NO_CONSTANTS: Mapping[str, Array] = MappingProxyType({})


class UnsupportedError(UserError):
    """A kernel library cannot compute a unit here; the message says why in one sentence."""


class Device(Protocol):
    """A device that runs and times programs."""

    @property
    def name(self) -> str:
        """The device's name in schedules and logs."""
        ...

    @property
    def lanes(self) -> int:
        """The number of lanes: threads of a CPU, or streams of a GPU."""
        ...

    @property
    def concurrency(self) -> int:
        """The number of callers that may time programs at once, each on hardware of its own."""
        ...

    @property
    def splits(self) -> bool:
        """Whether a kernel's tiles can be spread over several lanes.

        If not, a unit takes the same time on any number of lanes.
        """
        ...

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Return samples, in seconds, of a program on random data and the given constants."""
        ...

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Return, for each launch of a one-lane program, samples of one tile's seconds."""
        ...

    def launch_overhead(self) -> list[float]:
        """Return samples of the seconds that a launch adds to the times of :meth:`profile_phases`.

        The overhead is not work of the kernel, and a part of another kernel does not have it. Only
        called where kernels run whole.
        """
        ...


class Kernels(Protocol):
    """The machine code of units: a compiler, or the files that one has written earlier."""

    @property
    def fuser(self) -> StageFuser | None:
        """The fuser of co-scheduled stages on a GPU; None where lanes share them."""
        ...

    def compile_forms(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Return the different forms of each unit; the default comes last."""
        ...

    def compile_rkernels(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Return the forms of each unit by the names of their rKernels."""
        ...

    def chain_kernels(self, source: Any) -> int:
        """Return the number of kernels of a chain; 0 if none of them computes several units.

        Nothing is compiled.
        """
        ...

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Use the form ``best`` of a unit from now on."""
        ...

    def function(self, symbol: str) -> Any:
        """Return the function of a symbol of the code."""
        ...


def launches_alone(program: Program) -> Iterator[Program]:
    """Yield, for each launch of a one-lane program in order, a program of that launch alone."""
    (lane,) = program.lanes
    for item in lane:
        if isinstance(item, Launch):
            yield replace(program, lanes=((item,),))
