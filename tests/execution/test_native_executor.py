"""What only an executor with threads can get wrong: forks, affinity, closing, leaks."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import BusyError, ForkError, KernelError
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role, Wait

VECTOR = BufferType((16,), "int64")
TWO_LANES = Program(
    lanes=((Launch(0, (0, 1), 0, 1, 0),), (Wait(0, 1), Launch(0, (1, 0), 0, 1, 1))),
    kernels=("step",),
    buffers=(Buffer("x", VECTOR, Role.INTERMEDIATE), Buffer("y", VECTOR, Role.OUTPUT)),
    units=("there", "back"),
)


def step(source: Any, target: Any, begin: int, end: int) -> None:
    np.copyto(np.from_dlpack(target), np.from_dlpack(source) + 1)


def make(
    function: Callable[..., None] = step, program: Program = TWO_LANES, **options: Any
) -> tuple[NativeExecutor, Array]:
    """An executor, and its buffer x, which each run raises by two."""
    arrays = [np.zeros(VECTOR.shape, VECTOR.dtype) for _ in program.buffers]
    tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
    functions = dict.fromkeys(program.kernels, function)
    return NativeExecutor(program, functions, tensors, **options), arrays[0]


def in_a_fork(work: Callable[[], str]) -> str:
    """What a function says in a forked child; the child may not hang."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of pytest may run here.
        try:
            os.write(write, work().encode())
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    ended = threading.Timer(30, os.kill, (child, 9))
    ended.start()
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    ended.cancel()
    return said


@pytest.mark.parametrize("call", ["run", "profile", "benchmark"])
def test_a_forked_child_is_told_instead_of_waiting_for_ever(call: str) -> None:
    executor, x = make()
    executor.run()
    arguments = (1, 1) if call == "benchmark" else ()
    said = in_a_fork(lambda: str(getattr(executor, call)(*arguments)))
    assert said.startswith("ForkError: this session was made before the process was forked")
    # The parent's is none the worse for it.
    executor.run()
    assert x[0] == 4
    executor.close()


def test_a_forked_child_can_close_drop_and_make_anew() -> None:
    # What other tests left, such as threads of other runtimes, is not for the child to end.
    gc.collect()
    executors = [make()[0], make(spin_seconds=0.0)[0]]
    for executor in executors:
        executor.run()

    def work() -> str:
        executors[0].close()
        executors.clear()
        gc.collect()
        executor, x = make()
        executor.run()
        executor.close()
        return str(x[0])

    assert in_a_fork(work) == "2"
    for executor in executors:
        executor.run()
        executor.close()


def test_a_fork_in_the_middle_of_a_run_is_told_too() -> None:
    said: list[str] = []

    def forking(*arguments: Any) -> None:
        if not said:
            said.append(in_a_fork(lambda: str(executor.run())))

    executor, _ = make(forking)
    executor.run()
    executor.close()
    assert said[0].startswith("ForkError: ")
    assert issubclass(ForkError, UserError)


def test_without_threads_a_forked_child_can_go_on() -> None:
    one_lane = ((*TWO_LANES.lanes[0], TWO_LANES.lanes[1][1]),)
    executor, x = make(program=replace(TWO_LANES, lanes=one_lane))
    executor.run()
    assert in_a_fork(lambda: f"{executor.run()} {executor.close()} {x[0]}") == "None None 4"
    executor.run()
    assert x[0] == 4
    executor.close()


def test_lanes_are_pinned_and_the_caller_gets_its_cpus_back() -> None:
    allowed = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def look(source: Any, target: Any, begin: int, end: int) -> None:
        seen.append(os.sched_getaffinity(0))
        if fail:
            raise ValueError("no")

    for fail in (False, True):
        # Or lane 0 might stand in for the other one.
        executor, _ = make(look, pin=True, patience_seconds=-1.0)
        seen.clear()
        if fail:
            with pytest.raises(KernelError):
                executor.run()
            with pytest.raises(KernelError):
                executor.benchmark(2, 2)
        else:
            executor.run()
            cpus = sorted(allowed)
            assert seen == [{cpus[0]}, {cpus[1 % len(cpus)]}]
        assert os.sched_getaffinity(0) == allowed
        executor.close()


def test_lanes_keep_to_the_affinity_mask() -> None:
    allowed = os.sched_getaffinity(0)
    one = {max(allowed)}
    seen: list[set[int]] = []

    def look(*arguments: Any) -> None:
        seen.append(os.sched_getaffinity(0))

    os.sched_setaffinity(0, one)
    try:
        for pin in (True, False):
            executor, _ = make(look, pin=pin)
            executor.run()
            executor.close()
        assert seen == [one] * 4
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, allowed)


TILES = 16
#: Lane 0 has nothing to do but to wait for lane 1.
ONE_WORKS = Program(
    lanes=((Wait(1, 1), Launch(0, (1, 0), 0, 1, 1)), (Launch(0, (0, 1), 0, TILES, 0),)),
    kernels=("step",),
    buffers=TWO_LANES.buffers,
    units=("long", "short"),
)


def slow_tiles(tiles: list[tuple[int, int]], seconds: float = 1e-3) -> Callable[..., None]:
    """A kernel that notes each tile with the thread that computes it."""

    def kernel(source: Any, target: Any, begin: int, end: int) -> None:
        for tile in range(begin, end):
            time.sleep(seconds)
            tiles.append((tile, threading.get_ident()))

    return kernel


@pytest.mark.parametrize("lane", [0, 1])
def test_subnormal_numbers_count_as_zeros_in_a_run_and_in_no_other_arithmetic(lane: int) -> None:
    least = np.finfo(np.float32).tiny

    def halve(source: Any, target: Any, _begin: int, _end: int) -> None:
        # The least normal number becomes a subnormal one, which times 2**24 would be normal.
        half = np.from_dlpack(source) * np.float32(0.5)
        np.copyto(np.from_dlpack(target), half * np.float32(2.0**24))

    vector = BufferType((16,), "float32")
    buffers = tuple(replace(buffer, type=vector) for buffer in TWO_LANES.buffers)
    launch = Launch(0, (0, 1), 0, 1, 0)
    lanes = ((), (launch,)) if lane else ((launch,), ())
    program = replace(TWO_LANES, lanes=lanes, buffers=buffers)
    arrays = [np.full(16, least, np.float32) for _ in buffers]
    tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
    executor = NativeExecutor(program, {"step": halve}, tensors)
    executor.run()
    executor.close()
    assert not arrays[1].any()
    assert np.float32(least) * np.float32(0.5) > 0


@pytest.mark.parametrize("helping", [True, False])
def test_a_lane_that_waits_takes_pieces_of_a_long_launch(helping: bool) -> None:
    tiles: list[tuple[int, int]] = []
    options = {} if helping else {"patience_seconds": -1.0}
    executor, _ = make(slow_tiles(tiles), ONE_WORKS, **options)
    for run in range(8):
        tiles.clear()
        executor.run()
        *of_long, last = tiles
        # Of the whole launch the tiles are computed once each, all before what waits for them.
        assert sorted(tile for tile, _ in of_long) == list(range(TILES))
        threads = {thread for _, thread in of_long}
        assert last[0] == 0
        if run < 4 or not helping:
            # What it takes is still to be seen, or lanes keep to their own.
            assert len(threads) == 1
    assert len(threads) == (2 if helping else 1)
    executor.close()


def test_a_piece_that_fails_on_another_lane_fails_the_run() -> None:
    tiles: list[tuple[int, int]] = []
    usual, broken = slow_tiles(tiles), False
    began: list[int] = []

    def kernel(source: Any, target: Any, begin: int, end: int) -> None:
        if begin == 0:
            began.append(threading.get_ident())
        if broken and end == TILES:
            # Whoever runs the launch takes the first piece, who helps takes the last.
            while not began:
                time.sleep(1e-4)
            assert threading.get_ident() != began[0]
            raise ValueError("no luck")
        usual(source, target, begin, end)

    executor, _ = make(kernel, ONE_WORKS)
    for _ in range(5):
        executor.run()
    broken = True
    began.clear()
    with pytest.raises(
        KernelError, match=r"unit 'long' failed in kernel 'step' on lane 1.*no luck"
    ):
        executor.run()
    broken = False
    tiles.clear()
    executor.run()
    assert len(tiles) == TILES + 1
    executor.close()


@pytest.mark.parametrize("lane", [0, 1])
def test_a_kernel_that_runs_its_own_session_is_refused(lane: int) -> None:
    said: list[str] = []

    def again(source: Any, target: Any, begin: int, end: int) -> None:
        if threading.current_thread() is threading.main_thread() or lane == 1:
            with pytest.raises(BusyError) as caught:
                executor.run()
            said.append(str(caught.value))
        step(source, target, begin, end)

    executor, x = make(again)
    executor.run()
    assert x[0] == 2
    assert "in one of its own kernels" in said[0]
    executor.close()


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_closing_in_the_middle_of_a_run_ends_the_threads_after_it() -> None:
    before = threads()

    def closing(source: Any, target: Any, begin: int, end: int) -> None:
        executor.close()
        step(source, target, begin, end)

    executor, x = make(closing)
    assert threads() == before + 1
    executor.run()
    assert x[0] == 2
    assert threads() == before
    with refused(BusyError, "closed"):
        executor.run()


def test_programs_that_would_hang_or_name_what_is_not_there_are_refused() -> None:
    launch = Launch(0, (0, 1), 0, 1, 0)
    # Past the checks of Program, as a damaged file might.
    for lanes, *named in (
        (((Wait(0, 1), launch),), "lane 0", "wait"),
        (((launch,), (Wait(0, 2), launch)), "lane 1", "wait"),
        (((Wait(3, 1), launch),), "lane 3"),
        (((Launch(7, (0, 1), 0, 1, 0),),), "kernel 7"),
        (((Launch(0, (0, 9), 0, 1, 0),),), "buffer 9"),
    ):
        program = replace(TWO_LANES)
        object.__setattr__(program, "lanes", lanes)
        with refused(ValueError, *named):
            make(program=program)


def test_a_hundred_sessions_leave_no_thread_no_file_and_no_memory() -> None:
    """Bound: 24 MiB after a hundred sessions of 8 MiB of buffers and three threads each.

    Whichever thread runs a launch, its allocator may keep the 4 MiB that the kernel needed.
    """
    program = replace(
        TWO_LANES,
        lanes=(*TWO_LANES.lanes, TWO_LANES.lanes[1], TWO_LANES.lanes[1]),
        buffers=tuple(replace(b, type=BufferType((1 << 19,), "int64")) for b in TWO_LANES.buffers),
    )

    def one() -> None:
        session = Session(program, {"step": step}, {})
        session.run()
        session.close()

    for _ in range(10):
        one()
    # Or what earlier tests left would be counted.
    gc.collect()
    before = threads(), len(os.listdir("/proc/self/fd")), resident()
    for _ in range(100):
        one()
    gc.collect()
    after = threads(), len(os.listdir("/proc/self/fd")), resident()
    # Earlier tests may leave files that are collected meanwhile.
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert after[2] - before[2] < 24 << 20


def resident() -> int:
    """Bytes of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
