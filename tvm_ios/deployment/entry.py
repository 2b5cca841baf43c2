"""A program of a deployment, as its registry describes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from tvm_ios.files.json_text import JsonError
from tvm_ios.files.plain_data import read_as

#: How the name of a machine ends.
_LANES = re.compile(r", [0-9]+ lanes\Z")


@dataclass(frozen=True, slots=True)
class OpenAxis:
    """An open dimension of an input: ``least``, ``least + step`` and so on to ``most``.

    All dimensions of one ``symbol`` are at the same of these numbers of steps.
    """

    axis: int
    symbol: str
    least: int
    most: int
    step: Annotated[int, range(1, 1 << 62)] = 1

    @property
    def steps(self) -> int:
        """The steps from the least extent to the most."""
        return (self.most - self.least) // self.step

    @property
    def middle(self) -> int:
        """The steps to the geometric middle, as ``runtime_ext/native/entry_choice.cc`` has them."""
        middle = int(math.sqrt(self.least) * math.sqrt(self.most))
        return min(max((middle - self.least) // self.step, 0), self.steps)

    def __str__(self) -> str:
        return f"{self.least}..{self.most}" + (f":{self.step}" if self.step > 1 else "")


@dataclass(frozen=True, slots=True)
class TensorType:
    """An input or output of a model.

    An extent that is open, or of an output that depends on the data, is -1; ``dtype`` is NumPy's
    name of the type. ``open`` has the open dimensions of an input, in their order.
    """

    name: str
    shape: tuple[Annotated[int, range(-1, 1 << 62)], ...]
    dtype: str
    open: tuple[OpenAxis, ...] = ()

    def __str__(self) -> str:
        ranges = {axis.axis: str(axis) for axis in self.open}
        extents = (ranges.get(axis, str(extent)) for axis, extent in enumerate(self.shape))
        return f"{self.name}:{'x'.join(extents)}"

    def at(self, steps: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these steps of the symbols."""
        known = {axis.axis: axis.least + steps[axis.symbol] * axis.step for axis in self.open}
        return tuple(known.get(axis, extent) for axis, extent in enumerate(self.shape))


@dataclass(frozen=True, slots=True)
class Entry:
    """A program of a deployment, as its registry describes it."""

    #: The name of its folder.
    id: str
    #: What its kernels are compiled for: ``x86-64-v3``, ``sm_90``.
    arch: str
    #: CPU features that they need, in LLVM's names.
    features: tuple[str, ...]
    #: Threads, or streams of a GPU.
    lanes: int
    #: Those of the model.
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    #: The leading extent that all inputs have; None where they differ, or it is open.
    batch: int | None
    #: Whether it may be given fewer rows than its batch, because every row of the outputs depends
    #: on that row of the inputs alone.
    padding: bool
    #: The policy that made its schedule.
    policy: str
    #: Milliseconds of a run, median, of a range in its middle; None if it was not measured.
    latency_ms: float | None
    #: The machine that it was measured on; None if it was not.
    device: str | None
    #: When it was made, in UTC: ``2026-01-31T12:00:00Z``.
    date: str
    #: Of its files, shared ones included.
    bytes: int
    #: Remarks for its users, a sentence each.
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
    def is_of_range(self) -> bool:
        """Whether the program is for a range of shapes."""
        return any(port.open for port in self.inputs)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input, by name; of a range in its geometric middle."""
        return self.shapes_beside({}) or {}

    def shapes_beside(
        self, given: Mapping[str, Sequence[int]]
    ) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes of all inputs where some are given; None if they never are these.

        Symbols that no given shape has are in the geometric middle.
        """
        steps: dict[str, int] = {}
        for port in self.inputs:
            for axis in port.open:
                shape = given.get(port.name, ())
                if axis.axis < len(shape):
                    steps.setdefault(axis.symbol, (shape[axis.axis] - axis.least) // axis.step)
        inside = True
        for axis in (axis for port in self.inputs for axis in port.open):
            inside &= 0 <= steps.setdefault(axis.symbol, axis.middle) <= axis.steps
        shapes = {port.name: port.at(steps) for port in self.inputs}
        fits = all(shapes.get(name) == tuple(shape) for name, shape in given.items())
        return shapes if inside and fits else None

    def of_same_use(self, other: Entry) -> bool:
        """Return whether two entries are for the same inputs, kind of machine and lanes."""
        return (self.arch, self.lanes, self.inputs) == (other.arch, other.lanes, other.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, from which :meth:`from_json` makes the entry."""
        data = asdict(self)
        for port in (*data["inputs"], *data["outputs"]):
            # What has no open dimensions is written as ever.
            if not port["open"]:
                del port["open"]
        return data

    @staticmethod
    def from_json(data: Any) -> Entry:
        """Read the data of :meth:`to_json`; raise JsonError if it is misstated."""
        entry = read_as(Entry, data)
        if entry.id in ("", ".", "..") or "/" in entry.id or "\0" in entry.id:
            raise JsonError(f"{entry.id!r} where an entry's name should be")
        if entry.batch is not None and entry.batch != batch_of(entry.inputs):
            raise JsonError(f"the inputs of {entry.id} have another batch than {entry.batch!r}")
        _check_ranges(entry)
        return replace(entry, padding=entry.padding and entry.batch is not None)


def _check_ranges(entry: Entry) -> None:
    """Require that open dimensions exist and are ranges, one a symbol, or raise JsonError."""
    steps: dict[str, int] = {}
    for port in entry.inputs:
        axes = [axis.axis for axis in port.open]
        if axes != [axis for axis, extent in enumerate(port.shape) if extent == -1]:
            raise JsonError(f"{port.name!r} of {entry.id} has an unknown extent")
        for axis in port.open:
            if axis.least > axis.most or axis.least + axis.steps * axis.step != axis.most:
                raise JsonError(f"{port.name!r} has no range in dimension {axis.axis}")
            if steps.setdefault(axis.symbol, axis.steps) != axis.steps:
                raise JsonError(f"{axis.symbol!r} of {entry.id} has two ranges")
    if steps and entry.padding:
        raise JsonError(f"{entry.id} is of a range and pads rows")


def batch_of(inputs: Sequence[TensorType]) -> int | None:
    """Return the leading extent that all inputs have.

    None if they differ, one is a scalar, or it is open.
    """
    leading = {port.shape[:1] for port in inputs}
    if len(leading) != 1 or leading & {(), (-1,)}:
        return None
    return leading.pop()[0]


def with_batch(ports: Sequence[TensorType], batch: int) -> tuple[TensorType, ...]:
    """Return the same tensors with another leading extent."""
    return tuple(replace(port, shape=(batch, *port.shape[1:])) for port in ports)
