"""Many runs, many waits, and others that want the CPUs: always what the reference says."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from benchmarks.busy_processes import busy_processes
from tvm_ios.program.program import Launch

from . import __main__ as command
from . import runner
from .programs import random_program
from .runner import Difference, load_kernels, run_network, run_programs


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return load_kernels(tmp_path_factory.mktemp("kernels"))


def test_a_few_hundred_runs(kernels: dict[str, Any]) -> None:
    assert run_programs(kernels, 400) > 10_000


@pytest.mark.slow
def test_ten_thousand_runs_beside_busy_processes(kernels: dict[str, Any]) -> None:
    with busy_processes(2):
        assert run_programs(kernels, 10_000, seed=1000) > 250_000


@pytest.mark.slow
def test_a_hundred_runs_of_squeezenet_beside_busy_processes() -> None:
    with busy_processes(2):
        run_network("squeezenet", 100)


def test_a_missing_wait_is_found(kernels: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(random: Random) -> Any:
        program = random_program(random)
        lanes = tuple(tuple(i for i in lane if isinstance(i, Launch)) for lane in program.lanes)
        return replace(program, lanes=lanes)

    monkeypatch.setattr(runner, "random_program", careless)
    with pytest.raises(Difference, match=r"run \d+ of program \d+ differs"):
        run_programs(kernels, 400)


def test_the_command(
    kernels: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load_kernels", lambda _: kernels)
    monkeypatch.setattr(
        sys, "argv", ["stress", "--runs", "40", "--network-runs", "0", "--busy", "1"]
    )
    assert command.main() == 0
    assert "beside 1 busy processes: equal to the reference" in capsys.readouterr().out
