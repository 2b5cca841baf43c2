"""Runs cases in a process of their own, which may crash or hang without ending the rest."""

from __future__ import annotations

import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.child_process import ChildProcess

#: Seconds that a case may take; a sound one takes well below one, if nothing else runs.
LIMIT = 60.0


@dataclass
class Report:
    """Outcomes: how many a target and kind, what was refused, and all that should not be."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run_cases(
    cases: Sequence[tuple[str, int]],
    sound: Path,
    *,
    limit: float = LIMIT,
    more: Mapping[str, Any] | None = None,
    done: Callable[[], None] | None = None,
) -> Report:
    """Run cases one after another; a crash or a hang costs a new process."""
    report = Report()
    worker: ChildProcess | None = None
    try:
        for target, number in cases:
            # What libraries print about damaged models is of no interest.
            worker = worker or ChildProcess(partial(_start, sound, more or {}))
            outcome, text = worker.ask(target, number, limit=limit)
            if outcome == "answer":
                outcome, text = text
            report.counts[target, outcome] += 1
            if outcome != "success":
                listed = report.refusals if outcome == "refused" else report.failures
                listed.append(f"{target}:{number} {outcome}: {text}")
            if outcome in ("crash", "hang"):
                worker.end()
                worker = None
            if done is not None:
                done()
    finally:
        if worker is not None:
            worker.end()
    return report


def run_case(
    target: str, number: int, sound: Path, more: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """One case in this process: its outcome, and the sentence or traceback.

    ``more`` are targets besides :data:`targets.EVERY_TARGET`.
    """
    from tvm_ios.errors import UserError

    from .targets import EVERY_TARGET, generator

    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        room = Path(name)
        try:
            {**EVERY_TARGET, **(more or {})}[target](sound, room, generator(target, number))
        except (UserError, OSError) as error:
            text = str(error)
            left = [f.name for f in room.iterdir() if f.name == "result" or f.name[0] == "."]
            if left:
                return "partial file", f"{left} after {text}"
            if not text.strip() or len(text) > 2000:
                return "no sentence", text[:200]
            return "refused", text
        except Exception:
            return "exception", traceback.format_exc()
        return "success", ""


def _start(sound: Path, more: Mapping[str, Any]) -> Callable[[str, int], tuple[str, str]]:
    # Imported now, so that no case's time is that of an import.
    from . import targets

    assert targets.TARGETS
    return partial(run_case, sound=sound, more=more)
