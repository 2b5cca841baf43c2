"""Ctrl-C, SIGTERM and SIGKILL at any moment: nothing half-written, nothing measured twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from runtime_ext.execution.executable import load
from tests.cli.place import Place, make_place
from tests.fast_run import one_in

INTERRUPTED = "tvm-ios: interrupted; what was measured so far is kept"
TERMINATED = "tvm-ios: terminated; what was measured so far is kept"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def wait_for(process: subprocess.Popen[str], what: Callable[[], object]) -> None:
    # Against hanging for ever; on a busy machine minutes are nothing.
    deadline = time.monotonic() + 900
    while not what():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(2e-3)


def children(parent: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(folder.name)


def alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def listening(process: int) -> bool:
    """Whether it catches SIGTERM, as Python by itself does not."""
    status = Path(f"/proc/{process}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def stopped(process: subprocess.Popen[str], number: signal.Signals, kept: str = "") -> None:
    """Send a signal; the command says one sentence and ends as shells expect it."""
    process.send_signal(number)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 128 + number, err
    # The progress bars stand before it.
    sentence = INTERRUPTED if number is signal.SIGINT else TERMINATED
    assert err.splitlines()[-1] == sentence + kept
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.slow
def test_interrupts_while_compiling_and_measuring(place: Place) -> None:
    place.command = "schedule"
    process = place.start()
    wait_for(process, lambda: place.kernels)
    stopped(process, signal.SIGINT)
    assert not place.output.exists()
    process = place.start()
    wait_for(process, lambda: place.keys)
    stopped(process, signal.SIGTERM)
    assert not list(place.output.parent.iterdir())
    assert not list((place.root / "temporary").glob("tvm-ios-*"))
    place.finish()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_process_of_the_last_contest_ends_too(place: Place, number: signal.Signals) -> None:
    # Or it might be over before it is seen.
    place.brief = False
    process = place.start()
    contest: list[int] = []

    def begun() -> bool:
        for child in children(process.pid):
            with suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_text()
                # Loaded after it has said that it wants to die with its parent.
                loaded = "libtvm_ffi.so" in Path(f"/proc/{child}/maps").read_text()
                if "runtime_ext.peers.side_by_side" in command and loaded:
                    contest.append(child)
        return bool(contest)

    wait_for(process, begun)
    if number is signal.SIGKILL:
        process.kill()
        process.communicate()
    else:
        stopped(process, number, f"; {place.output} has the program of one unit after another")
    deadline = time.monotonic() + 900
    while any(map(alive, contest)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert load(place.output).notes["kept"] == "sequential"
    place.brief = True
    place.finish()


KILLED = """
import {module} as module
before = module.{name}
def killed(*arguments, **options):
    {call}
    os.kill(os.getpid(), 9)
module.{name} = killed
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "accident",
    [
        ("runtime_ext.execution.packages.package", "seal", "before(*arguments, **options)"),
        ("runtime_ext.execution.packages.package", "_sync", ""),
        ("runtime_ext.cpu.compiler", "object_code", ""),
        ("runtime_ext.cpu.compiler", "link", "before(*arguments, **options)"),
        ("tvm_ios.costs.log", "_write", 'os.write(arguments[0], b\'{"key": "ha\')'),
    ],
    ids=lambda accident: accident[1],
)
def test_a_kill_in_the_middle_of_writing(place: Place, accident: tuple[str, str, str]) -> None:
    module, name, call = accident
    process = place.start(KILLED.format(module=module, name=name, call=call or "pass"))
    process.communicate(timeout=900)
    assert process.returncode == -signal.SIGKILL
    assert not place.output.exists()
    place.finish()


@pytest.mark.slow
def test_interrupts_at_random_moments(place: Place) -> None:
    moments = random.Random(0)
    for _ in range(8):
        process = place.start()
        wait_for(process, partial(listening, process.pid))
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moments.uniform(0, 12))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
        # Else it had come to its end before.
        if not out:
            assert process.returncode == 128 + signal.SIGINT, err
            assert err.splitlines()[-1] == INTERRUPTED
            assert err.count("tvm-ios:") == 1
        assert "Traceback" not in err
        assert {path.name for path in place.output.parent.iterdir()} <= {"out"}
        assert not list((place.root / "temporary").glob("tvm-ios-*"))
    place.finish()


@pytest.mark.slow
def test_kills_at_random_moments(place: Place) -> None:
    moments = random.Random(0)
    for _ in range(8):
        process = place.start()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=moments.uniform(0, 12))
        process.kill()
        process.communicate()
        assert place.keys is not None
        if place.output.exists():
            load(place.output)
    place.finish()


RECEIVED = """
import os, signal, sys
from tvm_ios.__main__ import main
def receive():
    os.kill(os.getpid(), signal.SIGTERM)
{moment}
sys.argv = ["tvm-ios", "stats", "inception_block", "--json", "--debug"]
main()
"""

MOMENTS = {
    "importing": """
class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            receive()
sys.meta_path.insert(0, Finder())
""",
    "between commands and Typer": """
import typer.core
typer.core.TyperGroup.invoke = lambda *_: receive()
""",
    "and what TVM makes of it": """
from tvm_ios import api
def fail(*_, **__):
    try:
        receive()
    except KeyboardInterrupt:
        raise RuntimeError("InternalError: KeyboardInterrupt") from None
api.units_and_tail = fail
""",
    "and again while tidying up": """
from tvm_ios import api
def fail(*_, **__):
    try:
        receive()
    finally:
        receive()
api.units_and_tail = fail
""",
    "and again when Python ends": """
import atexit
atexit.register(receive)
from tvm_ios import api
api.units_and_tail = lambda *_, **__: receive()
""",
    "where nothing can be raised": """
from tvm_ios import api
class Dying:
    def __del__(self):
        receive()
def work(*_, **__):
    Dying()
    signal.pause()
api.units_and_tail = work
""",
    "where all is caught": """
from tvm_ios import api
before = api.units_and_tail
def work(*given, **named):
    try:
        receive()
    except BaseException:
        return before(*given, **named)
api.units_and_tail = work
""",
}


@pytest.mark.parametrize("moment", one_in(3, MOMENTS.values()), ids=MOMENTS)
def test_a_signal_at_an_odd_moment(moment: str) -> None:
    command = [sys.executable, "-c", RECEIVED.format(moment=moment)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert completed.stderr == f"{TERMINATED}\n"
    assert completed.returncode == 128 + signal.SIGTERM
