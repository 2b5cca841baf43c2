"""Programs of ranges at random shapes; ``python -m tests.random_shapes`` takes more of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cpp_compiler import cannot_link
from tests.fast_run import only
from tests.random_shapes import CASES, SANITIZED, compared, compared_sanitized


@pytest.mark.parametrize("name", only(["bert"], ["bert", "tagger"]))
def test_a_program_of_a_range_is_right_at_random_shapes(name: str) -> None:
    assert compared(name, 24, guarded=True)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.draw is not None])
def test_all_drawn_networks_at_random_shapes(name: str) -> None:
    from tvm_ios.errors import UserError

    try:
        assert compared(name, 400)[1] == ""
    except UserError as refusal:
        pytest.skip(str(refusal))


@pytest.mark.slow
def test_networks_under_sanitizers(tmp_path: Path) -> None:
    if reason := cannot_link(tmp_path, *SANITIZED):
        pytest.skip(f"no sanitizers: {reason}")
    for name in ("bert", "tagger", "unet"):
        assert compared_sanitized(name, 100, 0, tmp_path)[1] == ""
