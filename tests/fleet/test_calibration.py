"""Machines that are lost while they are calibrated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

from runtime_ext.fleet import opening
from runtime_ext.fleet.calibration import median_of
from runtime_ext.fleet.connection import LostError


def test_where_all_are_lost_none_is_compared_with_the_others() -> None:
    def lost(*_: object) -> NoReturn:
        raise LostError("it does not answer")

    machine: Any = SimpleNamespace(address="a:1", time=lost)
    trial: Any = None
    seconds, gone = opening._calibrated([machine], trial, lambda s: median_of(s.values()))
    assert seconds == {}
    assert [(g.machine, g.why) for g in gone] == [("a:1", "it does not answer")]
