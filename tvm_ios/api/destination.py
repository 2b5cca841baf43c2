"""Where the kept program is saved: an executable of its own, or an entry of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.onnx.tail import Tail


@dataclass(frozen=True)
class KeptProgram:
    """The program that was chosen, with all that is saved with it."""

    #: The program and its kernels.
    model: BuiltModel
    #: The model's graph of operators.
    operators: OpGraph
    #: The end of the model, which runs after the program, if any.
    tail: Tail | None
    #: The policy of its schedule.
    policy: str
    #: Seconds of a run; None if it was not measured.
    latency: float | None
    #: The executable's notes on how it was made, as JSON.
    notes: Mapping[str, Any]
    #: Sentences for the user.
    remarks: tuple[str, ...] = ()


class Destination(Protocol):
    """A place where a program can be saved."""

    def require_writable(self) -> None:
        """Require that :meth:`save` could write, before long work.

        Raises
        ------
        UserError
            If it could not.
        """
        ...

    def save(self, program: KeptProgram) -> Path:
        """Write a program, and return the path of its executable.

        Raises
        ------
        UserError
            If it cannot be written.
        """
        ...


@dataclass(frozen=True)
class ExecutableOfItsOwn:
    """A folder or a ``.tar`` that holds one program and nothing else."""

    path: Path

    def require_writable(self) -> None:
        """As :meth:`Destination.require_writable`."""
        from runtime_ext.execution.packages.package import require_writable

        require_writable(self.path)

    def save(self, program: KeptProgram) -> Path:
        """As :meth:`Destination.save`."""
        program.model.save(self.path, program.notes, program.tail)
        return self.path


def destination_of(output: Path | Destination) -> Destination:
    """Return a destination as it is, or the executable of its own at a path."""
    return ExecutableOfItsOwn(output) if isinstance(output, Path) else output
