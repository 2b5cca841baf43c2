"""``--verbose`` shows what the packages log; without it they say nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command_line import tvm_ios
from tests.measuring.sleeping_device import SleepingDevice, timer_of
from tests.onnx_sketch import Sketch
from tests.random_dags import graph_of


def test_a_search_says_what_it_found() -> None:
    quiet = tvm_ios("schedule", "inception_block", "--json")
    told = tvm_ios("schedule", "inception_block", "--json", "-v")
    assert {**told.json, "search": None} == {**quiet.json, "search": None}
    for words in ("17 units in 3 blocks, by v100", "ios-both: 6 stages"):
        assert words in told.stderr
        assert words not in quiet.stderr
    # The next command of the process is quiet again.
    assert "ios-both" not in tvm_ios("schedule", "inception_block", "--json").stderr


def test_measurements_are_told_at_the_second_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = graph_of((0, 0b1, 0b10), ["first", "second", "third"])
    for level in (logging.INFO, logging.DEBUG):
        timer = timer_of(graph, SleepingDevice(1), tmp_path / f"{level}.jsonl")
        caplog.clear()
        with caplog.at_level(level, "tvm_ios"):
            timer.measure_units()
        measured = [row for row in caplog.messages if row.startswith("measured: ")]
        assert len(measured) == (timer.stages_measured if level == logging.DEBUG else 0)
        assert timer.stages_measured
        assert all(row.endswith(" ms") for row in measured)


def test_libraries_are_silent_without_a_handler() -> None:
    """As Python's ``logging`` asks of libraries: who uses them decides what is shown, and where."""
    for name in ("tvm_ios", "runtime_ext", "relay_passes"):
        logger = logging.getLogger(name)
        assert logger.level == logging.NOTSET
        assert logger.handlers == []


_WARNS = """
import sys
import warnings
from tvm_ios.cli.frame.verbose import told_on_stderr

with told_on_stderr(int(sys.argv[1])):
    warnings.warn("divide by zero encountered in log", RuntimeWarning)
"""


def test_warnings_of_packages_are_for_who_asks_twice() -> None:
    for verbosity in range(3):
        command = [sys.executable, "-W", "always", "-c", _WARNS, str(verbosity)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("divide by zero" in ended.stderr) is (verbosity == 2), ended.stderr
        assert bool(ended.stderr) is (verbosity == 2)


def test_what_tvm_warns_of_stays_off_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sketch = Sketch(4, 8)
    cubes = sketch.op("Pow", "x", sketch.const(np.float32(3)))
    rows = sketch.const(np.arange(8).reshape(1, 8) % 4)
    put = sketch.op("ScatterElements", cubes, rows, sketch.normal(1, 8), axis=0)
    infinite = sketch.op("Log", sketch.const(np.zeros(8, np.float32)))
    onnx.save(sketch.model(sketch.op("Add", put, infinite)), tmp_path / "m.onnx")
    options = ["--policy", "sequential", "--cost", "v100", "--time-limit", 1, "--json"]
    assert tvm_ios("optimize", tmp_path / "m.onnx", *options, "-o", tmp_path / "out").code == 0
    assert "arning" not in capfd.readouterr().err


def test_what_other_packages_log_stays_off_the_terminal() -> None:
    """In a process of its own: pytest handles what is logged in this one."""
    program = "\n".join(
        (
            "import logging",
            "from tvm_ios.cli.frame.verbose import told_on_stderr",
            "with told_on_stderr(0):",
            "    logging.getLogger('onnxscript.optimizer').warning('Skipping constant folding')",
        )
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
