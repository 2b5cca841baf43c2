"""A run of an executable, as a table and as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console

if TYPE_CHECKING:
    from runtime_ext.execution.foreign_build import ForeignBuild
    from tvm_ios.files.array_files import Array

#: The percentiles of the runs' milliseconds that are shown, by name.
QUANTILES = {"median": 50, "min": 0, "max": 100, "p90": 90, "p99": 99}


@dataclass(frozen=True)
class Run:
    """The outputs of an executable, and the times of its runs."""

    executable: Path
    outputs: Mapping[str, Array]
    #: Milliseconds of each of :data:`QUANTILES`.
    latency: Mapping[str, float]
    #: The number of runs.
    repeat: int
    #: A sentence on the end of the model that another runtime ran.
    tail: str | None
    #: Another runtime's build that was saved in the place of an executable.
    build: ForeignBuild | None
    #: Inputs that take an output of the run before.
    states: tuple[str, ...]
    #: The deployment's entry that ran.
    entry: str | None
    #: The file of expected outputs, and the largest difference to them.
    compared_with: Path | None
    difference: float | None
    #: Requests a second and their latencies, if asked for.
    served: Mapping[str, float] | None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with a digest of each output."""
        more = {
            "states": list(self.states),
            "entry": self.entry,
            "throughput": self.served,
            "max_abs_difference": self.difference,
        }
        return {
            "latency_ms": dict(self.latency),
            "outputs": {
                name: {
                    "shape": list(array.shape),
                    "dtype": str(array.dtype),
                    "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
                }
                for name, array in self.outputs.items()
            },
            "tail": self.tail,
            "runtime": None if self.build is None else self.build.runtime,
            **{key: value for key, value in more.items() if value not in (None, [])},
        }


def print_run(run: Run) -> None:
    """Print the outputs' ranges, and the times."""
    out = console()
    title = escape(str(run.executable))
    table = Table("output", "shape", "type", "smallest", "largest", title=title)
    for name, array in run.outputs.items():
        extents = "x".join(map(str, array.shape))
        table.add_row(escape(name), extents, str(array.dtype), *_range(array))
    out.print(table)
    if run.entry is not None:
        out.print(escape(f"entry {run.entry} was taken"))
    if run.build is not None:
        out.print(f"[yellow]this is {run.build.sentence}[/yellow]")
    if run.tail is not None:
        out.print(f"[yellow]{escape(run.tail)}[/yellow]")
    if run.difference is not None:
        out.print(
            f"the outputs are those of {run.compared_with}; they differ by {run.difference:.3g} at "
            "most"
        )
    ms = run.latency
    out.print(
        f"latency of {run.repeat} runs: median {ms['median']:.3f} ms, 90 % within "
        f"{ms['p90']:.3f}, 99 % within {ms['p99']:.3f}; min {ms['min']:.3f}, max {ms['max']:.3f}"
    )
    if (served := run.served) is not None:
        out.print(
            f"{served['requests_a_second']:.1f} requests a second with {served['workers']} at once "
            f"and {served['in_flight']} in flight: half within {served['p50_ms']:.3f} ms, 99 % "
            f"within {served['p99_ms']:.3f}, waiting included"
        )


def _range(array: Array) -> tuple[str, str]:
    if not array.size:
        return "", ""
    return f"{float(array.min()):.6g}", f"{float(array.max()):.6g}"
