"""Programs of ranges at random shapes; ``python -m tests.random_shapes`` takes more of both."""

from __future__ import annotations

import pytest

from tests.random_shapes import CASES, compared


@pytest.mark.parametrize("name", ["bert", "tagger"])
def test_a_program_of_a_range_is_right_at_random_shapes(name: str) -> None:
    assert compared(name, 24)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.draw is not None])
def test_all_drawn_networks_at_random_shapes(name: str) -> None:
    from tvm_ios.errors import UserError

    try:
        assert compared(name, 400)[1] == ""
    except UserError as refusal:
        pytest.skip(str(refusal))
