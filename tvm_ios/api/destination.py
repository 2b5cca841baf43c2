"""Where a program goes that was kept: an executable of its own, or an entry of a deployment."""

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
    """A program that is to be saved.

    Attributes
    ----------
    model
        The program and its kernels.
    operators
        The model's graph of operators.
    tail
        What runs after the program.
    policy
        Whose schedule it runs.
    latency
        Seconds of a run; None if it was not measured.
    notes
        What an executable keeps of how it was made.
    remarks
        What is to be known of it, a sentence each.
    """

    model: BuiltModel
    operators: OpGraph
    tail: Tail | None
    policy: str
    latency: float | None
    notes: Mapping[str, Any]
    remarks: tuple[str, ...] = ()


class Destination(Protocol):
    """Where a program goes."""

    def require_writable(self) -> None:
        """Find out before long work whether :meth:`save` could write.

        Raises
        ------
        UserError
            If it could not.
        """
        ...

    def save(self, program: KeptProgram) -> Path:
        """Write a program; returns the path of its executable.

        Raises
        ------
        UserError
            If it cannot be written.
        """
        ...


@dataclass(frozen=True)
class ExecutableOfItsOwn:
    """A folder or a ``.tar`` that holds the program and nothing else.

    Attributes
    ----------
    path
        Where it goes.
    """

    path: Path

    def require_writable(self) -> None:
        """As :meth:`Destination.require_writable`."""
        from runtime_ext.execution.package import require_writable

        require_writable(self.path)

    def save(self, program: KeptProgram) -> Path:
        """As :meth:`Destination.save`."""
        program.model.save(self.path, program.notes, program.tail)
        return self.path


def destination_of(output: Path | Destination) -> Destination:
    """A destination that is given, or the executable of its own at a path."""
    return ExecutableOfItsOwn(output) if isinstance(output, Path) else output
