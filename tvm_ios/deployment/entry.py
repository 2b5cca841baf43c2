"""A program of a deployment, as its registry describes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from tvm_ios.files.json_text import JsonError
from tvm_ios.files.plain_data import read_as

#: How the name of a machine ends.
_LANES = re.compile(r", [0-9]+ lanes\Z")


@dataclass(frozen=True, slots=True)
class TensorType:
    """An input or output of a model.

    An extent of an output that depends on the data is -1; ``dtype`` is NumPy's name of the type.
    """

    name: str
    shape: tuple[Annotated[int, range(-1, 1 << 62)], ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}:{'x'.join(map(str, self.shape))}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A program of a deployment, as its registry describes it.

    Attributes
    ----------
    id
        The name of its folder.
    arch
        What its kernels are compiled for: ``x86-64-v3``, ``sm_90``.
    features
        CPU features that they need, in LLVM's names.
    lanes
        Threads, or streams of a GPU.
    inputs, outputs
        Those of the model.
    batch
        The leading extent that all inputs have; None where they differ.
    padding
        Whether it may be given fewer rows than its batch, because every row of the outputs depends
        on that row of the inputs alone.
    policy
        The policy that made its schedule.
    latency_ms
        Milliseconds of a run, median; None if it was not measured.
    device
        The machine that it was measured on; None if it was not.
    date
        When it was made, in UTC: ``2026-01-31T12:00:00Z``.
    bytes
        Of its files, shared ones included.
    notes
        Remarks for its users, a sentence each.
    """

    id: str
    arch: str
    features: tuple[str, ...]
    lanes: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    batch: int | None
    padding: bool
    policy: str
    latency_ms: float | None
    device: str | None
    date: str
    bytes: int
    notes: tuple[str, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Whether the program runs on a GPU."""
        return self.arch.startswith("sm_")

    @property
    def machine(self) -> str | None:
        """The kind of machine that it was measured on, without its lanes; None if not measured."""
        if self.latency_ms is None or self.device is None:
            return None
        return _LANES.sub("", self.device)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input, by name."""
        return {port.name: port.shape for port in self.inputs}

    def of_same_use(self, other: Entry) -> bool:
        """Return whether two entries are for the same inputs, kind of machine and lanes."""
        return (self.arch, self.lanes, self.inputs) == (other.arch, other.lanes, other.inputs)

    @staticmethod
    def from_json(data: Any) -> Entry:
        """Read the data of :func:`dataclasses.asdict`; raise JsonError if it is misstated."""
        entry = read_as(Entry, data)
        if entry.id in ("", ".", "..") or "/" in entry.id or "\0" in entry.id:
            raise JsonError(f"{entry.id!r} where an entry's name should be")
        if entry.batch is not None and entry.batch != batch_of(entry.inputs):
            raise JsonError(f"the inputs of {entry.id} have another batch than {entry.batch!r}")
        return replace(entry, padding=entry.padding and entry.batch is not None)


def batch_of(inputs: Sequence[TensorType]) -> int | None:
    """Return the leading extent that all inputs have; None if they differ, or one is a scalar."""
    leading = {port.shape[:1] for port in inputs}
    return leading.pop()[0] if len(leading) == 1 and () not in leading else None


def with_batch(ports: Sequence[TensorType], batch: int) -> tuple[TensorType, ...]:
    """Return the same tensors with another leading extent."""
    return tuple(replace(port, shape=(batch, *port.shape[1:])) for port in ports)
