"""Ask the C++ library which program of a deployment a machine runs, and why not another.

The rule is ``runtime_ext/native/entry_choice.cc``; it knows of a machine only what it is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime_ext.deployment.machine import Machine
from runtime_ext.native_library import load_native_library
from tvm_ios.deployment.entry import Entry

#: The shape of each input, by name.
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a machine can run an entry, whether it does, and why."""

    fits: bool
    taken: bool
    reason: str


def choose(entries: Sequence[Entry], machine: Machine, shapes: Shapes | None = None) -> Entry:
    """Return the entry that a machine runs for these shapes of all inputs.

    Without shapes they are those of the entry of the smallest batch that the machine can run, or if
    it runs ranges alone, the middle of one. Raise DeploymentError, which names the entries, if none
    fits.
    """
    return entries[load_native_library()["choose_entry"](_question(entries, machine, shapes))]


def verdicts(
    entries: Sequence[Entry], machine: Machine, shapes: Shapes | None = None
) -> list[Verdict]:
    """Return a verdict on each entry for these shapes.

    Without shapes they are the entry's own, or the middle of its range.
    """
    judged = load_native_library()["judge_entries"](_question(entries, machine, shapes))
    return [Verdict(fits, taken, str(reason)) for fits, taken, reason in judged]


def all_shapes(entries: Sequence[Entry], shapes: Shapes) -> Shapes:
    """Return the shapes of all inputs where some are given and a range says what others are.

    Where none does, return the shapes that are given.
    """
    if entries and any(port.name not in shapes for port in entries[0].inputs):
        for entry in entries:
            if entry.is_of_range and (found := entry.shapes_beside(shapes)) is not None:
                return found
    return shapes


def _question(entries: Sequence[Entry], machine: Machine, shapes: Shapes | None) -> bytes:
    question = {
        "entries": [entry.to_json() for entry in entries],
        "machine": machine.to_json(),
        "shapes": None if shapes is None else list(shapes.items()),
    }
    return json.dumps(question).encode()
