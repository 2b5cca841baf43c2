"""What a scheduled module of either dialect is built to: it runs here, and can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runtime_ext.backend import cuda_arch
from runtime_ext.execution.executable import PACKAGES, Executable
from runtime_ext.execution.ports import Port
from runtime_ext.execution.session import Session
from runtime_ext.machine.cpu_features import required_features
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.program.program import Program


class BuiltKernels(Protocol):
    """Holds kernels."""

    #: The ``tvm.target.Target`` that they are for.
    target: Any

    def function(self, symbol: str) -> Any:
        """What a session takes of a kernel."""
        ...

    def export(self, path: Path, symbols: Iterable[str]) -> None:
        """Write the file that an executable has of these kernels."""
        ...


@dataclass(frozen=True)
class BuiltModel:
    """A scheduled model with its code.

    Attributes
    ----------
    program
        What the executor runs.
    memory
        Where its intermediate buffers and scratch lie.
    kernels
        Holds the program's.
    constants
        Weights as the kernels want them, by content.
    inputs, outputs
        As the model names them.
    schedule
        The module's schedule as plain data.
    packages
        As of :class:`runtime_ext.execution.executable.Executable`.
    """

    program: Program
    memory: PlannedMemory
    kernels: BuiltKernels
    constants: Mapping[str, np.ndarray[Any, Any]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    schedule: Mapping[str, Any]
    packages: tuple[str, ...] = PACKAGES

    def session(self, **options: Any) -> Session:
        """A session; options as of :class:`runtime_ext.execution.session.Session`."""
        if cuda_arch(self.kernels.target) is not None:
            options = {"executor": "cuda", **options}
        functions = {symbol: self.kernels.function(symbol) for symbol in self.program.kernels}
        return Session(
            self.program,
            functions,
            self.constants,
            self.inputs,
            self.outputs,
            plan=self.memory.plan,
            **options,
        )

    def save(self, path: Path, notes: Mapping[str, Any] | None = None) -> None:
        """Write an executable; see :meth:`runtime_ext.execution.executable.Executable.save`."""
        target = self.kernels.target
        arch = cuda_arch(target)
        with temporary_folder() as folder:
            kernels = folder / "kernels"
            self.kernels.export(kernels, self.program.kernels)
            Executable(
                program=self.program,
                plan=self.memory.plan,
                kernels=kernels,
                constants=self.constants,
                inputs=self.inputs,
                outputs=self.outputs,
                schedule=self.schedule,
                target=str(target),
                features=required_features(target) if arch is None else (),
                arch=arch,
                fingerprint=self.schedule["fingerprint"],
                notes=notes or {},
                packages=self.packages,
            ).save(path)
