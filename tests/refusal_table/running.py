"""Runs what is refused, in a fresh folder, and tells the sentence and the exit code."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from runtime_ext.machine.this_machine import processor
from tests.cuda.stand_in.build import build_stand_in
from tests.fuzz.models import write_sound_files
from tvm_ios.cli import app
from tvm_ios.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """One refusal."""

    #: What is wrong, for people.
    what: str
    #: A command line, or a line of Python that begins with :func:`tvm_ios.api.load`.
    command: str
    #: Called in the folder, before the command.
    prepare: Callable[[], object] = lambda: None
    #: The disk is full.
    full: bool = False
    #: Signal to send once the command has begun to compile.
    number: signal.Signals | None = None
    #: NVIDIA's driver is there: the tests' stand-in for it.
    gpu: bool = False
    #: After this the sentence is another library's, which changes with its version, or a list that
    #: grows.
    library: str = ""


def make_sound_files(sound: Path) -> None:
    """What a row's folder holds at first."""
    sound.mkdir()
    write_sound_files(sound)
    (sound / "model.onnx").rename(sound / "m.onnx")
    (sound / "executable").rename(sound / "out")


def line_of(row: Row, sound: Path, place: Path) -> str:
    """Run a row in a folder that is not there yet: its line of the page."""
    code, sentence = _run(row, sound, place)
    shown = sentence.replace("|", "\\|")
    return f"| {row.what} | `{row.command}` | {shown} | {code} |"


def _run(row: Row, sound: Path, place: Path) -> tuple[str, str]:
    shutil.copytree(sound, place)
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(place)
    try:
        row.prepare()
        if row.number is not None:
            code, said = _run_and_send(row.command, row.number)
        else:
            with _full_disk() if row.full else contextlib.nullcontext():
                code, said = _run_command(row.command, gpu=row.gpu)
        litter = [p.name for p in place.iterdir() if p.name.startswith(".")]
        assert not litter, f"{row.what} leaves {litter}"
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        shutil.rmtree(place)
    if row.library:
        said = said.partition(row.library)[0] + row.library + " …"
    return code, _normalised(said, place)


def _run_python(line: str) -> tuple[str, str]:
    from tvm_ios.api import load

    try:
        eval(line, {"load": load})
    except UserError as error:
        return "", str(error)
    raise AssertionError(f"{line} is not refused")


def _run_command(command: str, *, gpu: bool = False) -> tuple[str, str]:
    if command.startswith("load("):
        return _run_python(command)
    words = shlex.split(command)[1:]
    if gpu:
        script = [sys.executable, "-m", "tvm_ios", *words, "--json"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(_driver())}
        done = subprocess.run(script, capture_output=True, text=True, env=environment)
        assert done.stdout == "", (command, done.stdout)
        return str(done.returncode), done.stderr.strip().splitlines()[-1]
    if words[-2:-1] == [">"]:
        script = [sys.executable, "-m", "tvm_ios", *words[:-2]]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with Path(words[-1]).open("w") as out:
            done = subprocess.run(script, stdout=out, stderr=-1, text=True, env=environment)
        return str(done.returncode), done.stderr.strip().splitlines()[-1]
    result = CliRunner().invoke(app, [*words, "--json"], env={"COLUMNS": "300"})
    assert isinstance(result.exception, SystemExit), f"{command} ends with {result.exception}"
    assert result.stdout == "", (command, result.stdout)
    assert "Traceback" not in result.stderr
    said = [line.strip("│ ") for line in result.stderr.strip().splitlines()]
    return str(result.exit_code), [line for line in said if not line.startswith("╰")][-1]


@functools.cache
def _driver() -> Path:
    """The folder of the driver that stands in, without cuDNN."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    build_stand_in(folder)
    (folder / "libcudnn.so.9").unlink()
    return folder


def _run_and_send(command: str, number: signal.Signals) -> tuple[str, str]:
    environment = os.environ | {"TVM_IOS_CACHE": "new-cache", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tvm_ios", *shlex.split(command)[1:]]
    # Where this runs in the background of a shell, Ctrl-C is ignored: not there.
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        words, stdout=-1, stderr=-1, text=True, env=environment, preexec_fn=hear
    )
    while process.poll() is None and not list(Path().glob("new-cache/kernels/*.o")):
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate()
    assert out == "", (command, out)
    return str(process.returncode), err.strip().splitlines()[-1]


@contextlib.contextmanager
def _full_disk() -> Iterator[None]:
    """Let every file that is written fail as on a full disk."""
    failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch.object(os, "fsync", side_effect=failure),
        mock.patch.object(Path, "write_bytes", side_effect=failure),
    ):
        yield


def _normalised(said: str, place: Path) -> str:
    said = said.removeprefix("tvm-ios: ")
    for old, new in (
        (f"{place}/", ""),
        (processor(), "this CPU"),
        (platform.machine(), "x86_64"),
    ):
        said = said.replace(old, new)
    # Kernels are called by a hash of the target too.
    said = re.sub(r"k[0-9a-f]{24}_", "k…_", said)
    return re.sub(r"x86-64-v[234](, num-cores 1)?", r"x86-64-v3\1", said)
