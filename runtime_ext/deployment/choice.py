"""Ask the C++ library which program of a deployment a machine runs, and why not another.

The rule is ``runtime_ext/native/entry_choice.cc``; it knows of a machine only what it is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

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

    Without shapes they are those of the entry of the smallest batch that the machine can run. Raise
    DeploymentError, which names the entries, if none fits.
    """
    return entries[load_native_library()["choose_entry"](_question(entries, machine, shapes))]


def verdicts(
    entries: Sequence[Entry], machine: Machine, shapes: Shapes | None = None
) -> list[Verdict]:
    """Return a verdict on each entry for these shapes, or for the entry's own without shapes."""
    judged = load_native_library()["judge_entries"](_question(entries, machine, shapes))
    return [Verdict(fits, taken, str(reason)) for fits, taken, reason in judged]


def _question(entries: Sequence[Entry], machine: Machine, shapes: Shapes | None) -> bytes:
    question = {
        "entries": [asdict(entry) for entry in entries],
        "machine": machine.to_json(),
        "shapes": None if shapes is None else list(shapes.items()),
    }
    return json.dumps(question).encode()
