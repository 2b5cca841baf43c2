"""Write traces of runs for Perfetto, of an executable or of a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import UserError
from tvm_ios.explain.chrome_trace import TracedRun, chrome_trace
from tvm_ios.explain.tasks import find_work
from tvm_ios.explain.timeline import read_timeline
from tvm_ios.files.atomic import write_atomically

if TYPE_CHECKING:
    from runtime_ext.execution.session import Session
    from runtime_ext.explain import Explanation


def trace_session(session: Session, path: Path | str) -> None:
    """Run a session once more on its present inputs, and write the trace of this run to a file.

    Run the session before, so that it is warm. ``ui.perfetto.dev`` opens the ``.json`` file. Raise
    SessionError or KernelError as :meth:`runtime_ext.execution.session.Session.profile`.
    """
    run = read_timeline(session.program, session.profile())
    traced = TracedRun("tvm-ios", find_work(session.program), run)
    _write(Path(path), [traced], {})


def trace_executable(explanation: Explanation, path: Path) -> None:
    """Write a trace of an executable's fastest profiled run.

    If the explanation has it, the run of its kernels one after another is in the trace too.
    """
    facts = {
        "model": str(explanation.executable.notes.get("model", "")),
        "policy": explanation.policy,
        "device": explanation.device or "this machine",
        "median_ms": explanation.latency * 1e3,
    }
    title = f"{explanation.policy}: {explanation.timeline.seconds * 1e3:.3f} ms"
    kinds, row = explanation.kinds, "lane" if explanation.executable.arch is None else "stream"
    runs = [TracedRun(title, explanation.work, explanation.timeline, kinds, row)]
    if explanation.sequential is not None:
        work, run = explanation.sequential
        title = f"the same kernels one after another: {run.seconds * 1e3:.3f} ms"
        runs.insert(0, TracedRun(title, work, run, kinds, row))
    _write(path, runs, facts)


def require_trace(path: Path) -> None:
    """Require that a trace can be written at a path, before long work.

    Raise UserError if its name does not end in ``.json``, OSError if it is not writable.
    """
    from tvm_ios.files.atomic import require_writable

    if path.suffix != ".json":
        raise UserError(f"{path} is no name of a trace: it must end in .json")
    require_writable(path)


def _write(path: Path, runs: list[TracedRun], facts: Mapping[str, object]) -> None:
    write_atomically(path, json.dumps(chrome_trace(runs, facts)).encode())
