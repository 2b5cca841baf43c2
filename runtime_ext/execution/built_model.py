"""A compiled model, of Relax or Relay: it runs here, and can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.model_program import ModelProgram
from runtime_ext.execution.packages.kernel_files import PACKAGES, Libraries
from runtime_ext.execution.session import Session
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.target_architecture import cuda_arch
from tvm_ios.files.atomic import temporary_folder

if TYPE_CHECKING:
    from tvm_ios.onnx.tail import Tail


class BuiltKernels(Protocol):
    """The compiled kernels of a model."""

    #: The ``tvm.target.Target`` of the kernels.
    target: Any

    def function(self, symbol: str) -> Any:
        """Return the function of a kernel, as a session calls it."""
        ...

    def export(self, path: Path, symbols: Iterable[str]) -> None:
        """Write the kernels of these symbols to a file, as an executable has them."""
        ...


@dataclass(frozen=True)
class BuiltModel(ModelProgram):
    """A scheduled model with its code.

    Attributes
    ----------
    kernels
        The kernels of the program.
    schedule
        The module's schedule as plain data.
    packages
        As in :class:`runtime_ext.execution.executable.Executable`.
    unit_notes
        By unit name, facts about the unit's code; saved in the notes as ``units``.
    """

    kernels: BuiltKernels
    schedule: Mapping[str, Any]
    packages: tuple[str, ...] = PACKAGES
    unit_notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])

    def session(self, **options: Any) -> Session:
        """Open a session; options as of :class:`runtime_ext.execution.session.Session`."""
        if cuda_arch(self.kernels.target) is not None:
            options = {"executor": "cuda", **options}
        return self.open(self.kernels.function, **options)

    def save(
        self, path: Path, notes: Mapping[str, Any] | None = None, tail: Tail | None = None
    ) -> None:
        """Write an executable; see :meth:`runtime_ext.execution.executable.Executable.save`."""
        with temporary_folder() as folder:
            kernels = folder / "kernels"
            self.kernels.export(kernels, self.program.kernels)
            self.executable(kernels, notes, tail).save(path)

    def executable(
        self,
        kernels: Path | Libraries,
        notes: Mapping[str, Any] | None = None,
        tail: Tail | None = None,
    ) -> Executable:
        """Return this model's executable, given the files to which its kernels were written."""
        target = self.kernels.target
        arch = cuda_arch(target)
        return Executable(
            program=self.program,
            plan=self.memory.open_plan or self.memory.plan,
            kernels=kernels,
            constants=self.constants,
            inputs=self.inputs,
            outputs=self.outputs,
            schedule=self.schedule,
            target=str(target),
            features=required_features(target) if arch is None else (),
            arch=arch,
            fingerprint=self.schedule["fingerprint"],
            notes={**(notes or {}), **({"units": self.unit_notes} if self.unit_notes else {})},
            packages=self.packages,
            tail=tail,
        )
