"""The main job on every network: what was kept, against what, and whether it is right.

Each network is optimised and run in processes of its own by the command line; what it came to is
written at once, and a network that was measured before is skipped (``--again`` repeats it), so
that all can be measured piece by piece. ``stages_measured`` is 0 where the cache has what a run
that was cut short had measured, or three measurements. The outputs are compared with ONNX
Runtime's; of probabilities the logarithms are, because a softmax hides errors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from rich.table import Table

from benchmarks.report import LIGHT, model_of, read_figures, update_result
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console
from tvm_ios.files.array_files import Array
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource

#: Those of thousands of units take hours each, and are measured by name.
NETWORKS = [
    n
    for n in zoo.names()
    if not zoo.describe(n).summary.endswith("for tests") and zoo.describe(n).units < 2000
]
FILES = (*LIGHT, "light_bvlc_alexnet", "light_zfnet512", "light_vgg19")
SEED = 0


def command_line(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tvm_ios", *arguments, "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def optimize(model: str, folder: str, lanes: str) -> dict[str, Any]:
    begin = time.perf_counter()
    options = ["--random-weights", str(SEED)] if model.endswith(".onnx") else []
    done = command_line("optimize", model, "-o", folder, "--lanes", lanes, *options)
    done["total_seconds"] = time.perf_counter() - begin
    done["executable"] = None  # a path of this machine
    return done


def error_to_onnxruntime(model: str, folder: str) -> float:
    """Largest difference of the executable's outputs to ONNX Runtime's, relative to the largest."""
    proto = load_onnx(ModelSource(model, SEED))
    runtime = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs: dict[str, Any] = {port.name: random_input(port) for port in runtime.get_inputs()}
    names = [port.name for port in runtime.get_outputs()]
    expected: dict[str, Any] = dict(zip(names, runtime.run(names, inputs), strict=True))
    with tempfile.TemporaryDirectory() as place:
        given, written = Path(place) / "inputs.npz", Path(place) / "outputs.npz"
        np.savez(given, **inputs)
        command_line("run", folder, "--input", str(given), "--output", str(written))
        with np.load(written) as outputs:
            return max(relative_error(outputs[name], expected[name]) for name in names)


def random_input(port: Any) -> Array:
    rng = np.random.default_rng(SEED)
    if "int" in port.type:
        kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}[port.type]
        return rng.integers(0, 2, port.shape).astype(kind)
    return rng.standard_normal(port.shape, dtype=np.float32)


def relative_error(actual: Array, expected: Array) -> float:
    # One vector of probabilities, whatever extents of 1 stand around it.
    if expected.min() > 0 and abs(float(expected.sum()) - 1) < 1e-3:
        actual, expected = np.log(actual), np.log(expected)
    return float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS, *FILES])
    parser.add_argument("--lanes", default="2")
    parser.add_argument("--output", default="out", help="folder of the executables")
    parser.add_argument("--again", action="store_true", help="also what was measured before")
    given = parser.parse_args()
    for model in map(model_of, given.networks):
        name = Path(model).stem
        measured = {row["model"] for row in read_figures("optimize") if "output_error" in row}
        if name in measured and not given.again:
            continue
        print(f"== {name}", flush=True)
        folder = f"{given.output}/bench-{name}"
        done = optimize(model, folder, given.lanes)
        done["output_error"] = error_to_onnxruntime(model, folder)
        update_result("optimize", [done], "model")
    table = Table("network", "operators", "units", "kept", "to sequential", "95 %")
    for column in ("to TVM", "error to TVM", "to ONNX Runtime", "time"):
        table.add_column(column)
    for row in read_figures("optimize"):
        ratio, tvm = row["confirmed"]["sequential"], row["confirmed"]["tvm"]
        error = max(p["max_rel_error"] for p in row["policies"])
        table.add_row(
            row["model"],
            str(row["search"]["operators"]),
            str(row["search"]["units"]),
            row["kept"],
            f"{ratio['ratio']:.3f}",
            f"{ratio['high']:.3f}",
            f"{tvm['ratio']:.3f}",
            f"{error:.1e}",
            f"{row['output_error']:.1e}" if "output_error" in row else "",
            f"{row['total_seconds']:.0f} s",
        )
    console().print(table)


if __name__ == "__main__":
    main()
