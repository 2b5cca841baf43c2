"""A deployment from C++, without Python: loading, every number of rows, what is refused.

It builds `examples/cpp`, whose `run_deployment` runs the deployment on random inputs, and compares
its outputs with those of a session of Python, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import write_result
from runtime_ext.deployment.deployment import Deployment, load_deployment
from runtime_ext.native_library import native_library_path
from tvm_ios.cli.frame.output import console
from tvm_ios.deployment.entry import TensorType

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"


def build_example(folder: Path) -> Path:
    """The program ``run_deployment``, built by CMake into a folder."""
    python, library = f"-DPython_EXECUTABLE={sys.executable}", native_library_path()
    for command in (
        ["-S", EXAMPLE, "-B", folder, python, f"-DTVM_IOS_LIBRARY={library}"],
        ["--build", folder],
    ):
        subprocess.run(["cmake", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return folder / "run_deployment"


def shape_texts(deployment: Deployment) -> tuple[list[str], list[str]]:
    """All shapes that programs serve, with every number of rows; and some that none serves."""
    served: dict[str, None] = {}
    refused: dict[str, None] = {}
    for entry in deployment.registry.entries:
        for rows in range(1 if entry.padding else entry.batch or 0, (entry.batch or 0) + 1):
            served[_text(entry.inputs, rows)] = None
        refused[_text(entry.inputs, 0)] = None
    most = max(deployment.registry.entries, key=lambda entry: entry.batch or 0)
    refused[_text(most.inputs, (most.batch or 0) + 1)] = None
    return list(served), list(refused)


def _text(inputs: tuple[TensorType, ...], rows: int) -> str:
    shapes = {port.name: (rows, *port.shape[1:]) for port in inputs}
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())


def figures_of(app: Path) -> dict[str, Any]:
    """What C++ makes of a deployment, as ``benchmarks/results`` describes it.

    Raises
    ------
    AssertionError
        If outputs differ from Python's, or something else is refused than should be.
    """
    deployment = load_deployment(app)
    served, refused = shape_texts(deployment)
    with tempfile.TemporaryDirectory() as room:
        program, outputs = build_example(Path(room) / "build"), Path(room) / "outputs"
        outputs.mkdir()
        # Nothing of this process's Python is in its environment.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TVM"))}
        done = subprocess.run(
            [program, "-o", outputs, app, *served, *refused],
            capture_output=True,
            text=True,
            env=environment,
        )
        loaded, *lines = done.stdout.splitlines()
        sentences = done.stderr.splitlines()
        assert len(lines) == len(served), sentences
        assert len(sentences) == len(refused), sentences
        runs: list[dict[str, Any]] = []
        for number, line in enumerate(lines):
            told = re.fullmatch(r"(.*): (\S+), first (\S+) ms, then (\S+) ms", line)
            assert told is not None, line
            _require_equal(deployment, outputs, number, told[1], told[2])
            first, then = float(told[3]), float(told[4])
            runs.append({"shapes": told[1], "entry": told[2], "first_ms": first, "then_ms": then})
    match = re.search(r"loaded in (\S+) ms", loaded)
    assert match is not None, loaded
    return {
        "programs": len(deployment.registry.entries),
        "load_ms": float(match[1]),
        "runs": runs,
        "refusals": sentences,
    }


def _require_equal(
    deployment: Deployment, outputs: Path, number: int, shapes: str, entry: str
) -> None:
    """Require that Python takes the same program for a run's inputs, and computes the same bits."""
    session = deployment.session()
    types = {port.name: port.dtype for port in deployment.registry.entries[0].inputs}
    for text in shapes.split(","):
        name, _, extents = text.rpartition(":")
        raw = np.fromfile(outputs / f"{number}.{name}.raw", types[name])
        session.set_input(name, raw.reshape([int(extent) for extent in extents.split("x")]))
    session.run()
    assert session.entry.id == entry, (session.entry.id, entry)
    for port in session.outputs:
        raw = np.fromfile(outputs / f"{number}.{port.name}.raw", port.dtype)
        np.testing.assert_array_equal(raw.reshape(port.shape), session.get_output(port.name))
    session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("app", type=Path, help="what `tvm-ios optimize --batch ... -o` wrote")
    figures = figures_of(parser.parse_args().app)
    write_result("deployment_in_cpp", figures)
    first = sorted(run["first_ms"] for run in figures["runs"])
    console().print(
        f"{figures['programs']} programs, loaded in {figures['load_ms']:.1f} ms; "
        f"{len(figures['runs'])} runs equal Python's, of which the first of a program took up to "
        f"{first[-1]:.0f} ms; {len(figures['refusals'])} refusals"
    )


if __name__ == "__main__":
    main()
