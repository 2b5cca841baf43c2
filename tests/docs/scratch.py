"""A folder in which the commands and the Python of a page run: what they take as given is made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.docs.pages import ROOT
from tests.onnx_sketch import Sketch

#: Options that make a command short, where it does not give them itself.
SHORT: Mapping[str, Mapping[str, str]] = {
    "optimize": {"--max-measurements": "12", "--policy": "ios-parallel"},
    "bundle": {"-r": "1", "-s": "2"},
    "bench": {"--seconds": "1", "--max-measurements": "4", "--policy": "ios-parallel"},
    "tune": {"--trials": "4"},
}
#: Commands that end otherwise than well, as their pages show.
EXIT_CODES: Mapping[str, tuple[int, ...]] = {
    # It may find something that is wrong with this machine.
    "tvm-ios doctor": (0, 1),
    # The example has a race.
    "tvm-ios check plan.json": (1,),
    # No order fits: the page shows the sentence.
    "tvm-ios memory darts_cifar --budget 400K": (1,),
}
#: An entry of a deployment, by its name or as a shell finds one.
_ENTRY = re.compile(r"x86-64-v\d-\d+l-b\d+-[0-9a-f]{8}|\$\(.*\)")
#: Options that name what a command writes.
_WRITTEN = re.compile(r"(-o|--output|--log|--plot) \S+")
_BRIEF = ROOT / "tests" / "brief.py"
#: A policy of docs/own_policy.md, and the folder that its package is installed in.
_PACKAGE = "longest-path"


@dataclass(frozen=True)
class Scratch:
    """A folder, and what processes in it know."""

    folder: Path

    def run_command(self, line: str, words: list[str]) -> None:
        """Run a command line, with contests that are brief; it must end as its page says."""
        self.provide(_WRITTEN.sub("", line))
        program, *rest = words
        if program.rpartition("/")[2] == "tvm-ios":
            rest = [self._entry() if _ENTRY.fullmatch(word) else word for word in rest]
            command = [sys.executable, str(_BRIEF), *rest, *_short(rest)]
        else:
            assert program == "python", f"no test knows how to run {line}"
            command = [sys.executable, *rest]
        done = self._run(command)
        assert done.returncode in EXIT_CODES.get(line, (0,)), f"{line}\n{done.stdout}{done.stderr}"

    def run_python(self, code: str) -> None:
        """Run the Python of a page, in which ``image`` is an input of ``model.onnx``."""
        self.provide(code)
        given = (
            f"from tests.brief import shorten\nshorten()\nimport numpy\n"
            f"image = images = numpy.zeros({_IMAGE}, 'float32')\n"
        )
        done = self._run([sys.executable, "-c", given + code])
        assert done.returncode == 0, done.stderr

    def provide(self, text: str) -> None:
        """Make each given file that a text names and that is not there."""
        for name, make in GIVEN.items():
            path = self.folder / name
            if re.search(rf"(?<![\w/.]){re.escape(name)}\b", text) and not path.exists():
                make(self, path)

    def tvm_ios(self, *words: str) -> None:
        """Run a command that makes something given."""
        done = self._run([sys.executable, str(_BRIEF), *words, *_short(words)])
        assert done.returncode == 0, done.stderr

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        paths = (str(ROOT), str(self.folder / _PACKAGE))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=1800
        )

    def _entry(self) -> str:
        """An entry of the deployment, whose names depend on the machine."""
        return sorted(path.name for path in (self.folder / "app" / "entries").iterdir())[-1]


def _short(words: Sequence[str]) -> list[str]:
    """The options that make a command short."""
    missing = {o: v for o, v in SHORT.get(words[0], {}).items() if o not in words}
    return [word for pair in missing.items() for word in pair]


_IMAGE = (1, 3, 224, 224)


def _network(*shape: int | str) -> bytes:
    """Two branches and their mean over the pixels: an ``image`` to ``probabilities``."""
    sketch = Sketch(*shape)
    stem = sketch.op("Relu", sketch.conv("x", 3, 8))
    branches = [sketch.op("Relu", sketch.conv(stem, 8, 8, kernel)) for kernel in (1, 3)]
    mean = sketch.op("GlobalAveragePool", sketch.op("Concat", *branches, axis=1))
    model = sketch.model(sketch.op("Softmax", sketch.op("Flatten", mean), axis=1))
    renamed = {"x": "image", model.graph.output[0].name: "probabilities"}
    for port in (*model.graph.input, *model.graph.output):
        port.name = renamed[port.name]
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    return model.SerializeToString()


def _model(scratch: Scratch, path: Path) -> None:
    path.write_bytes(_network(*_IMAGE))


def _buffers(scratch: Scratch, path: Path) -> None:
    path.write_text("id,lower,upper,size\na,0,2,100\nb,1,3,200\nc,2,4,100\n")


def _tiny_model(scratch: Scratch, path: Path) -> None:
    from tests.memory.tiny_models import inception

    path.write_bytes(inception())


def _recogniser(scratch: Scratch, path: Path) -> None:
    path.write_bytes(_network("n", 3, 48, "width"))


def _inputs(scratch: Scratch, path: Path) -> None:
    image = np.random.default_rng(0).standard_normal(_IMAGE, "float32")
    np.savez(path, image=image) if path.suffix == ".npz" else np.save(path, image)


def _expected(scratch: Scratch, path: Path) -> None:
    scratch.provide("out x.npy")
    scratch.tvm_ios("run", "out", "--input", "image=x.npy", "--output", path.name)


def _executable(scratch: Scratch, path: Path) -> None:
    scratch.provide("model.onnx")
    scratch.tvm_ios("optimize", "model.onnx", "-o", path.name)


def _deployment(scratch: Scratch, path: Path) -> None:
    scratch.provide("model.onnx")
    scratch.tvm_ios("optimize", "model.onnx", "--batch", "1,8", "-o", path.name)


def _bundle(scratch: Scratch, path: Path) -> None:
    scratch.tvm_ios("bundle", "inception_block", "-o", path.name)


def _results(scratch: Scratch, path: Path) -> None:
    scratch.provide("model.onnx")
    path.mkdir()
    measured = ("--cost", "measured", "--max-measurements", "12")
    scratch.tvm_ios("schedule", "model.onnx", *measured, "-o", f"{path.name}/schedule.json")


def _example(scratch: Scratch, path: Path) -> None:
    path.write_bytes((ROOT / "examples" / path.name).read_bytes())


def _graph(scratch: Scratch, path: Path) -> None:
    path.write_text('digraph dot {\n"graph_1_node_0"[style="bold" label="0\nk\n"];\n}\n')


def _touched(scratch: Scratch, path: Path) -> None:
    page = (ROOT / "docs" / "check.md").read_text()
    path.write_text(page.partition("```json\n")[2].partition("```")[0])


def _longest_path(scratch: Scratch, path: Path) -> None:
    """The package that docs/own_policy.md shows, as ``pip install ./longest_path`` leaves it."""
    page = (ROOT / "docs" / "own_policy.md").read_text()
    declared, code = (
        page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("toml", "python")
    )
    about = path / "longest_path-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: longest-path\nVersion: 1.0\n")
    points = re.sub(r'project\.entry-points\."(.*)"', r"\1", declared).replace('"', "")
    (about / "entry_points.txt").write_text(points)
    (path / "longest_path.py").write_text(code)


#: What commands and Python take as given, by its name; files are made when a line names them first.
GIVEN: Mapping[str, Callable[[Scratch, Path], None]] = {
    "model.onnx": _model,
    "fused.onnx": _model,
    "model.tflite": _tiny_model,
    "buffers.csv": _buffers,
    "recogniser.onnx": _recogniser,
    "x.npz": _inputs,
    "x.npy": _inputs,
    "expected.npz": _expected,
    "out": _executable,
    "other": _executable,
    "app": _deployment,
    "squeezenet.bundle": _bundle,
    "results": _results,
    "sweep.toml": _example,
    "plan.json": _example,
    "graph.dot": _graph,
    "buffers.json": _touched,
    _PACKAGE: _longest_path,
}
