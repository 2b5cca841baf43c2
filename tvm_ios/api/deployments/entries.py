"""Save programs as entries of a deployment, and check whether these may be given fewer rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvm_ios.api.destination import KeptProgram
from tvm_ios.contest.outputs import difference
from tvm_ios.contest.tolerance import rounds, tolerance
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.graphturbo.batch_rows import treats_rows_alone

if TYPE_CHECKING:
    from runtime_ext.execution.built_model import BuiltModel


class PaddingError(UserError):
    """An error: rows proven independent by the graph change with the values of other rows."""


@dataclass(frozen=True)
class PlaceInDeployment:
    """A place in a deployment: a :class:`~tvm_ios.api.destination.Destination`."""

    #: The deployment.
    folder: Path
    #: The model's name and its :func:`~tvm_ios.models.identity.model_identity`.
    model: str
    identity: str
    #: The lanes that the program is scheduled for.
    lanes: int
    #: Whether this machine runs the program, so that its outputs can be compared.
    runs_here: bool
    #: The machine where it was measured, if another, and its milliseconds of a run there.
    device: str | None = None
    latency_ms: float | None = None
    #: The schedule's policy, if only the recipe knows it.
    policy: str | None = None
    #: Sentences that the entry keeps in its notes.
    remarks: tuple[str, ...] = ()

    def require_writable(self) -> None:
        """As :meth:`tvm_ios.api.destination.Destination.require_writable`."""
        from runtime_ext.deployment.writer import require_place

        require_place(self.folder, self.model, self.identity)

    def save(self, program: KeptProgram) -> Path:
        """Add the program to the deployment, and return its folder.

        If the graph says that rows are independent, the entry may be given fewer rows. Raise
        PaddingError if the outputs of rows then change with the values of others.
        """
        from runtime_ext.deployment.adding import NewEntry, add_entry
        from runtime_ext.deployment.files import entry_folder
        from runtime_ext.machine.this_machine import device_name

        model = program.model
        # A range has all numbers of rows itself.
        padding = (
            not model.program.symbols
            and program.tail is None
            and treats_rows_alone(program.operators)
        )
        if padding and self.runs_here:
            _require_independent_rows(model, [op.kind for op in program.operators.operators])
        device, latency_ms = self.device, self.latency_ms
        if program.latency is not None:
            device, latency_ms = device_name(self.lanes), program.latency * 1e3
        entry = add_entry(
            self.folder,
            self.model,
            self.identity,
            NewEntry(
                # No kernels here: add_entry exports those that the folder lacks.
                model.executable({}, program.notes, program.tail),
                self.policy or program.policy,
                export=model.kernels.export,
                lanes=self.lanes,
                padding=padding,
                latency_ms=latency_ms,
                device=device,
                notes=(*program.remarks, *self.remarks),
            ),
        )
        return entry_folder(self.folder, entry.id)


def _require_independent_rows(model: BuiltModel, kinds: list[str]) -> None:
    """Require that the first rows of a batch do not change with its other rows."""
    with closing(model.session()) as session:
        inputs = session.random_inputs(0)
        batch = next(iter(inputs.values())).shape[0]
        session.run(**inputs)
        whole = [session.get_output(port.name) for port in session.outputs]
        limit = tolerance("float32", whole, quantised=rounds(kinds))
        for rows in sorted({1, batch // 2, batch - 1} - {0, batch}):
            session.run(**{name: _first_rows(value, rows) for name, value in inputs.items()})
            for port, expected in zip(session.outputs, whole, strict=True):
                ours = session.get_output(port.name)[:rows]
                if how := difference([ours], [expected[:rows]], limit):
                    raise PaddingError(
                        f"{rows} of {batch} rows of output {port.name!r} differ {how} if the other "
                        "rows do, although no operator says so: this is a fault of tvm-ios, "
                        "please report it"
                    )


def _first_rows(value: Array, rows: int) -> Array:
    """Return the first rows, followed by copies of their last one, as sessions pad a batch."""
    return value[np.minimum(np.arange(len(value)), rows - 1)]
