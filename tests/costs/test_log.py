from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.costs.log import DISTURBED_MEASUREMENTS, MeasurementLog, ReadOnlyLog, quietest
from tvm_ios.costs.log_lines import DisturbedSamples, LogError, LogHeader, read_header

HEADER = LogHeader(device="a processor, 2 lanes", target="llvm", tvm="0.27")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "log.jsonl"


def test_a_log_keeps_samples_and_their_order(path: Path) -> None:
    log = MeasurementLog(path, HEADER)
    assert not path.exists()
    log.append("a", [2.0, 1.0], label="conv")
    log.append("b", [3.0])
    log.append("a", [5.0])
    assert log.measurements == {"a": [(2.0, 1.0), (5.0,)], "b": [(3.0,)]}
    assert MeasurementLog(path, HEADER).measurements == log.measurements
    assert read_header(path) == HEADER
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["format"] == "tvm-ios log"
    assert lines[1] == {"key": "a", "samples": [2.0, 1.0], "label": "conv"}


def test_several_runs_measure_before_a_log_is_believed(path: Path) -> None:
    """What a busy machine gave counts no longer once a quieter one was measured."""
    for seconds in ([9.0, 8.0, 9.5], [3.0, 2.0, 9.0], [4.0]):
        log = MeasurementLog(path, HEADER)
        assert log.wants("a")
        log.append("a", seconds)
        assert not log.wants("a"), "one measurement a run"
        log.end_run()
    assert not MeasurementLog(path, HEADER).wants("a")
    assert quietest(log.measurements["a"]) == 3.0
    assert not ReadOnlyLog(path, HEADER).wants("a")
    assert ReadOnlyLog(path, HEADER).wants("b")


def test_what_was_disturbed_counts_only_while_there_is_nothing_else(path: Path) -> None:
    """Other work on the machine is as if kernels gained nothing by more lanes."""
    for measured in range(DISTURBED_MEASUREMENTS):
        log = MeasurementLog(path, HEADER)
        assert log.wants("a")
        log.append("a", DisturbedSamples([2.0]))
        assert len(log.measurements["a"]) == measured + 1
        log.end_run()
    assert not MeasurementLog(path, HEADER).wants("a")
    assert json.loads(path.read_text().splitlines()[1])["disturbed"]
    log.append("a", [3.0])
    log.append("a", DisturbedSamples([1.0]))
    log.append("a", [4.0])
    assert log.measurements == MeasurementLog(path, HEADER).measurements == {"a": [(3.0,), (4.0,)]}
    log.end_run()
    assert MeasurementLog(path, HEADER).wants("a")


def test_a_run_goes_on_where_another_was_cut_short(path: Path) -> None:
    ended = MeasurementLog(path, HEADER)
    ended.append("a", [1.0])
    ended.append("b", [1.0])
    ended.end_run()
    killed = MeasurementLog(path, HEADER)
    assert killed.wants("a")
    killed.append("a", [2.0])
    current = MeasurementLog(path, HEADER)
    assert [current.wants(key) for key in "abc"] == [False, True, True]
    beside = MeasurementLog(path, HEADER)
    current.append("b", [2.0])
    current.end_run()
    beside.append("c", [2.0])
    assert not beside.wants("a"), "its own run goes on"
    assert not beside.wants("b"), "what another one found meanwhile will do"
    assert [MeasurementLog(path, HEADER).wants(key) for key in "abc"] == [True, True, False]


def test_what_was_ever_measured_may_do(path: Path) -> None:
    ended = MeasurementLog(path, HEADER)
    ended.append("a", [1.0])
    ended.end_run()
    later = MeasurementLog(path, HEADER)
    later.reuse()
    assert [later.wants(key) for key in "ab"] == [False, True]


def test_a_run_that_needed_nothing_leaves_no_line(path: Path) -> None:
    MeasurementLog(path, HEADER).end_run()
    assert not path.exists()
    log = MeasurementLog(path, HEADER)
    log.append("a", [1.0])
    log.end_run()
    before = path.read_bytes()
    assert before.endswith(b'\n{"run": "ended"}\n')
    MeasurementLog(path, HEADER).end_run()
    assert path.read_bytes() == before


def test_floats_come_back_bit_for_bit(path: Path) -> None:
    samples = [0.1 + 0.2, 1e-9, 1 / 3]
    MeasurementLog(path, HEADER).append("a", samples)
    assert MeasurementLog(path, HEADER).measurements["a"] == [tuple(samples)]


@given(st.data())
@examples(60)
def test_a_truncated_last_line_is_ignored_and_repaired(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    log = MeasurementLog(path, HEADER)
    for number in range(3):
        log.append(f"key {number}", [1.0 + number])
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    os.truncate(path, size)
    left = whole[:size].count(b"\n")
    reader = MeasurementLog(path, HEADER)
    assert list(reader.measurements) == [f"key {number}" for number in range(left - 1)]
    reader.append("after", [9.0])
    assert list(reader.measurements) == [*(f"key {n}" for n in range(left - 1)), "after"]
    assert MeasurementLog(path, HEADER).measurements == reader.measurements
    for line in path.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize("field", ["device", "target", "tvm"])
def test_a_log_for_another_is_refused_by_name(path: Path, field: str) -> None:
    MeasurementLog(path, HEADER).append("a", [1.0])
    other = dataclasses.replace(HEADER, **{field: "something else"})
    with pytest.raises(LogError) as error:
        MeasurementLog(path, other)
    message = str(error.value)
    assert getattr(HEADER, field) in message
    assert "something else" in message
    assert str(path) in message


def test_a_log_that_becomes_another_s_before_the_first_append_is_refused(path: Path) -> None:
    late = MeasurementLog(path, dataclasses.replace(HEADER, device="another"))
    MeasurementLog(path, HEADER).append("a", [1.0])
    before = path.read_bytes()
    with refused(LogError, path, "'another'"):
        late.append("b", [1.0])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("hello\n", "line 1"),
        ("[1]\n", "line 1"),
        ('{"format": "other"}\n', "measurement log"),
        ('{"format": "tvm-ios log", "version": 9}\n', "version 9"),
    ],
)
def test_other_files_are_refused(path: Path, text: str, named: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with refused(LogError, path, named):
        MeasurementLog(path, HEADER)
    assert path.read_text() == text
    with refused(LogError, path, named):
        read_header(path)


@pytest.mark.parametrize(
    "line",
    ["{", '{"key": "a"}', '{"key": "a", "samples": []}', '{"key": "a", "samples": [-1.0]}', "7"],
)
def test_a_damaged_line_inside_is_an_error(path: Path, line: str) -> None:
    log = MeasurementLog(path, HEADER)
    log.append("a", [1.0])
    with path.open("a") as stream:
        stream.write(line + "\n")
    with refused(LogError, "line 3", path):
        MeasurementLog(path, HEADER)


@pytest.mark.parametrize("samples", [[], [0.0], [-1.0], [float("inf")], [float("nan")]])
def test_samples_must_be_positive_seconds(path: Path, samples: list[float]) -> None:
    with refused(LogError, "'a'", "seconds"):
        MeasurementLog(path, HEADER).append("a", samples)
    assert not path.exists()


def test_a_log_cut_short_while_in_use_is_an_error(path: Path) -> None:
    log = MeasurementLog(path, HEADER)
    log.append("a", [1.0])
    os.truncate(path, 10)
    with refused(LogError, path, "cut short"):
        log.refresh()


def test_two_logs_see_each_other_s_measurements(path: Path) -> None:
    one, other = MeasurementLog(path, HEADER), MeasurementLog(path, HEADER)
    one.append("a", [1.0])
    other.append("b", [2.0])
    assert other.measurements == {"a": [(1.0,)], "b": [(2.0,)]}
    one.refresh()
    assert one.measurements == other.measurements


def test_a_writer_waits_for_another(path: Path) -> None:
    log = MeasurementLog(path, HEADER)
    log.append("a", [1.0])
    before = path.read_bytes()
    writer = threading.Thread(target=log.append, args=("b", [2.0]))
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.start()
        writer.join(timeout=0.3)
        assert writer.is_alive()
        assert path.read_bytes() == before
    writer.join(timeout=60)
    assert log.measurements == {"a": [(1.0,)], "b": [(2.0,)]}


_WRITER = """
import sys
import threading
from pathlib import Path
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
log = MeasurementLog(Path(sys.argv[1]), LogHeader("a processor, 2 lanes", "llvm", "0.27"))
sys.stdin.readline()
for number in range(40):
    log.append(f"{sys.argv[2]} {number}", [1.0 + number] * 50)
"""


def test_concurrent_writers_lose_nothing(path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(writer)],
            stdin=subprocess.PIPE,
            env=environment,
        )
        for writer in range(3)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    expected = {f"{w} {n}": [(1.0 + n,) * 50] for w in range(3) for n in range(40)}
    assert MeasurementLog(path, HEADER).measurements == expected
    assert path.read_text().count("tvm-ios log") == 1
