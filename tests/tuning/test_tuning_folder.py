"""A tuning log survives kills and second writers, and is refused where it does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm.s_tir import meta_schedule
from tvm.script import tirx as T

from runtime_ext.tuning_log.folder import (
    RECORDS,
    WORKLOADS,
    OpenLog,
    compact,
    open_log,
    read_database,
    recorded,
)
from tests.kernels.kernel_harness import AVX2, AVX512
from tests.refusals import refused
from tvm_ios.errors import UserError

TARGET = tvm.target.Target(AVX2)
ABOUT = "tvm-ios-log.json"


def workload(extent: int) -> tvm.IRModule:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((extent,), "float32"), b: T.Buffer((extent,), "float32")):
        for i in range(extent):
            with T.sblock("copy"):
                j = T.axis.spatial(extent, i)
                b[j] = a[j]

    return tvm.IRModule({"main": main})


def commit(log: OpenLog, extent: int, *seconds: float, first: int = 0) -> None:
    """A trial each, of different schedules: ``first`` and those after it."""
    module = workload(extent)
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    kept = log.database.commit_workload(module)
    for number, each in enumerate(seconds, first):
        schedule = tvm.s_tir.Schedule(module)
        schedule.annotate(schedule.get_sblock("copy"), "number", number)
        trace = schedule.trace
        record = meta_schedule.database.TuningRecord(trace, kept, [each], TARGET, arguments)
        log.database.commit_tuning_record(record)


def seconds_of(folder: Path) -> list[float]:
    return [record.seconds for record in recorded(folder)]


def test_what_is_committed_is_in_the_files_and_goes_on(tmp_path: Path) -> None:
    with open_log(tmp_path / "a" / "log", TARGET) as log:
        commit(log, 8, 3.0, 1.0)
        assert seconds_of(log.folder) == [3.0, 1.0]
    with open_log(log.folder, TARGET) as log:
        assert len(log.database) == 2
        commit(log, 9, 2.0)
    assert seconds_of(log.folder) == [3.0, 1.0, 2.0]
    assert len({record.workload for record in recorded(log.folder)}) == 2
    assert len(read_database(log.folder)) == 3
    assert len((log.folder / ABOUT).read_text().splitlines()) == 1


@pytest.mark.parametrize("name", [RECORDS, WORKLOADS, ABOUT])
def test_an_unfinished_line_is_passed_over_and_then_removed(tmp_path: Path, name: str) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 3.0, 1.0)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole + b'[0, [[["Samp')
    assert len(read_database(tmp_path)) == 2
    assert (tmp_path / name).read_bytes() != whole
    with open_log(tmp_path, TARGET) as log:
        assert log.mended == 1
        assert (tmp_path / name).read_bytes() == whole
        commit(log, 8, 2.0)
    assert seconds_of(tmp_path) == [3.0, 1.0, 2.0]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        open_log(tmp_path, TARGET),
        refused(UserError, tmp_path, "another process"),
        open_log(tmp_path, TARGET),
    ):
        pass
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 1.0)


def test_compact_keeps_the_first_and_the_fastest(tmp_path: Path) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 3.0, 1.0, 2.0, 1.5)
        commit(log, 9, 1.0, 2.0)
        assert compact(log) > 0
        assert compact(log) == 0
    assert seconds_of(tmp_path) == [3.0, 1.0, 1.0]
    with open_log(tmp_path, TARGET) as log:
        assert sorted(log.forgotten.values()) == [1, 2]
        commit(log, 8, 0.5, first=4)
        compact(log)
    with open_log(tmp_path, TARGET) as log:
        assert sorted(log.forgotten.values()) == [1, 3]
    assert seconds_of(tmp_path) == [3.0, 1.0, 0.5]


def test_compact_keeps_the_best_time_of_the_first(tmp_path: Path) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 3.0, 1.0, 0.8)
        commit(log, 8, 2.0)
        commit(log, 8, 2.5)
        compact(log)
    assert seconds_of(tmp_path) == [3.0, 0.8, 2.0]
    with open_log(tmp_path, TARGET) as log:
        assert list(log.forgotten.values()) == [1]


def rewrite(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"format": "tvm-ios tuning log", "version": 1, "tvm": "0.1"}, "TVM 0.1"),
        ({"format": "tvm-ios tuning log", "version": 2}, "tuning log 2"),
        ({"format": "recipe", "version": 1}, "recipe"),
        ({}, ABOUT),
    ],
)
def test_logs_of_others_are_refused(tmp_path: Path, about: dict[str, Any], named: object) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 1.0)
    (tmp_path / ABOUT).write_text(rewrite(about))
    for use in (lambda: read_database(tmp_path), lambda: open_log(tmp_path, TARGET).__enter__()):
        with refused(UserError, tmp_path, named):
            use()


@pytest.mark.parametrize("seconds", [(), (1.0,)])
def test_a_log_for_another_target_is_not_continued(
    tmp_path: Path, seconds: tuple[float, ...]
) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, *seconds)
    with refused(UserError, "x86-64-v3", "x86-64-v4"):
        open_log(tmp_path, tvm.target.Target(AVX512)).__enter__()
    with open_log(tmp_path, TARGET):
        pass


def test_damage_in_the_middle_is_stated(tmp_path: Path) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 1.0)
    (tmp_path / RECORDS).write_text("nonsense\n" + (tmp_path / RECORDS).read_text())
    with refused(UserError, tmp_path):
        read_database(tmp_path)


def test_a_folder_that_metaschedule_wrote_can_be_continued(tmp_path: Path) -> None:
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 1.0)
    (tmp_path / ABOUT).unlink()
    assert len(read_database(tmp_path)) == 1
    with open_log(tmp_path, TARGET) as log:
        commit(log, 8, 2.0)
    assert (tmp_path / ABOUT).is_file()
    assert seconds_of(tmp_path) == [1.0, 2.0]
