"""CUDA kernels of units, run thread by thread on the CPU, against what TVM computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_attention
import test_convolution
import test_other_kernels
import test_shuffle_and_resize
from cuda_harness import Bench, Unit
from kernel_harness import make_unit

OTHERS = {**test_other_kernels.CASES, **test_shuffle_and_resize.CASES}


def units() -> dict[str, Unit]:
    found = {
        f"conv {name}": Unit(function, ("NHWC",) * tensors)
        for name, (function, tensors) in test_convolution.CASES.items()
    }
    found |= {
        f"transposed {name}": Unit(function, ("NHWC",) * 4)
        for name, function in test_convolution.TRANSPOSED.items()
    }
    found |= {
        name: Unit(function, ("NHWC",) * tensors) for name, (function, tensors, _) in OTHERS.items()
    }
    return found


UNITS = units()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(UNITS, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", UNITS)
def test_unit(name: str, bench: Bench) -> None:
    bench.check(name)
