"""What no command foresees is still one sentence: odd errors, readers that leave, full disks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_process
from tests.onnx_sketch import Sketch


def fail_with(error: BaseException, patch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    patch.setattr("tvm_ios.api.units_and_tail", fail)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (
            KeyError("x\ny"),
            ("KeyError", r"'x\ny'", "tvm-ios", "--debug"),
        ),
        (MemoryError(), ("memory",)),
        (OSError(28, "No space left on device", "out"), ("out: No space left on device",)),
        (OSError("it is\nfull"), ("it is full",)),
    ],
)
def test_the_sentence_of_an_error(
    error: BaseException, named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, monkeypatch)
    tvm_ios("stats", "squeezenet", "--json").refuses(*named)
    with pytest.raises(type(error)):
        tvm_ios("stats", "squeezenet", "--debug")


def test_an_ignored_signal_stays_ignored() -> None:
    script = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from tvm_ios import interrupts
with interrupts.reported():
    os.kill(os.getpid(), signal.SIGINT)
    interrupts.raise_if_received()
    print("not received")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("not received\n", "")


def test_a_full_disk_below_stdout() -> None:
    command = [sys.executable, "-m", "tvm_ios", "stats", "inception_block", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "tvm-ios: No space left on device"


def test_a_reader_that_has_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tvm_ios", "stats", "inception_block", "--json"]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "tvm-ios:" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_output_that_cannot_be_written_is_known_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(AssertionError("the work has begun"), monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for option in ("-o", "--plot"):
        outcome = tvm_ios("schedule", "inception_block", option, "file/s.svg", "--json")
        assert outcome.sentence == "file: Not a directory"
    assert tvm_ios("run", "nothing", "--output", ".").sentence == ".: Is a directory"


def test_the_importer_of_tvm_prints_nothing(tmp_path: Path) -> None:
    """It prints what it fails at, to stdout."""
    sketch = Sketch(1, 4, 6, 6)
    model = sketch.model(sketch.op("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    (pool,) = model.graph.node
    for attribute in pool.attribute:
        if attribute.name == "kernel_shape":
            attribute.ints.append(3)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    options = ["--cost", "measured", "--lanes", 1, "--json"]
    assert tvm_ios_process("schedule", tmp_path / "m.onnx", *options).sentence


@pytest.mark.parametrize("command", [("schedule",), ("memory", "--units")])
def test_a_picture_that_nothing_can_draw_is_known_before_the_work(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(AssertionError("the work has begun"), monkeypatch)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = tvm_ios(*command, "inception_block", "--plot", tmp_path / "s.svg")
    outcome.refuses("pip install 'tvm-ios[notebook]'")
