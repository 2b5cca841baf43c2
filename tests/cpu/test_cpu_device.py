from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from runtime_ext.cpu import device as cpu_device
from runtime_ext.cpu.device import undisturbed


def stop_threads(monkeypatch: pytest.MonkeyPatch, stops: list[int]) -> None:
    """The system has stopped so many threads at each look."""
    monkeypatch.setattr(cpu_device, "_TRIES", 5)
    counts = iter(stops)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_nivcsw=next(counts)))


def test_samples_are_taken_again_while_threads_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_threads(monkeypatch, [0, 1, 1, 4, 4, 4])
    samples = iter([[1.0], [2.0], [3.0], [4.0]])
    assert undisturbed(lambda: next(samples)) == [3.0]


def test_on_a_busy_machine_the_best_try_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_threads(monkeypatch, list(range(100)))
    samples = iter([[3.0, 9.0, 9.0], [7.0, 2.0, 2.0], [4.0], [5.0], [6.0], [1.0]])
    assert undisturbed(lambda: next(samples)) == [7.0, 2.0, 2.0]
