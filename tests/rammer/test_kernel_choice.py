"""Two kernels for one operator: the paper's example, and one in which its words mislead."""

from __future__ import annotations

import pytest

from benchmarks.papers.rammer.simulated import least_product
from tests.random_dags import graph_of
from tvm_ios.rammer.rprogram import RProgram, simulate
from tvm_ios.rammer.wavefront import schedule_wave
from tvm_ios.schedule.rkernel import RKernel, fastest, most_efficient

LANES = 80


def tasks(name: str, count: int, seconds: float) -> RKernel:
    """One of so many rTasks, that takes so long alone on all lanes."""
    waves = -(-count // LANES)
    return RKernel(name, (count,), (seconds / waves,), seconds)


#: The product of LSTM-TC at batch 4 on a V100 (section 5.2.4).
PRODUCT = (tasks("fastest", 1024, 4.28e-6), tasks("selected", 16, 7.46e-6))


def chosen(units: int, kernels: tuple[RKernel, ...]) -> tuple[set[str], float]:
    """What a wave of equal units takes, and its seconds."""
    graph, wave = graph_of([0] * units), range(units)
    program = schedule_wave(graph, wave, RProgram.empty(LANES), lambda _: kernels, simulate)
    (seconds,) = simulate([program])
    return {kernel.name for kernel in program.kernels.values()}, seconds


def test_a_slower_kernel_is_selected_where_others_run_beside_it() -> None:
    assert fastest(PRODUCT).name == "fastest"
    assert {most_efficient(PRODUCT).name, least_product(PRODUCT).name} == {"selected"}
    alone, alone_seconds = chosen(1, PRODUCT)
    assert (alone, alone_seconds) == ({"fastest"}, pytest.approx(4.28e-6))
    together, seconds = chosen(10, PRODUCT)
    # 160 rTasks are two to a lane, where ten of the fastest kernel would be 128.
    assert (together, seconds) == ({"selected"}, pytest.approx(2 * 7.46e-6))
    assert chosen(10, PRODUCT[:1])[1] == pytest.approx(128 * 4.28e-6 / 13)


def test_least_time_alone_times_rtasks_is_not_least_work() -> None:
    small, large = tasks("small", 160, 2.0), tasks("large", 80, 3.0)
    # Alone the small one is faster, and it is less work: 160 seconds to 240. By the paper's words
    # the large one is more efficient, because of waves the small one's rTasks count twice.
    assert (small.work, large.work) == (160, 240)
    assert least_product((small, large)) == large
    assert most_efficient((small, large)) == small
    assert chosen(8, (small, large)) == ({"small"}, 16)
    assert chosen(8, (large,)) == ({"large"}, 24)
