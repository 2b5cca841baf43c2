"""What ``optimize`` prints reads well for one thing and for none, and has one number for a gain."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.small_result import small_result
from tvm_ios.cli.frame.output import left_out_text
from tvm_ios.cli.tables.result import print_result


def printed(capsys: pytest.CaptureFixture[str], **how: Any) -> str:
    print_result(small_result(**how))
    return capsys.readouterr().out


def test_one_thing_and_nothing_are_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    for words in ("1 operator in 1 unit, 1 block\n", "1 stage measured now;", "1 program left out"):
        assert words in text
    assert "0 different" not in text
    assert "0.00" not in text
    assert left_out_text(["a", "b"]).startswith("2 programs left out")


def test_what_is_kept_has_the_ratio_that_decided(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert "gained 4.0 %" in text
    assert text.count("0.960") == 2
    assert "0.907" not in text.replace("0.907 ms", "")
