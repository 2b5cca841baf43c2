"""Verdicts in a file, which a second run goes on with, and the table of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.child_process import ChildProcess
from tests.onnx_suite.cases import FORMS
from tests.onnx_suite.verdict import VERDICTS, Verdict, start
from tests.onnx_suite.ways import WAYS
from tvm_ios.files.atomic import write_atomically

#: Seconds that a case may take; most take less than one, and emulated networks most of a minute.
_LIMIT = 300.0


def run_cases(way: str, form: str, names: Sequence[str]) -> Iterator[tuple[str, Verdict]]:
    """The verdicts on cases, one after another, in a process that a case may end.

    A case that ends a process is tried again in a fresh one, so that none is blamed for what the
    one before it left.
    """
    worker: ChildProcess | None = None
    try:
        for name in names:
            is_fresh = worker is None
            worker = worker or ChildProcess(start(way, form))
            outcome, answer = worker.ask(name, limit=_LIMIT)
            if outcome == "crash" and not is_fresh:
                worker.end()
                worker = ChildProcess(start(way, form))
                outcome, answer = worker.ask(name, limit=_LIMIT)
            if outcome != "answer":
                worker.end()
                worker, answer = None, Verdict(outcome, answer)
            yield name, answer
    finally:
        if worker is not None:
            worker.end()


class Results:
    """Verdicts by way, form and case, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self._saved = time.monotonic()

    def of(self, way: str, form: str) -> dict[str, Verdict]:
        """The verdicts of a way on a form, by the names of cases."""
        rows = self._rows.get(way, {}).get(form, {})
        return {name: Verdict(**row) for name, row in sorted(rows.items())}

    def add(self, way: str, form: str, name: str, verdict: Verdict) -> None:
        """Keep a verdict; the file is written now and then."""
        self._rows.setdefault(way, {}).setdefault(form, {})[name] = asdict(verdict)
        if time.monotonic() - self._saved > 5:
            self.save()

    def save(self) -> None:
        """Write the file."""
        write_atomically(self._path, json.dumps(self._rows, indent=0).encode())
        self._saved = time.monotonic()


def table(results: Results, topic: Callable[[str], str]) -> str:
    """Counts by way and form, then what peers pass and tvm-ios does not, in either form.

    Parameters
    ----------
    topic
        What a case is of, by its name.
    """
    verdicts = {(way, form): results.of(way, form) for way in WAYS for form in FORMS}
    lines = [f"{'':26}" + "".join(f"{verdict:>9}" for verdict in VERDICTS)]
    for (way, form), rows in verdicts.items():
        counts = Counter(row.verdict for row in rows.values())
        if rows:
            lines.append(f"{way:15}{form:11}" + "".join(f"{counts[v]:9}" for v in VERDICTS))
    lines.append("tail: passed, with the end of the model on ONNX Runtime or onnx.reference")
    passed = {way: _passed(verdicts, way) for way in ("tvm-ios", "onnxruntime", "tvm")}
    lines.append("")
    lines.append(f"{'passed in either form':26}{'cases':>6}" + "".join(f"{w:>12}" for w in passed))
    lines[-1] += "   not by tvm-ios"
    inside = [n for n, row in verdicts["tvm-ios", "inputs"].items() if row.verdict != "outside"]
    groups: dict[str, set[str]] = {"(all)": {*inside}}
    for name in inside:
        groups.setdefault(topic(name), set()).add(name)
    ours, ort, tvm = passed.values()
    for group, names in sorted(groups.items(), key=lambda g: -len(g[1] & ort - ours)):
        missing = [len(names & peer - ours) for peer in (ort, tvm)]
        if any(missing) or group == "(all)":
            counts = "".join(f"{len(names & p):12}" for p in passed.values())
            lines.append(f"{group:26}{len(names):6}{counts}{missing[0]:7}{missing[1]:5}")
    return "\n".join(lines)


def _passed(verdicts: Mapping[tuple[str, str], Mapping[str, Verdict]], way: str) -> set[str]:
    rows = [row for form in FORMS for row in verdicts[way, form].items()]
    return {name for name, row in rows if row.verdict == "pass"}
