"""``--objective throughput`` of the commands: what they say, and what does not go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_ext.execution.executable import Executable
from tests.cli.command_line import tvm_ios
from tests.cli.small_result import small_result
from tests.execution.small_executable import small_executable
from tvm_ios.api.served import Served, ServedWay
from tvm_ios.cli.tables.result import print_result
from tvm_ios.contest.pairs import PairedRatio


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    executable: Executable = small_executable(tmp_path)
    executable.save(tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize(("options", "workers"), [((), 2), (("--workers", 3), 3)])
def test_run_serves_requests(saved: Path, options: tuple[object, ...], workers: int) -> None:
    command = ("run", saved, "--objective", "throughput", "--repeat", 30, *options)
    served = tvm_ios(*command, "--json").json["throughput"]
    assert (served["workers"], served["in_flight"]) == (workers, 2 * workers)
    assert served["requests_a_second"] > 0
    assert 0 < served["p50_ms"] <= served["p99_ms"]
    assert f"requests a second with {workers} at once" in tvm_ios(*command).stdout


def test_workers_belong_to_throughput(saved: Path) -> None:
    found = tvm_ios("run", saved, "--workers", 2)
    assert found.code == 2
    assert "--workers" in found.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--cost", "v100"),
        ("--batch", "1,2"),
        ("--lanes", "1,2"),
        ("--arch", "x86-64-v2,x86-64-v3"),
        ("--fallback", "onnxruntime"),
        ("--target", "cuda"),
        ("--from-logs", "."),
    ],
)
def test_what_does_not_go_with_it(option: str, value: str, tmp_path: Path) -> None:
    output = ("-o", tmp_path / "out")
    command = ("optimize", "inception_block", "--objective", "throughput", option, value, *output)
    found = tvm_ios(*command)
    assert found.code == 2
    assert option in found.stderr
    assert not (tmp_path / "out").exists()


def test_what_was_measured_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    ways = (
        ServedWay("in-turn", "greedy", 2, 1, 50.0, 0.04, 0.05, 1.0),
        ServedWay("one-lane", "ios-merge", 1, 2, 80.0, 0.03, 0.06, 0.625),
    )
    served = Served(ways, "one-lane", PairedRatio(0.625, 0.6, 0.65, 60), 4)
    print_result(small_result(notes=("its end runs apart",), served=served))
    told = " ".join(capsys.readouterr().out.split())
    for part in ("1 x 2", "80.0", "60.00 ms", "kept one-lane", "0.625", "60 pairs", "apart"):
        assert part in told
