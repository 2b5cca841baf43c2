from __future__ import annotations

import numpy as np
import pytest

from runtime_ext.cpu.device import random_buffers
from runtime_ext.native_library import load_native_library
from tvm_ios.program.program import Buffer, BufferType, Part, Program, Role


def undisturbed(
    wanted: int, tries: int, samples: list[float], stopped: str, allowed: int = 0
) -> tuple[list[float], bool]:
    """What is taken of samples, each with how often the system stopped threads during it."""
    drawn = iter(samples)
    counts = iter([n for often in stopped for n in (0, int(often))])
    taken, disturbed = load_native_library()["undisturbed"](
        wanted, tries, allowed, lambda: next(drawn), lambda: next(counts)
    )
    return list(taken), disturbed


def test_samples_are_taken_again_while_threads_are_stopped() -> None:
    assert undisturbed(2, 5, [1.0, 2.0, 3.0, 4.0, 5.0], "1010") == ([2.0, 4.0], False)


def test_long_samples_may_be_stopped_as_often_as_an_idle_system_does() -> None:
    assert undisturbed(3, 5, [1.0, 2.0, 3.0, 4.0], "2310", allowed=2) == ([1.0, 3.0, 4.0], False)


def test_half_as_many_are_enough_where_no_more_are_to_be_had() -> None:
    assert undisturbed(2, 2, [1.0, 2.0, 3.0, 4.0], "1101") == ([3.0], False)


def test_on_a_busy_machine_the_least_count_and_are_disturbed() -> None:
    samples = [3.0, 9.0, 7.0, 2.0, 4.0, 6.0]
    assert undisturbed(3, 2, samples, "111011") == ([2.0, 3.0, 4.0], True)


def test_with_one_try_samples_are_taken_as_they_come() -> None:
    assert undisturbed(3, 1, [3.0, 9.0, 7.0], "111") == ([3.0, 9.0, 7.0], False)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_random_buffers_hold_ordinary_numbers(dtype: str) -> None:
    values = np.from_dlpack(random_buffers(program(BufferType((50, 41), dtype)))[0])
    assert values.dtype == dtype
    assert np.isfinite(values).all()
    assert (np.abs(values) <= 0.5).all()
    assert (values == 0).mean() < 0.01
    assert np.abs(values[values != 0]).min() >= np.finfo(dtype).tiny
    assert np.abs(values.astype("float64").mean()) < 0.05
    again = np.from_dlpack(random_buffers(program(BufferType((50, 41), dtype)))[0])
    assert (values == again).all()


def test_large_buffers_repeat_their_numbers() -> None:
    values = np.from_dlpack(random_buffers(program(BufferType((3, 15000))))[0]).reshape(-1)
    period = 1 << 14
    assert len(np.unique(values[:period])) > 0.99 * period
    assert (values[period:] == values[:-period]).all()


def test_buffers_differ_and_parts_are_their_wholes() -> None:
    one, other = BufferType((64,)), BufferType((64,), "int32")
    buffers = random_buffers(program(one, one, other, part=0))
    arrays = [np.from_dlpack(buffer) for buffer in buffers]
    assert (arrays[0] != arrays[1]).any()
    assert not arrays[2].any()
    assert buffers[3] is buffers[0]


def program(*types: BufferType, part: int | None = None) -> Program:
    buffers = [Buffer(f"b{i}", type, Role.INTERMEDIATE) for i, type in enumerate(types)]
    if part is not None:
        whole = buffers[part]
        buffers.append(Buffer("part", whole.type, whole.role, Part(part, 0, 0, 32)))
    return Program(lanes=((),), kernels=(), buffers=tuple(buffers), units=())
