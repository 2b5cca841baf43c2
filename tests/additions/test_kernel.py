"""A kernel is a spec, a rule and a writer for each kind of device, each with a line in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from runtime_ext.cpu import kernel_build as cpu_build
from runtime_ext.cuda.kernels import build as cuda_build
from runtime_ext.kernels.generic import Generic
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.rules.registry import RULES
from runtime_ext.units.unit import UnitSource
from tests.additions.running_sum import RunningSum, running_sum, write_threads, write_tiles
from tests.cuda.cuda_harness import Bench, Unit
from tests.kernels.kernel_harness import check, compiler, make_unit

Patch = pytest.MonkeyPatch


def sums_of(shape: tuple[int, ...]) -> Any:
    """Running sums between two operators that a kernel of ours takes along."""

    def body(emit: Any, x: Any) -> Any:
        return emit(relax.op.nn.relu(emit(relax.op.cumsum(emit(relax.op.negative(x)), -1))))

    return make_unit([shape], [], body)


def specs_of(function: Any, folder: Path) -> list[type]:
    """The classes of the kernels that a unit is cut into."""
    cutter: Any = compiler(str(folder)).space
    plan = plan_unit(UnitSource(function, ("", "")), cutter)
    return [type(kernel.spec) for kernel in plan.kernels]


@pytest.fixture
def added(monkeypatch: Patch) -> None:
    monkeypatch.setitem(RULES, "relax.cumsum", running_sum)
    monkeypatch.setitem(cpu_build._WRITERS, RunningSum, write_tiles)
    monkeypatch.setitem(cuda_build._WRITERS, RunningSum, write_threads)


def test_without_a_rule_it_is_tvms_own_code(kernels_folder: Path) -> None:
    specs = specs_of(sums_of((3, 7, 33)), kernels_folder)
    assert Generic in specs
    assert RunningSum not in specs


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("shape", [(3, 7, 33), (5,), (2, 3, 9, 1)])
def test_any_partition_of_the_tiles_gives_the_same_bits(
    shape: tuple[int, ...], kernels_folder: Path
) -> None:
    function = sums_of(shape)
    assert RunningSum in specs_of(function, kernels_folder)
    check(str(kernels_folder), function, ("", ""))


@pytest.mark.usefixtures("added")
def test_on_a_gpu(tmp_path: Path) -> None:
    units = {str(shape): Unit(sums_of(shape), ("", "")) for shape in ((3, 7, 33), (2, 3, 50, 4))}
    bench = Bench(units, tmp_path, only="default")
    for name in units:
        bench.check(name)
