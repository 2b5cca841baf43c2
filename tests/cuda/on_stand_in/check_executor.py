from __future__ import annotations

import gc
import itertools
import os
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.cuda.executor import CudaExecutor, run_on_device
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.nvidia.driver import call, open_device
from runtime_ext.cuda.nvidia.memory import DeviceMemory
from runtime_ext.native_errors import BusyError, CudaError, ForkError
from tests.cuda.on_stand_in.stand_in import calls, kernel, kernels_of, live, recover, seed
from tests.fast_run import examples
from tests.random_units import VECTOR, Case, cases, random_inputs
from tests.refusals import refused
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, Launch, Program, ProgramError, Role, Wait

BUFFERS = (Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT))


def relay_race(lanes: int, legs: int, waits: bool = True) -> Program:
    """Each leg copies x to y or back, plus one, and runs on the next lane."""
    items: list[list[Launch | Wait]] = [[] for _ in range(lanes)]
    for leg in range(legs):
        lane = items[leg % lanes]
        if waits and leg:
            lane.append(Wait((leg - 1) % lanes, (leg - 1) // lanes + 1))
        lane.append(Launch(0, (0, 1) if leg % 2 == 0 else (1, 0), 0, 1, leg % 3))
    return Program(tuple(map(tuple, items)), ("step",), BUFFERS, ("a", "b", "c"))


class Running:
    """A program with its memory."""

    def __init__(self, program: Program, kernels: Any = None, **options: Any) -> None:
        device = open_device()
        self.memory = DeviceMemory(device, program, options.pop("constants", {}))
        kernels = kernels or {"step": kernel("step")}
        self.executor = CudaExecutor(
            program, kernels, self.memory.addresses, device=device, **options
        )

    def result(self, start: int = 0) -> int:
        self.memory.write("x", np.full(VECTOR.shape, start, VECTOR.dtype))
        self.executor.run()
        return int(self.memory.read("y")[0])


@examples(150)
@given(cases(whole=True), st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 9999))
def test_random_programs_compute_the_graph(
    case: Case, lanes: int, planned: bool, captured: bool, number: int
) -> None:
    seed(number)
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    device = open_device()
    plan = plan_memory(program).plan if planned else None
    memory = DeviceMemory(device, program, case.constants, plan)
    executor = CudaExecutor(
        program, kernels_of(case, program), memory.addresses, device=device, captured=captured
    )
    for run in range(4):
        inputs = random_inputs(case.graph, run)
        for name, value in inputs.items():
            memory.write(name, value)
        executor.run()
        for name, value in case.expected(inputs).items():
            np.testing.assert_array_equal(memory.read(name), value)
    executor.close()


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_long_chains_over_lanes(lanes: int, captured: bool) -> None:
    running = Running(relay_race(lanes, 101), captured=captured)
    assert [running.result(start) for start in (5, 6, 7, 8)] == [106, 107, 108, 109]
    running.executor.close()


def without(program: Program, lane: int, place: int) -> Program:
    items = [*program.lanes[lane]]
    del items[place]
    return replace(program, lanes=(*program.lanes[:lane], tuple(items), *program.lanes[lane + 1 :]))


@pytest.mark.parametrize("captured", [True, False])
def test_a_missing_wait_is_seen(captured: bool) -> None:
    program = relay_race(2, 6)
    waits = [
        (lane, place)
        for lane, items in enumerate(program.lanes)
        for place, item in enumerate(items)
        if isinstance(item, Wait)
    ]
    for lane, place in waits:
        running = Running(without(program, lane, place), captured=captured)
        seen = {running.result() for _ in range(30)}
        assert seen != {6}, (lane, place)
        recover()


@pytest.mark.parametrize("captured", [True, False])
def test_kernels_that_wait_by_themselves_are_launched_early(captured: bool) -> None:
    waiting = {"step": kernel("waiting_step", early=True)}
    before = calls("cuLaunchKernelEx")
    running = Running(relay_race(1, 7), waiting, captured=captured)
    assert [running.result() for _ in range(10)] == [7] * 10
    assert calls("cuLaunchKernelEx") > before
    running.executor.profile()
    running.executor.close()


@pytest.mark.parametrize("captured", [True, False])
def test_an_early_launch_that_does_not_wait_is_seen(captured: bool) -> None:
    running = Running(relay_race(1, 7), {"step": kernel("step", early=True)}, captured=captured)
    # The first run waits after each launch.
    assert {running.result() for _ in range(30)} != {7}
    recover()


def test_launches_that_wait_for_another_stream_are_not_early() -> None:
    waiting = {"step": kernel("waiting_step", early=True)}
    before = calls("cuLaunchKernelEx")
    running = Running(relay_race(2, 7), waiting)
    assert [running.result() for _ in range(10)] == [7] * 10
    assert calls("cuLaunchKernelEx") == before
    running.executor.close()


def crossing() -> Program:
    """Two lanes that begin at once; lane 0 needs both, and lane 1 ends last."""
    items = (
        (Launch(0, (0, 1), 0, 1, 0), Wait(1, 1), Launch(0, (2, 1), 0, 1, 0)),
        (Launch(0, (0, 2), 0, 1, 1), Wait(0, 2), Launch(0, (1, 3), 0, 1, 1)),
    )
    buffers = (*BUFFERS, Buffer("z", VECTOR, Role.INTERMEDIATE), Buffer("w", VECTOR, Role.OUTPUT))
    return Program(items, ("step",), buffers, ("a", "b"))


def spoil(running: Running, what: str) -> None:
    """Leave all forks, waits or joins of its event graph out."""
    executor: Any = running.executor
    graph = executor._graph
    if what == "joins":
        spoilt = replace(graph, joins=())
    else:
        value = False if what == "forks" else ()
        spoilt = replace(graph, nodes=tuple(replace(node, **{what: value}) for node in graph.nodes))
    assert spoilt != graph
    executor._graph = spoilt


@pytest.mark.parametrize("what", ["joins", "awaits"])
def test_a_missing_event_is_seen(what: str) -> None:
    running = Running(crossing(), captured=False)
    assert running.result() == 2
    spoil(running, what)
    seen: set[tuple[int, int]] = set()
    for start in range(30):
        y = running.result(start * 100)
        seen.add((y - start * 100, int(running.memory.read("w")[0]) - start * 100))
    assert seen != {(2, 3)}


def test_a_missing_fork_is_refused() -> None:
    running = Running(crossing())
    spoil(running, "forks")
    with pytest.raises(CudaError, match="ISOLATION"):
        running.executor.run()


def test_a_capture_without_a_join_is_refused() -> None:
    running = Running(relay_race(2, 2))
    executor: Any = running.executor
    executor._graph = replace(executor._graph, joins=())
    with pytest.raises(CudaError, match="UNJOINED"):
        executor.run()


def test_a_run_is_one_call() -> None:
    running = Running(relay_race(3, 30))
    running.result()
    before = {name: calls(name) for name in ("cuLaunchKernel", "cuGraphLaunch", "cuEventRecord")}
    running.executor.run()
    after = {name: calls(name) for name in before}
    assert after == {**before, "cuGraphLaunch": before["cuGraphLaunch"] + 1}


def test_a_failing_kernel_names_its_unit() -> None:
    program = Program(
        ((Launch(0, (0, 1), 0, 1, 0),), (Wait(0, 1), Launch(1, (1, 0), 0, 1, 1))),
        ("step", "big"),
        BUFFERS,
        ("fine", "the bad one"),
    )
    kernels: dict[str, Launchable] = {
        "step": kernel("step"),
        "big": replace(kernel("step"), block=(1025, 1, 1)),
    }
    running = Running(program, kernels)
    with refused(RuntimeError, "'the bad one'", "'big'", "lane 1", "cuLaunchKernel"):
        running.executor.run()


def test_large_shared_memory_is_asked_for() -> None:
    running = Running(relay_race(1, 1), {"step": kernel("step", shared_bytes=200 << 10)})
    assert running.result() == 1
    with refused(CudaError, "cuFuncSetAttribute"):
        Running(relay_race(1, 1), {"step": kernel("step", shared_bytes=228 << 10)})


def test_cleared_arguments_are_zero_before_every_launch() -> None:
    running = Running(relay_race(2, 5), {"step": kernel("step", cleared=(0,))})
    assert [running.result(start) for start in (7, 8, 9)] == [1, 1, 1]


def test_blocks_that_wait_for_each_other_are_launched_together() -> None:
    before = calls("cuLaunchCooperativeKernel")
    assert Running(relay_race(1, 1)).result() == 1
    assert calls("cuLaunchCooperativeKernel") == before
    # The first run, and the capture.
    assert Running(relay_race(1, 1), {"step": kernel("step", cleared=(0,))}).result() == 1
    assert calls("cuLaunchCooperativeKernel") == before + 2


def test_blocks_that_wait_for_each_other_must_all_fit() -> None:
    def wide(blocks: int) -> dict[str, Launchable]:
        launchable = kernel("step", cleared=(0,))
        return {"step": replace(launchable, grid=(blocks, 1, 1), block=(1024, 1, 1))}

    # The stand-in has 132 multiprocessors of two such blocks.
    Running(relay_race(1, 1), wide(264))
    with refused(CudaError, 265, "Stand-in", 264):
        Running(relay_race(1, 1), wide(265))


def test_a_range_of_tiles_is_refused() -> None:
    program = Program(((Launch(0, (0, 1), 0, 2, 0),),), ("step",), BUFFERS, ("u",))
    with refused(ProgramError, "CUDA kernels", "whole"):
        Running(program)


@pytest.mark.parametrize("captured", [True, False])
def test_profile_covers_all_launches_in_order(captured: bool) -> None:
    running = Running(relay_race(3, 10), captured=captured)
    spans = running.executor.profile()
    assert [(s.lane, s.launch) for s in spans] == [
        (lane, launch) for lane, count in enumerate((4, 3, 3)) for launch in range(count)
    ]
    by_leg = sorted(spans, key=lambda s: s.launch * 3 + s.lane)
    assert all(a.begin <= a.end <= b.begin for a, b in itertools.pairwise(by_leg))


def test_benchmark_runs_as_often_as_asked() -> None:
    running = Running(relay_race(2, 2))
    running.result()
    before = calls("cuGraphLaunch")
    samples = running.executor.benchmark(5, 3)
    assert calls("cuGraphLaunch") == before + 15
    assert len(samples) == 3
    assert all(s > 0 for s in samples)


def test_a_captured_repetition_runs_one_after_another() -> None:
    running = Running(relay_race(2, 3))
    running.result(0)
    replay = running.executor.capture(repeats=7)
    running.memory.write("x", np.zeros(VECTOR.shape, VECTOR.dtype))
    call("cuGraphLaunch", replay.handle, running.executor.origin)
    call("cuStreamSynchronize", running.executor.origin)
    # Each run ends with y = x + 1 after having made x two larger.
    assert int(running.memory.read("y")[0]) == 2 * 7 + 1


def test_another_thread_may_run_it_and_two_may_not() -> None:
    running = Running(relay_race(2, 2))
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(running.result(3)))
    thread.start()
    thread.join()
    assert results == [4]
    executor: Any = running.executor
    with executor._exclusive, refused(BusyError, "thread"):
        executor.run()
    executor.close()
    executor.close()
    with refused(BusyError, "closed"):
        executor.run()


def test_a_forked_child_is_refused_and_harms_nothing() -> None:
    running = Running(relay_race(2, 2))
    running.result()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            running.executor.run()
        except ForkError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"start processes with 'spawn'" in os.read(reader, 1000)
    assert running.result(1) == 2


def test_a_wrong_memory_plan_is_seen() -> None:
    """Two intermediate buffers of lanes that run side by side in the same bytes."""
    lanes = (
        (Launch(0, (0, 1), 0, 1, 0), Launch(0, (1, 3), 0, 1, 0)),
        (Launch(0, (5, 2), 0, 1, 1), Launch(0, (2, 4), 0, 1, 1)),
    )
    roles = (Role.INPUT, Role.INTERMEDIATE, Role.INTERMEDIATE, Role.OUTPUT, Role.OUTPUT, Role.INPUT)
    buffers = tuple(Buffer(name, VECTOR, role) for name, role in zip("xabyzw", roles, strict=True))
    program = Program(lanes, ("step",), buffers, ("u", "v"))
    for offsets, right in (({1: 0, 2: 128}, True), ({1: 0, 2: 0}, False)):
        memory, executor = run_on_device(
            program, {"step": kernel("step")}, {}, MemoryPlan(256, offsets), 0
        )
        memory.write("x", np.full(12, 10))
        memory.write("w", np.full(12, 20))
        executor.run()
        seen: set[tuple[int, int]] = set()
        # On a busy machine the streams may meet only now and then.
        for _ in range(30 if right else 3000):
            executor.run()
            seen.add((int(memory.read("y")[0]), int(memory.read("z")[0])))
            if seen != {(12, 22)}:
                break
        assert (seen == {(12, 22)}) is right


def test_all_is_given_back_and_constants_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    kinds = ("stream", "event", "graph", "graph exec", "module", "memory", "pinned")
    before = {kind: live(kind) for kind in kinds}
    buffers = (Buffer("c", VECTOR, Role.CONSTANT), Buffer("y", VECTOR, Role.OUTPUT))
    program = Program(((Launch(0, (0, 1), 0, 1, 0),),), ("step",), buffers, ("u",))
    constants = {"c": np.arange(12)}
    one, two = (Running(program, constants=constants) for _ in range(2))
    for running in (one, two):
        running.executor.run()
        np.testing.assert_array_equal(running.memory.read("y"), constants["c"] + 1)
    assert one.memory.addresses[0] == two.memory.addresses[0]
    assert live("module") == before["module"] + 1
    assert live("memory") == before["memory"] + 3
    del one, two, running
    gc.collect()
    assert {kind: live(kind) for kind in kinds} == before


def test_memory_that_is_not_there_is_said() -> None:
    huge = replace(VECTOR, shape=(1 << 32,))
    program = Program(((),), (), (Buffer("x", huge, Role.OUTPUT),), ())
    with refused(RuntimeError, "Stand-in", 34359738368) as caught:
        DeviceMemory(open_device(), program, {})
    assert "CUDA_ERROR_OUT_OF_MEMORY" in str(caught.value)


def test_devices_are_checked() -> None:
    device = open_device()
    assert (device.name, device.compute_capability) == ("Stand-in", (9, 0))
    device.require("sm_90")
    with refused(CudaError, "sm_80", "Stand-in", "sm_90"):
        device.require("sm_80")
    with refused(CudaError, "device 3"):
        open_device(3)
