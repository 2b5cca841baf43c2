"""Runs every refusal for real and writes ``docs/refusals.md``; ``--check`` only compares.

To add one, add a line to :data:`ROWS`: what it is, the command, and what makes the files that
the command needs. Commands run in a fresh folder that holds sound files: ``m.onnx``,
``graph.json``, ``schedule.json`` (of ``m.onnx``) and the executable ``out``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "refusals.md"
# TVM reads this once, when its thread pool starts.
os.environ.setdefault("TVM_NUM_THREADS", "2")


@dataclass(frozen=True)
class Row:
    """One refusal.

    Attributes
    ----------
    what
        What is wrong, for people.
    command
        A command line, or Python.
    prepare
        Called in the folder, before the command.
    full
        The disk is full.
    number
        Signal to send once the command has begun to compile.
    library
        After this the sentence is another library's, which changes with its version, or a list
        that grows.
    """

    what: str
    command: str
    prepare: Callable[[], object] = lambda: None
    full: bool = False
    number: signal.Signals | None = None
    library: str = ""


def rows() -> dict[str, list[Row]]:
    """All refusals by section."""
    optimize = "tvm-ios optimize m.onnx --lanes 1"
    measured = "tvm-ios schedule m.onnx --lanes 2 --cost log.jsonl"
    program = "program.json"
    return {
        "Models": [
            Row("no such model", "tvm-ios stats alexnet", library="of the zoo:"),
            Row("no such file", "tvm-ios stats nothing.onnx"),
            Row("a text file", "tvm-ios stats t.onnx", text("t.onnx"), library="ONNX model:"),
            Row("an empty file", "tvm-ios stats e.onnx", text("e.onnx", ""), library="ONNX model:"),
            Row("a cut file", "tvm-ios stats m.onnx", cut("m.onnx"), library="ONNX model:"),
            Row("JSON that is no graph", "tvm-ios stats graph.json", text("graph.json", "[]")),
            Row(
                "a graph that names a tensor of none",
                "tvm-ios stats graph.json",
                edit("graph.json", lambda d: d.update(outputs=[99])),
            ),
            Row(
                "blocks with a cycle",
                "tvm-ios stats b.json",
                text("b.json", '{"blocks": [{"operators": 2, "edges": [[0, 1], [1, 0]]}]}'),
            ),
        ],
        "Options": [
            Row("no command of ours", "tvm-ios alchemy"),
            Row("a number out of range", "tvm-ios optimize m.onnx --lanes 0"),
            Row("an unknown policy", "tvm-ios schedule m.onnx --policy magic"),
            Row("an unknown device", "tvm-ios schedule m.onnx --cost abacus"),
            Row("a picture of no known kind", "tvm-ios schedule m.onnx --plot s.jpeg"),
        ],
        "Outputs": [
            Row("a folder of yours in the way", f"{optimize} -o mine", folder("mine/thesis.txt")),
            Row("a file of yours in the way", f"{optimize} -o notes", text("notes")),
            Row(
                "something of yours in an executable",
                f"{optimize} -o out",
                lambda: Path("out/thesis.txt").write_text("years of work"),
            ),
            Row("a path below a file", f"{optimize} -o notes/out", text("notes")),
            Row("a folder that nobody can write", f"{optimize} -o /proc/out"),
            Row("the same of a schedule", "tvm-ios schedule m.onnx -o notes/s.json", text("notes")),
            Row("a folder where the file should be", "tvm-ios schedule m.onnx -o ."),
            Row("a full disk: a schedule", "tvm-ios schedule m.onnx -o s.json", full=True),
            Row("a full disk: outputs", "tvm-ios run out --output y.npz", full=True),
            Row("a full disk: stdout", "tvm-ios stats m.onnx --json > /dev/full"),
        ],
        "Executables": [
            Row("none there", "tvm-ios run nothing"),
            Row("a folder of something else", "tvm-ios run mine", folder("mine/thesis.txt")),
            Row("a file of something else", "tvm-ios run notes", text("notes")),
            *(
                Row(f"a flipped bit in {name}", "tvm-ios run out", flip(f"out/{name}"))
                for name in (program, "kernels.so", "params.safetensors", "schedule.json")
            ),
            Row("damaged meta.json", "tvm-ios run out", cut("out/meta.json")),
            Row("a missing file", "tvm-ios run out", lambda: Path("out/kernels.so").unlink()),
            Row("a cut tar", "tvm-ios run out.tar", lambda: (pack(), cut("out.tar")())),
            Row("`../` in a tar", "tvm-ios run out.tar", lambda: pack("../escaped")),
            Row("a link in a tar", "tvm-ios run out.tar", lambda: pack("program.json", link=True)),
            Row("another format", "tvm-ios run out", seal(lambda d: d.update(version=99))),
            Row(
                "another TVM",
                "tvm-ios run out",
                seal(lambda d: d["versions"].update({"apache-tvm": "0.99.1"})),
            ),
            Row(
                "another architecture", "tvm-ios run out", seal(lambda d: d.update(machine="mips"))
            ),
            Row("a better CPU", "tvm-ios run out", better_cpu),
        ],
        "Programs (their checksums are right)": [
            Row("waits in a circle", "tvm-ios run out", seal(circle, program)),
            Row("a wait for a lane of none", "tvm-ios run out", seal(wait(9, 1), program)),
            Row("a wait for a launch of none", "tvm-ios run out", seal(wait(1, 999), program)),
            Row("a kernel of none", "tvm-ios run out", seal(launch(1, 99), program)),
            Row("a kernel that the library lacks", "tvm-ios run out", seal(rename, program)),
            Row("a buffer of none", "tvm-ios run out", seal(launch(2, [99]), program)),
            Row("too few buffers", "tvm-ios run out", seal(launch(2, [0]), program)),
            Row("tiles of none", "tvm-ios run out", seal(launch(4, 999), program)),
            Row("a race", "tvm-ios run out", seal(without_waits, program)),
            Row("a type of none", "tvm-ios run out", seal(buffer(2, "quaternion"), program)),
            Row(
                "more memory than there is", "tvm-ios run out", seal(buffer(1, [1 << 50]), program)
            ),
        ],
        "Inputs of a run": [
            Row("another name", "tvm-ios run out --input x.npz", array(image=(1, 4, 6, 6))),
            Row("another shape", "tvm-ios run out --input x.npz", array(x=(1, 4, 6, 7))),
            Row("another type", "tvm-ios run out --input x.npz", array("float64", x=(1, 4, 6, 6))),
            Row("none", "tvm-ios run out --input x.npz", array()),
            Row("pickled objects", "tvm-ios run out --input x.npz", array("object", x=(1,))),
            Row("no .npz", "tvm-ios run out --input notes", text("notes"), library="notes:"),
        ],
        "Schedules": [
            Row("of another graph", "Schedule.load('schedule.json').validate(small(channels=8))"),
            Row("of another network", "Schedule.load('schedule.json').validate(block)"),
            Row("no schedule", "Schedule.load('graph.json')"),
            Row(
                "a unit twice",
                "Schedule.load('schedule.json').validate(small())",
                edit("schedule.json", lambda d: d["stages"].append(d["stages"][0])),
            ),
        ],
        "Logs": [
            Row("none there", measured),
            Row("no log", measured, text("log.jsonl")),
            Row("of another machine", measured, log(device="an abacus, 2 lanes")),
            Row("of another target", measured, log(target="llvm -mcpu=z80")),
            Row("of another TVM", measured, log(tvm="0.99.1")),
            Row("a damaged line", measured, lambda: (log()(), damage_log())),
            Row("without this model's units", measured, log()),
            Row("no tuning log", f"{optimize} --log mine", folder("mine/thesis.txt")),
            Row("a tuning log of another target", f"{optimize} --log db", tuning_log),
        ],
        "The cache": [
            Row("a file in its place", f"{optimize} -o new", cache("notes", text("notes"))),
            Row("nobody can write it", f"{optimize} -o new", cache("/proc/cache")),
            Row("a full disk", f"{optimize} -o new", cache("empty"), full=True),
            Row("no C++ compiler", f"{optimize} -o new", no_compiler),
        ],
        "Signals": [
            Row("Ctrl-C", "tvm-ios optimize m.onnx -o new", number=signal.SIGINT),
            Row("SIGTERM", "tvm-ios optimize m.onnx -o new", number=signal.SIGTERM),
        ],
    }


# What makes the files.


def text(name: str, content: str = "text") -> Callable[[], object]:
    """A file with some text."""
    return lambda: Path(name).write_text(content)


def folder(name: str) -> Callable[[], object]:
    """A file in a folder of its own."""

    def make() -> None:
        Path(name).parent.mkdir()
        Path(name).write_text("years of work")

    return make


def cut(name: str) -> Callable[[], object]:
    """Leave the first third of a file."""
    return lambda: os.truncate(name, Path(name).stat().st_size // 3)


def flip(name: str) -> Callable[[], object]:
    """Change one bit in the middle of a file."""

    def damage() -> None:
        content = bytearray(Path(name).read_bytes())
        content[len(content) // 2] ^= 1
        Path(name).write_bytes(content)

    return damage


def edit(name: str, change: Callable[[Any], object]) -> Callable[[], object]:
    """Change parsed JSON."""

    def damage() -> None:
        data = json.loads(Path(name).read_text())
        change(data)
        Path(name).write_text(json.dumps(data))

    return damage


def seal(change: Callable[[Any], object], name: str = "meta.json") -> Callable[[], object]:
    """Change a file of the executable, and make its checksums right again."""

    def damage() -> None:
        from runtime_ext.package import meta_checksum

        edit(f"out/{name}", change)()
        meta = json.loads(Path("out/meta.json").read_text())
        if name != "meta.json":
            meta["files"][name] = hashlib.sha256(Path(f"out/{name}").read_bytes()).hexdigest()
        meta["checksum"] = meta_checksum(meta)
        Path("out/meta.json").write_text(json.dumps(meta))

    return damage


def circle(data: Any) -> None:
    """Each lane first waits for the other."""
    for number, lane in enumerate(data["lanes"]):
        lane.insert(0, ["wait", 1 - number, 1])


def wait(lane: int, launches: int) -> Callable[[Any], object]:
    """Begin with a wait."""
    return lambda data: data["lanes"][0].insert(0, ["wait", lane, launches])


def launch(place: int, value: Any) -> Callable[[Any], object]:
    """Change the first launch."""
    return lambda data: data["lanes"][0][0].__setitem__(place, value)


def buffer(place: int, value: Any) -> Callable[[Any], object]:
    """Change the first buffer that holds something in between."""

    def change(data: Any) -> None:
        next(b for b in data["buffers"] if b[3] == "intermediate")[place] = value

    return change


def rename(data: Any) -> None:
    """Call a kernel by another name."""
    data["kernels"][0] = "kernel_of_none"


def without_waits(data: Any) -> None:
    """Let nobody wait for anybody."""
    data["lanes"] = [[item for item in lane if item[0] != "wait"] for lane in data["lanes"]]


def better_cpu() -> None:
    """An executable for all features that a CPU can have."""
    from runtime_ext.cpu_features import missing_features

    known = ("amx-bf16", "amx-int8", "avx512fp16", "avxvnni")
    missing = missing_features(known)
    seal(lambda d: d.update(features=missing[:1] or known, target="llvm -mcpu=sapphirerapids"))()


def pack(name: str = "", link: bool = False) -> None:
    """The executable as a tar, with one more member."""
    with tarfile.open("out.tar", "w") as tar:
        if name:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
        for file in sorted(Path("out").iterdir()):
            tar.add(file, arcname=file.name)


def array(dtype: str = "float32", **shapes: tuple[int, ...]) -> Callable[[], object]:
    """``x.npz`` with arrays of zeros."""
    import numpy as np

    return lambda: np.savez("x.npz", **{k: np.zeros(s, dtype) for k, s in shapes.items()})


def log(**changes: str) -> Callable[[], object]:
    """A measurement log of one measurement."""

    def write() -> None:
        import tvm

        from runtime_ext.machine import device_name, host_target
        from tvm_ios.cost.log import LogHeader, MeasurementLog

        header = LogHeader(device_name(2), str(host_target(2)), tvm.__version__)
        path = Path("log.jsonl").absolute()
        MeasurementLog(path, dataclasses.replace(header, **changes)).append("key", [1e-3])

    return write


def damage_log() -> None:
    """Another line, and half of one before it."""
    with Path("log.jsonl").open("a") as stream:
        stream.write('{"key": "a", "sam\n{"key": "b", "samples": [1.0]}\n')


def tuning_log() -> None:
    """A MetaSchedule database of one function, for a machine with 64 cores."""
    import tvm
    from tvm import s_tir, te
    from tvm.s_tir import meta_schedule

    Path("db").mkdir()
    x = te.placeholder((8,), name="x")
    function = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + 1, name="y")])
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    base = meta_schedule.database
    database = base.JSONDatabase("db/database_workload.json", "db/database_tuning_record.json")
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 64})
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    workload = database.commit_workload(module)
    trace = s_tir.Schedule(module).trace
    database.commit_tuning_record(base.TuningRecord(trace, workload, [1e-3], target, arguments))


def cache(name: str, prepare: Callable[[], object] = lambda: None) -> Callable[[], object]:
    """Use another cache folder."""

    def change() -> None:
        prepare()
        os.environ["TVM_IOS_CACHE"] = str(Path(name).absolute())

    return change


def no_compiler() -> None:
    """Let no program be found, and no kernel be there already."""
    cache("empty")()
    os.environ["PATH"] = "/nowhere"


ROWS = rows()


# How they run.


def table() -> str:
    """The page."""
    lines = [
        "# What is refused, and how",
        "",
        "Made by `python docs/make/refusals.py`, which runs every line. Each failure is one",
        "sentence on stderr, nothing on stdout (also with `--json`), and exit code 1; 2 is for a",
        "wrong command line, 130 and 143 for Ctrl-C and SIGTERM. `--debug` shows the traceback.",
        "Lines of Python raise a `tvm_ios.errors.UserError`. `…` stands for words of a library.",
        "",
        "An executable is code, like any program: its checksums find damage, not malice. Run only",
        "those whose origin you trust. No pickle is ever loaded.",
    ]
    with tempfile.TemporaryDirectory(prefix="refusals-") as name:
        sound = Path(name) / "sound"
        os.environ["TVM_IOS_CACHE"] = f"{name}/cache"
        make_sound_files(sound)
        for section, refusals in ROWS.items():
            lines += ["", f"## {section}", "", "| | command | sentence | exit |", "|-|-|-|-|"]
            for row in refusals:
                code, sentence = run(row, sound, Path(name) / "folder")
                shown = sentence.replace("|", "\\|")
                lines.append(f"| {row.what} | `{row.command}` | {shown} | {code} |")
    return "\n".join(lines) + "\n"


def make_sound_files(sound: Path) -> None:
    """What a row's folder holds at first."""
    from tests.fuzz.models import write_sound_files

    sound.mkdir()
    write_sound_files(sound)
    (sound / "model.onnx").rename(sound / "m.onnx")
    (sound / "executable").rename(sound / "out")


def run(row: Row, sound: Path, place: Path) -> tuple[str, str]:
    """Exit code and sentence of one row."""
    shutil.copytree(sound, place)
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(place)
    try:
        row.prepare()
        if not row.command.startswith("tvm-ios "):
            code, said = _run_python(row.command)
        elif row.number is not None:
            code, said = _run_and_send(row.command, row.number)
        else:
            with _full_disk() if row.full else contextlib.nullcontext():
                code, said = _run_command(row.command)
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


def _run_command(command: str) -> tuple[str, str]:
    from typer.testing import CliRunner

    from tvm_ios.cli import app

    words = shlex.split(command)[1:]
    if words[-2:-1] == [">"]:
        script = [sys.executable, "-m", "tvm_ios", *words[:-2]]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with Path(words[-1]).open("w") as out:
            done = subprocess.run(script, stdout=out, stderr=-1, text=True, env=environment)
        return str(done.returncode), done.stderr.strip().splitlines()[-1]
    result = CliRunner().invoke(app, [*words, "--json"], env={"COLUMNS": "300"})
    assert isinstance(result.exception, SystemExit), (command, result.exception)
    assert result.stdout == "", (command, result.stdout)
    assert "Traceback" not in result.stderr
    said = [line.strip("│ ") for line in result.stderr.strip().splitlines()]
    return str(result.exit_code), [line for line in said if not line.startswith("╰")][-1]


def _run_python(code: str) -> tuple[str, str]:
    from tests.fuzz.models import small_network
    from tvm_ios.errors import UserError
    from tvm_ios.models import load_graph
    from tvm_ios.onnx_graph import graph_from_onnx
    from tvm_ios.schedule import Schedule
    from tvm_ios.units import form_units

    known = {
        "Schedule": Schedule,
        "small": lambda **options: form_units(graph_from_onnx(small_network(**options))),
        "block": load_graph("inception_block"),
    }
    try:
        eval(code, known)
    except UserError as error:
        return "", str(error)
    raise AssertionError(f"{code} is not refused")


def _run_and_send(command: str, number: signal.Signals) -> tuple[str, str]:
    environment = os.environ | {"TVM_IOS_CACHE": "new-cache", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tvm_ios", *shlex.split(command)[1:]]
    process = subprocess.Popen(words, stdout=-1, stderr=-1, text=True, env=environment)
    while process.poll() is None and not list(Path().glob("new-cache/kernels/*.o")):
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate()
    assert out == ""
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
    from runtime_ext.machine import processor

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


def main() -> int:
    """Write the page, or say where it differs."""
    # What compilers and TVM print is of no interest here.
    with contextlib.redirect_stdout(io.StringIO()):
        made = table()
    if "--check" not in sys.argv:
        PAGE.write_text(made)
        return 0
    known = PAGE.read_text() if PAGE.exists() else ""
    for old, new in zip(known.splitlines(), made.splitlines(), strict=False):
        if old != new:
            print(f"{PAGE.name} says\n  {old}\nand now it is\n  {new}", file=sys.stderr)
    return int(known != made)


if __name__ == "__main__":
    sys.exit(main())
