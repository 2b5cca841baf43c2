"""``tvm-ios run``: run a saved executable."""

from __future__ import annotations

import hashlib
import io
import statistics
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tvm_ios.cli.output import Debug, Json, console, print_json, reports_errors
from tvm_ios.errors import UserError
from tvm_ios.files import require_writable, write_atomically


@reports_errors
def run(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    inputs: Annotated[
        Path | None, typer.Option("--input", help="An .npz with one array an input.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of random inputs, where --input is not given.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs to time.")] = 10,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run an executable on given or random inputs, and time it."""
    from runtime_ext.executable import load

    if output is not None:
        require_writable(output)
    session = load(executable).session()
    arrays = _read(inputs) if inputs is not None else session.random_inputs(seed)
    session.set_input(**arrays)
    session.run()
    seconds = session.benchmark(number=1, repeat=repeat)
    results: dict[str, Any] = {info.name: session.get_output(info.name) for info in session.outputs}
    if output is not None:
        packed = io.BytesIO()
        np.savez(packed, **results)
        write_atomically(output, packed.getvalue())
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
        print_json({"latency_ms": latency, "outputs": digests})
        return
    table = Table("output", "shape", "type", "smallest", "largest", title=str(executable))
    for name, array in results.items():
        shape = "x".join(map(str, array.shape))
        table.add_row(name, shape, str(array.dtype), f"{array.min():.6g}", f"{array.max():.6g}")
    console().print(table)
    console().print(
        f"latency of {repeat} runs: median {latency['median']:.3f} ms, "
        f"min {latency['min']:.3f}, max {latency['max']:.3f}"
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        arrays = np.load(path, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise UserError(f"{path} holds one array without a name: save it with numpy.savez")
        with arrays:
            return {name: arrays[name] for name in arrays.files}
    except UserError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read the inputs {path}: {error}") from error
