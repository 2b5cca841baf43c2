"""A model and a cache of its own: commands that may be killed, or run beside each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from runtime_ext.execution.executable import load
from tests.onnx_sketch import Sketch
from tvm_ios.schedule.schedule import Schedule

LIMITS = ["--lanes", "2", "--max-measurements", "12", "-r", "2", "-s", "3"]


@dataclass
class Place:
    """A model, an output, and a cache of its own."""

    root: Path
    command: str = "optimize"
    brief: bool = True

    @property
    def output(self) -> Path:
        return self.root / "results" / "out"

    @property
    def kernels(self) -> list[Path]:
        return sorted((self.root / "cache" / "kernels").glob("*.json"))

    @property
    def keys(self) -> list[str]:
        """Of the measurements; every line must be whole."""
        logs = list((self.root / "cache" / "logs").glob("*.jsonl"))
        lines = [line for log in logs for line in log.read_bytes().splitlines(keepends=True)]
        # A killed writer may leave the last line without its end: the next one removes it.
        whole = [json.loads(line) for line in lines[1:] if line.endswith(b"\n")]
        return [line["key"] for line in whole if "key" in line]

    def start(self, before: str = "", output: Path | None = None) -> subprocess.Popen[str]:
        """Begin the command, after some lines of Python that arrange an accident."""
        command = [self.command, str(self.root / "m.onnx"), *LIMITS]
        command += ["-o", str(output or self.output)]
        if self.command == "schedule":
            command += ["--cost", "measured"]
        # Where the tests run in the background of a shell, Ctrl-C is ignored: not here.
        heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"
        short = "from tests.brief import shorten\nshorten()" if self.brief else ""
        script = f"import os, signal, sys\n{heard}\n{short}\n{before}\n"
        script += "from tvm_ios.__main__ import main\nmain()"
        environment = os.environ | {
            "TVM_IOS_CACHE": str(self.root / "cache"),
            "TMPDIR": str(self.root / "temporary"),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        return subprocess.Popen(
            [sys.executable, "-c", script, *command, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def finish(self, *, once: bool = True) -> None:
        """Run to the end: what was done is not done again, and nothing is left lying about."""
        kernels = {path: path.stat().st_mtime_ns for path in self.kernels}
        process = self.start()
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert json.loads(out)["model"] == "m"
        if self.command == "schedule":
            Schedule.load(self.output)
        else:
            load(self.output).session().close()
        assert kernels.items() <= {p: p.stat().st_mtime_ns for p in self.kernels}.items()
        assert len(self.keys) > 0
        # It went on where the interrupted one was.
        assert not once or max(Counter(self.keys).values()) == 1
        assert [p.name for p in self.output.parent.iterdir()] == ["out"]
        assert not list((self.root / "cache" / "kernels").glob("new-*"))
        assert not list((self.root / "temporary").glob("tvm-ios-*"))


def make_place(root: Path) -> Place:
    """With a model of three branches, which takes seconds to optimise."""
    for name in ("results", "temporary"):
        (root / name).mkdir()
    sketch = Sketch(1, 8, 12, 12)
    branches = [sketch.conv("x", 8, 8, kernel) for kernel in (1, 3, 5)]
    model = sketch.model(sketch.op("Concat", *branches, axis=1))
    (root / "m.onnx").write_bytes(model.SerializeToString())
    return Place(root)
