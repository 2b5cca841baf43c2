"""Memory: the arena of ONNX Runtime with models as they came, and with their nodes reordered.

Four ways: the model as it came, with ONNX Runtime's defaults; its nodes reordered, with the same;
what ONNX Runtime itself optimised (up to its extended level), run as it is, in the order of the
file; and that reordered. The last two with and without the reuse of buffers of equal shapes that
its planner decides before the run: the smaller block of both. Two figures each: the block that
holds all intermediate tensors from the second run on, and all that its arena has allocated by then.
The outputs are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.networks.packaged import PACKAGED
from benchmarks.report import model_of, update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.files.byte_sizes import kib
from tvm_ios.memory import order
from tvm_ios.memory.formats.onnx_model import WrittenModel
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.input_shapes import parse_shapes

NETWORKS = (
    *("nasnet_a_mobile", "amoebanet_a", "darts", "randwire_small_1", "hrnet_w18_small_v1_256"),
    *("unet", "yolov8n", "minilm", "ppocr_det", "page_layout"),
)
#: Written to stderr between the log lines of loading and of each run.
_MARK = "=== next\n"
#: The outputs of two levels of optimisation may differ by so much.
_TOLERANCE = 1e-3


def measure(model: Path, way: str, inputs: Path, outputs: Path) -> tuple[int, int]:
    """The block of the second run and all that the arena has allocated, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory.onnx_runtime", "--child", way]
    files = [str(path) for path in (model, inputs, outputs)]
    done = subprocess.run([*command, *files], check=True, capture_output=True, text=True)
    parts = done.stderr.split(_MARK)
    grown = [sum(map(int, re.findall(r"Extended allocation by (\d+)", part))) for part in parts]
    return grown[2], sum(grown)


def measure_file(model: Path, inputs: Path, outputs: Path) -> tuple[int, int]:
    """The same of a model that is run as it is, with its planner's reuse or without."""
    return min(measure(model, way, inputs, outputs) for way in ("reuse", "no reuse"))


def child(way: str, model: str, inputs: str, outputs: str) -> None:
    import onnxruntime as ort

    # The arena tells what it allocates.
    ort.set_default_logger_severity(1)
    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.use_env_allocators", "1")
    if way != "default":
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
        options.enable_mem_reuse = way == "reuse"
    kind = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    info = ort.OrtMemoryInfo("Cpu", kind, 0, ort.OrtMemType.DEFAULT)
    # No more than is asked for.
    ort.create_and_register_allocator(info, ort.OrtArenaCfg({"arena_extend_strategy": 1}))
    session: Any = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    values = dict(np.load(inputs))
    results = []
    for _ in range(3):
        sys.stderr.write(_MARK)
        sys.stderr.flush()
        results = session.run(None, values)
    np.savez(outputs, *results)


def optimised(model: Path, folder: Path) -> Path:
    """The model as ONNX Runtime optimises it."""
    import onnxruntime as ort

    path = folder / "optimised.onnx"
    options: Any = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return path


def write_inputs(model: Path, shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    import onnxruntime as ort

    rng = np.random.default_rng(0)
    values = {}
    session: Any = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    for value in session.get_inputs():
        shape = shapes.get(value.name) or [n if isinstance(n, int) else 1 for n in value.shape]
        whole = "int" in value.type
        values[value.name] = (
            np.ones(shape, np.int64) if whole else rng.standard_normal(shape).astype(np.float32)
        )
    np.savez(path, **values)


def reordered(source: ModelSource, path: Path, limit: float) -> dict[str, int]:
    """Write the model in the order of least peak; its peak before and after by our count."""
    model = WrittenModel.read(source)
    own, found = model.graph.peak(range(len(model.nodes))), order(model.graph, time_limit=limit)
    model.write(path, found.order if found.peak < own else range(len(model.nodes)))
    return {"peak": own, "least": min(own, found.peak), "bound": found.bound}


def run_network(network: str, limit: float) -> dict[str, Any]:
    shapes: dict[str, tuple[int, ...]] = {}
    name = model_of(network)
    if network in PACKAGED:
        name = str(PACKAGED[network].required_path())
        shapes = {k: tuple(v) for k, v in parse_shapes(PACKAGED[network].shapes).items()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        came, again = folder / "came.onnx", folder / "reordered.onnx"
        source = ModelSource(name, shapes=shapes)
        model = WrittenModel.read(source)
        model.write(came, range(len(model.nodes)))
        inputs, expected, found = (folder / f"{n}.npz" for n in ("inputs", "expected", "found"))
        write_inputs(came, shapes, inputs)
        row: dict[str, Any] = {"model": network, **reordered(source, again, limit)}
        row["came"] = measure(came, "default", inputs, expected)
        row["reordered"] = measure(again, "default", inputs, found)
        row["error"] = error_of(expected, found)
        plain = optimised(came, folder)
        row["as_file"] = measure_file(plain, inputs, found)
        row["error"] = max(row["error"], error_of(expected, found))
        own = ModelSource(str(plain), shapes=shapes)
        row |= {f"optimised_{k}": v for k, v in reordered(own, again, limit).items()}
        row["optimised"] = measure_file(again, inputs, found)
        row["error"] = max(row["error"], error_of(expected, found))
    if row["error"] > _TOLERANCE:
        raise SystemExit(f"{network}: outputs differ by {row['error']}")
    return row


def error_of(expected: Path, found: Path) -> float:
    """The largest difference, in parts of the largest value of each output."""
    one, other = np.load(expected), np.load(found)
    errors = [
        float(np.abs(one[name].astype(float) - other[name]).max(initial=0))
        / max(float(np.abs(one[name]).max(initial=0)), 1e-30)
        for name in one.files
    ]
    return max(errors)


def print_rows(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "network", "came", "reordered", "as a file", "reordered", "ratio",
        "all: came", "reordered", "least peak", "proof",
        title="KiB of ONNX Runtime's arena",
    )  # fmt: skip
    for row in rows:
        ways = [row[way] for way in ("came", "reordered", "as_file", "optimised")]
        blocks = [block for block, _ in ways]
        proven = row["optimised_least"] == row["optimised_bound"]
        table.add_row(
            row["model"],
            *map(kib, blocks),
            f"{blocks[-1] / blocks[0]:.2f}",
            kib(ways[0][1]),
            kib(ways[-1][1]),
            kib(row["optimised_least"]),
            "optimal" if proven else f"at least {kib(row['optimised_bound'])}",
        )
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of each search")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(*options.child)
        return
    rows = []
    for network in options.networks:
        rows.append(run_network(network, options.limit))
        print(json.dumps(rows[-1]), flush=True)
        update_result("memory_onnx_runtime", rows[-1:], "model")
    print_rows(rows)


if __name__ == "__main__":
    main()
