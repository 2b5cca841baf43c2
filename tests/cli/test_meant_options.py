"""Who types an option of another tool is told which one here means the same."""

from __future__ import annotations

import pytest

from tests.cli.command_line import tvm_ios
from tvm_ios.cli.frame.commands import SUMMARIES, load_command
from tvm_ios.cli.frame.meant_options import _SYNONYMS


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--threads", "--lanes"),
        ("--timeout", "--time-limit"),
        ("--out", "--output"),
        ("--input-shape", "--shape"),
        ("--fp16", "--precision"),
        ("--quantize", "docs/quantised.md"),
        ("--polciy", "--policy"),
    ],
)
def test_an_unknown_option(typed: str, meant: str) -> None:
    told = tvm_ios("optimize", "squeezenet", typed, "3")
    assert told.code == 2
    assert typed in told.stderr
    assert meant in told.stderr


def test_what_is_suggested_exists_and_no_command_has_what_is_not_there() -> None:
    options = [
        option
        for name in SUMMARIES
        for parameter in load_command(name).params
        for option in parameter.opts
    ]
    assert set(_SYNONYMS) <= set(options)


def test_seconds_is_the_time_limit() -> None:
    told = tvm_ios("optimize", "squeezenet", "--seconds", "soon")
    assert "--time-limit" in told.stderr


@pytest.mark.parametrize(("device", "meant"), [("gpu", "--target"), ("cpu", "without --device")])
def test_a_device_that_is_none_of_a_package(device: str, meant: str) -> None:
    told = tvm_ios("optimize", "squeezenet", "--device", device)
    assert meant in told.sentence
