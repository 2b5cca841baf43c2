"""What differs between devices when programs are timed; the rest of a measured search is equal."""

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

#: Gives what a symbol of a program's kernels is.
Function = Callable[[str], Any]
NO_CONSTANTS: Mapping[str, Array] = MappingProxyType({})


class UnsupportedError(UserError):
    """What a kernel library does not compute here, with one sentence that says why."""


class Device(Protocol):
    """Where programs run, and how long they take there."""

    @property
    def name(self) -> str:
        """What schedules and logs are made for."""
        ...

    @property
    def lanes(self) -> int:
        """Threads, or streams."""
        ...

    @property
    def concurrency(self) -> int:
        """How many callers may time programs at once, each on hardware of its own."""
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
        """Samples, in seconds, of a program on random data, but for constants that are given."""
        ...

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """For each launch of a program of one lane samples of the seconds of one of its tiles."""
        ...

    def launch_overhead(self) -> list[float]:
        """Samples of the seconds that a launch adds to what :meth:`profile_phases` gives of it.

        They are no work of the kernel, and a part of another kernel has none of them. Asked for
        where kernels run whole.
        """
        ...


class Kernels(Protocol):
    """The machine code of units: a compiler, or what one has left."""

    @property
    def fuser(self) -> StageFuser | None:
        """What makes one kernel of a co-scheduled stage, on a GPU; elsewhere lanes share it."""
        ...

    def compile_forms(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """For each unit its different forms; the default comes last."""
        ...

    def compile_rkernels(
        self, units: Mapping[str, Any], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """For each unit its forms by the names of the rKernels."""
        ...

    def chain_kernels(self, source: Any) -> int:
        """Of how many kernels a chain is; 0 if none of them computes what several units do.

        Nothing is compiled.
        """
        ...

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Use one of the forms of a unit from now on."""
        ...

    def function(self, symbol: str) -> Any:
        """What a symbol of the code is."""
        ...


def launches_alone(program: Program) -> Iterator[Program]:
    """For each launch of a one-lane program, in order, the program of this launch alone."""
    (lane,) = program.lanes
    for item in lane:
        if isinstance(item, Launch):
            yield replace(program, lanes=((item,),))
