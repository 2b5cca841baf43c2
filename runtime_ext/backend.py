"""A backend: a compiler of a model's units, and a device that times and runs their programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from runtime_ext.execution.model_program import ModelProgram
from runtime_ext.execution.session import Session
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Device, Function, Kernels
from tvm_ios.program.program import Program

CompilerT = TypeVar("CompilerT", bound=Kernels)


class NotMeasured(UserError):
    """A measurement needs a device that is not here."""


@dataclass(frozen=True)
class Backend(Generic[CompilerT]):
    """A compiler, or the kernels of a bundle, and a device for its code."""

    #: Compiles units.
    compiler: CompilerT
    #: Times programs.
    device: Device
    #: Name of the executor that runs programs.
    executor: Literal["native", "cuda"]
    #: Whether units may have implementations that only a schedule can choose by name, such as
    #: cuDNN's, which are measured beside the others.
    has_named_forms: bool = False

    def session(self, model: ModelProgram, **options: Any) -> Session:
        """Open a session of a program whose kernels the compiler has.

        Options are those of :class:`runtime_ext.execution.session.Session`.
        """
        return model.open(self.compiler.function, **{"executor": self.executor, **options})

    def require_here(self, doing: str) -> None:
        """Raise NotMeasured if the device is not here; ``doing`` names what needs it."""
        if isinstance(self.device, AbsentGpu):
            raise NotMeasured(
                f"{doing} needs an {self.device.name} GPU, and here is none ({self.device.why}): "
                "do it where there is one"
            )


@dataclass(frozen=True)
class AbsentGpu:
    """A GPU that code is compiled for but that is not installed here; see :class:`Device`.

    ``why`` says why not, and ``otherwise`` what to do instead.
    """

    name: str
    lanes: int
    why: str
    otherwise: str
    concurrency: int = 1
    splits: bool = False

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Raise :class:`NotMeasured`."""
        raise self._not_measured("stages")

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Raise :class:`NotMeasured`."""
        return [self.time_program(program, function)]

    def launch_overhead(self) -> list[float]:
        """Raise :class:`NotMeasured`."""
        raise self._not_measured("what a launch costs")

    def _not_measured(self, what: str) -> NotMeasured:
        return NotMeasured(
            f"{what} can only be measured on an {self.name} GPU, and here is none ({self.why}): "
            f"{self.otherwise}"
        )
