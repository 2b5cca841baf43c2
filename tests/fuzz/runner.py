"""Runs cases in a process of their own, which may crash or hang without ending the rest."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Seconds that a case may take; a sound one takes well below one, if nothing else runs.
LIMIT = 60.0


@dataclass
class Report:
    """Outcomes: how many a target and kind, and all that should not be."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
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
    worker: _Worker | None = None
    try:
        for target, number in cases:
            worker = worker or _Worker(sound, more or {})
            outcome, text = worker.run(target, number, limit)
            report.counts[target, outcome] += 1
            if outcome not in ("success", "refused"):
                report.failures.append(f"{target}:{number} {outcome}: {text}")
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


class _Worker:
    """A process that runs cases on demand."""

    def __init__(self, sound: Path, more: Mapping[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, sound, more), daemon=True)
        self._process.start()
        there.close()
        outcome, text = self._ask(None, 300.0)
        if outcome != "ready":
            raise RuntimeError(f"no case can be run: {text}")

    def run(self, target: str, number: int, limit: float) -> tuple[str, str]:
        return self._ask((target, number), limit)

    def end(self) -> None:
        self._process.kill()
        self._process.join()

    def _ask(self, what: Any, limit: float) -> tuple[str, str]:
        try:
            self._here.send(what)
            if not self._here.poll(limit):
                return "hang", f"no answer in {limit} s"
            return self._here.recv()
        except (EOFError, OSError):
            self._process.join()
            return "crash", f"the process ended with {self._process.exitcode}"


def _serve(pipe: Any, sound: Path, more: Mapping[str, Any]) -> None:
    faulthandler.enable()
    # What libraries print about damaged models is of no interest.
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    from . import targets

    assert targets.TARGETS
    while True:
        case = pipe.recv()
        pipe.send(("ready", "") if case is None else run_case(*case, sound, more))
