"""Damaged files give a result or a sentence; never a crash, a hang, a traceback, half a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import networks
from .models import write_sound_files
from .runner import Report, run_case, run_cases
from .targets import TARGETS


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_sound_files(folder)
    return folder


def cases(count: int) -> list[tuple[str, int]]:
    targets = list(TARGETS)
    return [(targets[i % len(targets)], i) for i in range(count)]


def check(report: Report, each: int) -> None:
    assert not report.failures, "\n".join(report.failures)
    for target in TARGETS:
        outcomes = {outcome for kind, outcome in report.counts if kind == target}
        # Or the damage would be too small to be seen, or so large that nothing is reached.
        assert outcomes == {"success", "refused"}, target
        assert report.counts[target, "refused"] > each // 10


@pytest.mark.slow
def test_a_few(sound: Path) -> None:
    count = 160
    check(run_cases(cases(count), sound), count // len(TARGETS))


@pytest.mark.slow
def test_two_thousand_models_schedules_and_executables(sound: Path) -> None:
    chosen = ("onnx", "schedule", "executable", "module", "deployment")
    many = [(chosen[i % 5], 1_000_000 + i) for i in range(10000)]
    report = run_cases(many, sound)
    assert not report.failures, "\n".join(report.failures)
    assert sum(report.counts.values()) == len(many)


def check_networks(count: int, first: int, sound: Path) -> None:
    pytest.importorskip("onnxruntime")
    report = run_cases([("network", first + i) for i in range(count)], sound)
    assert not report.failures, "\n".join(report.failures)
    assert report.counts["network", "success"] > count // 2


def test_random_networks_compute_what_onnxruntime_does(sound: Path) -> None:
    check_networks(3, 0, sound)


@pytest.mark.slow
def test_many_random_networks_compute_what_onnxruntime_does(sound: Path) -> None:
    check_networks(400, 1_000_000, sound)


def test_wrong_results_are_seen(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_TOLERANCE", -1.0)
    outcome, text = run_case("network", 0, sound)
    assert outcome == "exception"
    assert "of the largest element" in text


def _crash(*_: object) -> None:
    import ctypes

    ctypes.string_at(1)


def _hang(*_: object) -> None:
    import time

    time.sleep(60)


@pytest.mark.slow
def test_crashes_and_hangs_are_seen(sound: Path) -> None:
    """Or the tests above could not fail: the worker's targets are those of this module."""
    report = run_cases(
        [("log", 1), ("crash", 0), ("log", 2), ("hang", 0)],
        sound,
        limit=2.0,
        more={"crash": _crash, "hang": _hang},
    )
    assert [failure.partition(":")[0] for failure in report.failures] == ["crash", "hang"]
    assert sum(n for (target, _), n in report.counts.items() if target == "log") == 2


def test_other_exceptions_and_partial_files_are_seen(sound: Path) -> None:
    def fail(sound: Path, room: Path, random: object) -> None:
        raise KeyError("x")

    def leave(sound: Path, room: Path, random: object) -> None:
        (room / "result").touch()
        raise OSError("no space")

    assert run_case("fail", 0, sound, {"fail": fail})[0] == "exception"
    assert run_case("leave", 0, sound, {"leave": leave})[0] == "partial file"
