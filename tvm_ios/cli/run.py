"""``tvm-ios run``: run a saved executable."""

from __future__ import annotations

import hashlib
import statistics
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.executables import refuse_models
from tvm_ios.cli.help_pages import HelpPage
from tvm_ios.cli.output import Debug, Json, console, print_json, reports_errors
from tvm_ios.files.array_files import Array, read_arrays, write_arrays
from tvm_ios.files.atomic import require_writable

PAGE = HelpPage(
    ("tvm-ios run out/ --input x.npz --output y.npz", "tvm-ios run out/ --repeat 100"),
    "`tvm-ios explain` says where the time goes.",
)


@reports_errors
def run(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    inputs: Annotated[
        Path | None, typer.Option("--input", help="An .npz with one array an input.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of random inputs, where --input is not given.")
    ] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs to time.")] = 10,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run an executable on given or random inputs, and time it.

    It runs where the processor, TVM's version and every checksum fit what it was made for. What
    `optimize` saved in the place of one, because it was faster, runs too.
    """
    from runtime_ext.execution.executable import load
    from runtime_ext.execution.foreign_build import ForeignBuild

    refuse_models(executable)
    if output is not None:
        require_writable(output)
    loaded = load(executable)
    session = loaded.session()
    build, tail = None, None
    if isinstance(loaded, ForeignBuild):
        build = loaded
    elif loaded.tail is not None:
        tail = loaded.tail.sentence
    arrays = read_arrays(inputs) if inputs is not None else session.random_inputs(seed)
    session.set_input(**arrays)
    session.run()
    seconds = session.benchmark(number=1, repeat=repeat)
    results: dict[str, Any] = {info.name: session.get_output(info.name) for info in session.outputs}
    if output is not None:
        write_arrays(output, results)
    latency = {
        "median": statistics.median(seconds) * 1e3,
        "min": min(seconds) * 1e3,
        "max": max(seconds) * 1e3,
    }
    if as_json:
        digests = {
            name: {
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            }
            for name, array in results.items()
        }
        runtime = None if build is None else build.runtime
        print_json({"latency_ms": latency, "outputs": digests, "tail": tail, "runtime": runtime})
        return
    table = Table("output", "shape", "type", "smallest", "largest", title=escape(str(executable)))
    for name, array in results.items():
        shape = "x".join(map(str, array.shape))
        table.add_row(escape(name), shape, str(array.dtype), *_range(array))
    console().print(table)
    if build is not None:
        console().print(f"[yellow]this is {build.sentence}[/yellow]")
    if tail is not None:
        console().print(f"[yellow]{escape(tail)}[/yellow]")
    console().print(
        f"latency of {repeat} runs: median {latency['median']:.3f} ms, "
        f"min {latency['min']:.3f}, max {latency['max']:.3f}"
    )


def _range(array: Array) -> tuple[str, str]:
    if not array.size:
        return "", ""
    return f"{float(array.min()):.6g}", f"{float(array.max()):.6g}"
