"""More lanes than CPUs: some take turns, and very many are refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime_ext.machine import this_machine as machine
from tests.cli.command_line import tvm_ios
from tvm_ios.cli.options.search_options import (
    CompileOptions,
    MeasuringOptions,
    TargetKind,
    search_options,
)


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_lanes", lambda: 2)
    # The options set it for TVM's threads.
    monkeypatch.setenv("TVM_NUM_THREADS", "2")


def lanes_of(lanes: int | None, **options: Any) -> int:
    return search_options(lanes, MeasuringOptions(), **options).lanes


def test_some_more_take_turns(capsys: pytest.CaptureFixture[str]) -> None:
    assert lanes_of(3) == 3
    said = "tvm-ios: 3 lanes take turns on the CPUs of this process (2), which is slower than"
    assert capsys.readouterr().err == f"{said} --lanes 2\n"


@pytest.mark.parametrize(
    ("lanes", "options"),
    [
        (None, {}),
        (2, {}),
        (64, {"runs_here": False}),
        (64, {"compiled": CompileOptions(target=TargetKind.cuda), "arch": "sm_90"}),
    ],
)
def test_nothing_is_said_of_others(
    capsys: pytest.CaptureFixture[str], lanes: int | None, options: dict[str, Any]
) -> None:
    assert lanes_of(lanes, **options) == (lanes or 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["optimize", "bench"])
def test_very_many_are_refused(command: str) -> None:
    tvm_ios(command, "inception_block", "--lanes", 33).refuses("33 lanes", "--lanes 2", 32)
