"""The design space of a contraction: the cuts it may have, which MetaSchedule traces note.

A point of the space is a :class:`~runtime_ext.kernels.cut.ContractionCut`. Its trace cuts the
loops of the contraction's workload accordingly, so that TVM alone can apply it too, and
annotates the block ``sum`` with the cut. tvm-ios runs its hand-written kernel with this cut,
which :func:`noted` reads back from a trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any, Protocol

from tvm import s_tir

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.spec import Contraction
from tvm_ios.files.array_files import Array

#: The numbers of a cut in a trace; the device's space defines their meaning.
Notes = tuple[int, int, int, int, int]

_NOTES = ("ios.pixels", "ios.vectors", "ios.unroll", "ios.tiles", "ios.blocks_outer")


class Space(Cutter, Protocol):
    """The cuts that a device may use for contractions; it includes the cutter's own choice."""

    def workload(self, spec: Contraction) -> Any:
        """Return the workload of a contraction in a log; see :func:`contraction_workload`."""
        ...

    def points(self, spec: Contraction) -> Sequence[ContractionCut]:
        """Return the cuts that give different code, the default first."""
        ...

    def holds(self, spec: Contraction, point: ContractionCut) -> bool:
        """Return whether a cut, e.g. one from a file, is a point of the space."""
        ...

    def explicit(self, spec: Contraction) -> ContractionCut:
        """Return the contraction's cut in the form that points have."""
        ...

    def point(self, notes: Notes) -> ContractionCut:
        """Return the cut that a trace's notes describe."""
        ...

    def schedule(self, spec: Contraction, workload: Any, point: ContractionCut) -> s_tir.Schedule:
        """Return the schedule of the workload at a point."""
        ...

    def features(self, spec: Contraction, points: Sequence[ContractionCut]) -> Array:
        """Return features of points for a learned speed model: float32, a row for each."""
        ...


def recut(spec: Contraction, point: ContractionCut, cutter: Cutter) -> Contraction:
    """Return the contraction with another cut, and its weight buffer shaped for that cut."""
    width = cutter.width(point)
    blocks = sum(ceil(part / width) for part in spec.parts)
    buffers = list(spec.buffers)
    buffers[spec.weight] = (blocks, *spec.window.kernel, spec.channels, width)
    return replace(spec, blocking=point, buffers=tuple(buffers))


def note(schedule: s_tir.Schedule, block: Any, values: Sequence[Any]) -> None:
    """Annotate a block of a schedule with a cut's numbers, or variables sampled for them."""
    for name, value in zip(_NOTES, values, strict=True):
        schedule.annotate(block, name, value)


def noted(trace: Any) -> Notes | None:
    """Return the cut noted in a trace (MetaSchedule's JSON), or None; do not apply the trace."""
    steps, decisions = trace
    # Decisions of steps that are not ours may be anything, such as a tile's extents.
    decided = {int(step): choice for step, choice in decisions}
    sampled: dict[Any, int] = {}
    notes: dict[str, int] = {}
    for number, (kind, inputs, attributes, outputs) in enumerate(steps):
        if kind == "SampleCategorical":
            sampled[outputs[0]] = int(attributes[0][int(decided[number])])
        elif kind == "Annotate" and attributes[0] in _NOTES:
            value = inputs[1]
            notes[attributes[0]] = sampled[value] if isinstance(value, str) else int(value)
    if len(notes) < len(_NOTES):
        return None
    first, second, third, fourth, fifth = (notes[note] for note in _NOTES)
    return first, second, third, fourth, fifth
