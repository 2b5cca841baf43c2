"""Kernels that are launched early, under PTX's memory model: what they may do before they wait.

The second kernel begins with the first one, and its instruction waits until that has ended. It is
compiled with the statements that kernels of the product begin with.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime_ext.cuda.machine_code.nvrtc import compile_cubin
from runtime_ext.cuda.machine_code.nvrtc_library import nvrtc_libraries
from runtime_ext.cuda.machine_code.prelude import AWAIT_EARLIER, FETCH_WEIGHTS, PRELUDE
from tests.memory_model.executions import executions
from tests.memory_model.ptx import Ptx
from tests.memory_model.ptx_threads import Argument, Kernel

pytestmark = pytest.mark.skipif(not nvrtc_libraries(), reason="needs NVRTC")

THREADS, BLOCKS = 2, 2
FETCH = FETCH_WEIGHTS.format(first="weights", lines=2)
READ_WEIGHTS = 'asm volatile("" :: "r"(weights[n]));'
READ_DATA = f'asm volatile("" :: "r"(data[{BLOCKS * THREADS} - 1 - n]));'
ARGUMENTS = [Argument("weights"), Argument("data"), Argument("result")]


def kernel(*statements: str) -> Kernel:
    """Compile a kernel of some statements on weights, data and a result."""
    body = "\n  ".join((f"const int n = blockIdx.x * {THREADS} + threadIdx.x;", *statements))
    head = 'extern "C" __global__ void it(int* weights, int* data, int* result)'
    code = compile_cubin(f"{PRELUDE}{head} {{\n  {body}\n}}\n", "compute_90").code.decode()
    return Kernel.parse(code, "it")


def executed(
    first: Sequence[str], second: Sequence[str]
) -> list[tuple[str | None, set[tuple[int, ...]]]]:
    """Return of each execution its race, and what the second kernel reads after its wait."""
    threads = kernel(*first).threads(ARGUMENTS, BLOCKS, THREADS)
    begun = range(len(threads))
    threads += kernel(*second).early_threads(ARGUMENTS, BLOCKS, THREADS, BLOCKS, begun)
    made = [
        (
            execution.race,
            {tuple(value for _, value in seen) for seen in execution.seen[-BLOCKS * THREADS :]},
        )
        for execution in executions(Ptx, threads, {})
    ]
    assert made, "it never ends"
    return made


WRITE_DATA, WRITE_WEIGHTS, STORE = "data[n] = 7;", "weights[n] = 5;", "result[n] = 1;"


def test_weights_are_fetched_before_the_wait_and_read_after_it() -> None:
    second = (FETCH, AWAIT_EARLIER, READ_WEIGHTS, READ_DATA, STORE)
    assert all(made == (None, {(0, 7)}) for made in executed([WRITE_DATA], second))


def test_weights_may_even_be_written_meanwhile() -> None:
    second = (FETCH, AWAIT_EARLIER, READ_WEIGHTS, READ_DATA, STORE)
    first = (WRITE_WEIGHTS, WRITE_DATA)
    assert all(made == (None, {(5, 7)}) for made in executed(first, second))


def test_constants_may_be_read_before_the_wait() -> None:
    second = (READ_WEIGHTS, AWAIT_EARLIER, READ_DATA, STORE)
    assert all(made == (None, {(7,)}) for made in executed([WRITE_DATA], second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (WRITE_DATA, (FETCH, READ_DATA, AWAIT_EARLIER, STORE)),
        (WRITE_DATA, (FETCH, READ_DATA, STORE)),
        (WRITE_WEIGHTS, (READ_WEIGHTS, AWAIT_EARLIER, STORE)),
        (READ_DATA, ("data[n] = 1;", AWAIT_EARLIER)),
    ],
    ids=["data before the wait", "no wait", "weights that change", "a write before the wait"],
)
def test_what_is_touched_too_early_races(first: str, second: tuple[str, ...]) -> None:
    assert any(race for race, _ in executed([first], second))
