"""Pools, exits, splits, views and TVM's own kernels against what TVM computes unscheduled."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fast_run import crossed, examples
from tests.kernels.kernel_harness import check
from tests.units.unit_images import CASES, OTHERS, pool


@pytest.mark.parametrize(("name", "layout"), crossed(CASES, ["NHWC", ""]))
def test_images(name: str, layout: str, kernels_folder: Path) -> None:
    function, tensors, phases = CASES[name]
    unit = check(str(kernels_folder), function, (layout,) * tensors)
    if layout == "NHWC":
        assert len(unit.code.calls) <= phases


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("layout", ["NHWC", ""])
def test_others(name: str, layout: str, kernels_folder: Path) -> None:
    function, image, output = OTHERS[name]
    first = layout if image else ""
    inputs = int(function.attrs["num_input"])
    check(str(kernels_folder), function, (first,) + ("",) * (inputs - 1) + (output,))


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["max", "avg"]),
    channels=st.integers(1, 40),
    height=st.integers(3, 9),
    width=st.integers(3, 30),
    size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padded=st.booleans(),
    counts=st.booleans(),
    layout=st.sampled_from(["NHWC", ""]),
)
def test_random_pool(
    kind: str,
    channels: int,
    height: int,
    width: int,
    size: tuple[int, int],
    strides: tuple[int, int],
    padded: bool,
    counts: bool,
    layout: str,
    kernels_folder: Path,
) -> None:
    padding = tuple(s // 2 for s in size) * 2 if padded else (0, 0, 0, 0)
    options = {"count_include_pad": counts} if kind == "avg" else {}
    shape = (1, channels, height, width)
    function = pool(kind, shape, size, strides=strides, padding=padding, **options)
    check(str(kernels_folder), function, (layout, layout))
