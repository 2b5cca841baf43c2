"""One deployment of twelve programs beside twelve executables: bytes, loading, right answers.

Programs are scheduled by a description, not measured: what is looked at are files, and whether
each number of rows gets the right outputs on each kind of machine that this one can stand for.
Outputs are compared with ONNX Runtime's of the model in just that batch, and those of C++ bit by
bit with Python's, as `deployment_in_cpp.py` does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import write_result
from benchmarks.serving.deployment_in_cpp import figures_of
from relay_passes.load import load_model
from relay_passes.search_options import SearchOptions
from runtime_ext.deployment.deployment import Deployment, load_deployment
from runtime_ext.deployment.files import entry_folder
from runtime_ext.deployment.machine import machine_of
from runtime_ext.execution.bound_model import onnx_session
from runtime_ext.named_target import target_of
from tvm_ios.api import Options, optimize
from tvm_ios.api.deployments.combinations import combinations
from tvm_ios.api.deployments.deployed import optimize_deployment
from tvm_ios.cli.frame.output import console, progress_bars
from tvm_ios.deployment.registry import DeploymentError
from tvm_ios.files.array_files import Array
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource


def options(arch: str | None, lanes: int) -> SearchOptions:
    return SearchOptions(lanes=lanes, target=target_of("llvm", arch, lanes))


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def seconds(call: Callable[[], object], repeat: int = 7) -> float:
    """The median of some calls."""
    samples: list[float] = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


#: Times what loads some executables, the first and the only ones of a process.
LOADING = """
import sys, time
from runtime_ext.execution.executable import load
from runtime_ext.native_library import load_native_library
load_native_library()
begin = time.perf_counter()
for path in sys.argv[1:]:
    load(path)
print(time.perf_counter() - begin)
"""


def load_seconds(paths: Sequence[Path], repeat: int = 5) -> float:
    """Loading some executables: the median of processes, as one verifies a file only once."""
    command = [sys.executable, "-c", LOADING, *map(str, paths)]
    runs = [subprocess.run(command, check=True, capture_output=True) for _ in range(repeat)]
    return statistics.median(float(run.stdout) for run in runs)


def reference(model: str, inputs: dict[str, Array], rows: int) -> list[Array]:
    """What ONNX Runtime computes from these rows."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        Path(file.name).write_bytes(load_onnx(ModelSource(model, batch=rows)).SerializeToString())
        return onnx_session(Path(file.name), 1).run(None, inputs)


def answers(deployment: Deployment, model: str, archs: list[str], lanes: list[int]) -> list[Any]:
    """Each number of rows on each kind of machine: the entry, and the largest relative error."""
    entries = deployment.registry.entries
    most = max(entry.batch or 0 for entry in entries)
    rows_of: list[Any] = []
    for rows in range(1, most + 1):
        expected: list[Array] = []
        for arch in archs:
            for count in lanes:
                machine = machine_of(entries, arch, count)
                session = replace(deployment, machine=machine).session()
                shapes = {name: (rows, *s[1:]) for name, s in entries[0].shapes.items()}
                inputs = session.random_inputs(rows, shapes)
                expected = expected or reference(model, inputs, rows)
                session.run(**inputs)
                outputs = [session.get_output(port.name) for port in session.outputs]
                error = max(
                    float(np.abs(a - b).max() / np.abs(b).max())
                    for a, b in zip(outputs, expected, strict=True)
                )
                rows_of.append(
                    {
                        "rows": rows,
                        "arch": arch,
                        "lanes": count,
                        "entry": session.entry.id,
                        "batch": session.entry.batch,
                        "max_rel_error": error,
                    }
                )
                session.close()
    return rows_of


def refusals(deployment: Deployment) -> list[str]:
    """What is said of shapes that nobody serves: too many rows, no rows, another picture."""
    entries = deployment.registry.entries
    most = max(entry.batch or 0 for entry in entries)
    shapes = entries[0].shapes
    said: list[str] = []
    for other in (
        {name: (most + 1, *shape[1:]) for name, shape in shapes.items()},
        {name: (0, *shape[1:]) for name, shape in shapes.items()},
        {name: (*shape[:-1], shape[-1] + 1) for name, shape in shapes.items()},
    ):
        try:
            deployment.choose(other)
        except DeploymentError as error:
            said.append(str(error))
        else:
            raise AssertionError(f"{other} was not refused")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="squeezenet")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--archs", nargs="+", default=["x86-64-v3", "x86-64-v4"])
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    sources = [ModelSource(arguments.model, batch=batch) for batch in arguments.batches]
    wanted = combinations(sources, arguments.archs, arguments.lanes)
    with tempfile.TemporaryDirectory() as room, progress_bars() as update:
        app, alone = Path(room) / "app", Path(room) / "alone"
        alone.mkdir()
        by_description = Options(cost="cpu")
        assert not optimize_deployment(wanted, app, by_description, update).left_out
        for number, combination in enumerate(wanted):
            update("executables", number, len(wanted))
            search = options(combination.arch, combination.lanes)
            how = replace(by_description, search=search)
            optimize(load_model(combination.source), alone / str(number), how)
        update("executables", len(wanted), len(wanted))
        deployment = load_deployment(app)
        entries = deployment.registry.entries
        folders = [entry_folder(app, entry.id) for entry in entries]
        answered = answers(deployment, arguments.model, arguments.archs, arguments.lanes)
        figures = {
            "model": arguments.model,
            "programs": len(entries),
            "bytes": {
                "deployment": size(app),
                "executables": size(alone),
                "ratio": size(app) / size(alone),
                **{f"deployment/{room}": size(app / room) for room in ("weights", "kernels")},
            },
            "load_seconds": {
                "deployment": seconds(lambda: load_deployment(app)),
                "entry": load_seconds(folders[:1]),
                "executable": load_seconds([alone / "0"]),
                "all_entries": load_seconds(folders),
                "all_executables": load_seconds([alone / str(n) for n in range(len(wanted))]),
            },
            "answers": answered,
            "max_rel_error": max(row["max_rel_error"] for row in answered),
            "refusals": refusals(deployment),
        }
        write_result("deployment", figures)
        write_result("deployment_in_cpp", figures_of(app))
    table = Table("", "deployment", "12 executables")
    sizes, times = figures["bytes"], figures["load_seconds"]
    for name, one, other, unit, scale in (
        ("bytes", sizes["deployment"], sizes["executables"], "MiB", 2**-20),
        ("load one", times["deployment"] + times["entry"], times["executable"], "ms", 1e3),
        ("load all", times["all_entries"], times["all_executables"], "ms", 1e3),
    ):
        table.add_row(name, f"{one * scale:.1f} {unit}", f"{other * scale:.1f} {unit}")
    console().print(table)
    console().print(f"largest error of {len(answered)} runs: {figures['max_rel_error']:.1e}")


if __name__ == "__main__":
    main()
