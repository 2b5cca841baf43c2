"""Channel shuffles and resizes against what TVM computes unscheduled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.kernel_harness import check
from tests.units.unit_shuffles import SHUFFLES, resized


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("layout", ["NHWC", ""])
def test_shuffle(name: str, layout: str, kernels_folder: Path) -> None:
    function, tensors, phases = SHUFFLES[name]
    unit = check(str(kernels_folder), function, (layout,) * tensors)
    assert layout == "" or len(unit.code.calls) <= phases


@pytest.mark.parametrize("target", ["sse", "avx2"])
def test_shuffle_for_narrower_vectors(target: str, kernels_folder: Path) -> None:
    check(str(kernels_folder), SHUFFLES["of 3"][0], ("NHWC", "NHWC"), target=target)


@pytest.mark.parametrize("layout", ["NHWC", ""])
@pytest.mark.parametrize(
    ("mode", "coordinates", "rounding"),
    [
        ("nearest_neighbor", "asymmetric", "floor"),
        ("nearest_neighbor", "half_pixel", "round_prefer_floor"),
        ("nearest_neighbor", "half_pixel", "round_prefer_ceil"),
        ("nearest_neighbor", "pytorch_half_pixel", "ceil"),
        ("linear", "half_pixel", ""),
        ("linear", "asymmetric", ""),
    ],
)
def test_resize(
    mode: str, coordinates: str, rounding: str, layout: str, kernels_folder: Path
) -> None:
    function = resized(
        (1, 20, 5, 7),
        (15, 14),
        fused=mode == "linear",
        method=mode,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
    )
    assert len(check(str(kernels_folder), function, (layout, layout)).code.calls) == 1


@pytest.mark.parametrize(
    ("size", "mode", "coordinates", "rounding"),
    [
        ((5, 4), "linear", "half_pixel", ""),
        ((6, 6), "linear", "align_corners", ""),
        ((2, 31), "linear", "asymmetric", ""),
        ((1, 3), "linear", "pytorch_half_pixel", ""),
        ((7, 2), "nearest_neighbor", "half_pixel", "round_prefer_floor"),
        ((15, 15), "nearest_neighbor", "asymmetric", "floor"),
        ((4, 4), "nearest_neighbor", "align_corners", "ceil"),
    ],
)
@pytest.mark.parametrize("layout", ["NHWC", ""])
def test_resize_by_no_whole_factor(
    size: tuple[int, int],
    mode: str,
    coordinates: str,
    rounding: str,
    layout: str,
    kernels_folder: Path,
) -> None:
    function = resized(
        (1, 20, 3, 3),
        size,
        method=mode,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
    )
    assert len(check(str(kernels_folder), function, (layout, layout)).code.calls) == 1
