import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.executor import Executor
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.execution.reference import ReferenceExecutor
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import BusyError, KernelError
from tests.fast_run import examples
from tests.random_units import VECTOR, Case, cases, random_inputs
from tests.refusals import refused
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, Launch, Program, Role, Wait

Make = Callable[[Program, dict[str, Callable[..., Any]], list[Any]], Executor]
BOTH = pytest.mark.parametrize("make", [NativeExecutor, ReferenceExecutor])
BUFFERS = (Buffer("x", VECTOR, Role.INTERMEDIATE), Buffer("y", VECTOR, Role.OUTPUT))


def vectors(count: int = 2) -> tuple[list[np.ndarray], list[Any]]:
    arrays = [np.zeros(VECTOR.shape, VECTOR.dtype) for _ in range(count)]
    return arrays, [tvm_ffi.from_dlpack(a) for a in arrays]


def results(case: Case, lanes: int, **options: Any) -> dict[str, np.ndarray]:
    delays = options.pop("delays", None)
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    session = Session(program, case.functions(delays), case.constants, **options)
    session.set_input(**random_inputs(case.graph, 7))
    for _ in range(2):
        session.run()
    outputs = {port.name: session.get_output(port.name) for port in session.outputs}
    session.close()
    return outputs


@given(cases(), st.integers(1, 4), st.integers(0, 1000))
def test_reference_computes_the_graph(case: Case, lanes: int, seed: int) -> None:
    outputs = results(case, lanes, executor="reference", seed=seed)
    expected = case.expected(random_inputs(case.graph, 7))
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value)


@examples(60)
@given(cases(), st.integers(1, 4), st.integers(0, 1000))
def test_native_equals_reference(case: Case, lanes: int, seed: int) -> None:
    native = results(case, lanes, delays=random.Random(seed))
    reference = results(case, lanes, executor="reference", seed=seed)
    assert native.keys() == reference.keys()
    for name, value in reference.items():
        np.testing.assert_array_equal(native[name], value)


def relay_race(lanes: int, legs: int, waits: bool) -> Program:
    """Each leg copies x to y or back, plus one, and runs on the next lane."""
    items: list[list[Launch | Wait]] = [[] for _ in range(lanes)]
    for leg in range(legs):
        lane = items[leg % lanes]
        if waits and leg:
            lane.append(Wait((leg - 1) % lanes, (leg - 1) // lanes + 1))
        lane.append(Launch(0, (0, 1) if leg % 2 == 0 else (1, 0), 0, 12, leg % 3))
    return Program(tuple(map(tuple, items)), ("step",), BUFFERS, ("a", "b", "c"))


def step(source: Any, target: Any, begin: int, end: int) -> None:
    np.from_dlpack(target)[begin:end] = np.from_dlpack(source)[begin:end] + 1


@BOTH
@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_long_chains_over_lanes(make: Make, lanes: int) -> None:
    arrays, tensors = vectors()
    executor = make(relay_race(lanes, 101, waits=True), {"step": step}, tensors)
    for run in range(1, 4):
        executor.run()
        # The next run starts from y's last value, which the last leg left in y.
        assert arrays[1][0] - arrays[0][0] == 1
        assert arrays[1][0] == 101, run
        arrays[0][:] = 0
    executor.close()


def test_the_reference_shows_a_missing_wait() -> None:
    seen: set[int] = set()
    for seed in range(50):
        arrays, tensors = vectors()
        ReferenceExecutor(relay_race(3, 9, waits=False), {"step": step}, tensors, seed=seed).run()
        seen.add(int(arrays[1][0]))
    assert len(seen) > 1


@BOTH
@pytest.mark.parametrize("failing_lane", [0, 1])
def test_a_failing_kernel_names_its_unit_and_the_next_run_works(
    make: Make, failing_lane: int
) -> None:
    fail = True

    def bad(source: Any, target: Any, begin: int, end: int) -> None:
        if fail:
            raise ValueError("no luck")
        step(source, target, begin, end)

    good, worse = Launch(0, (0, 1), 0, 12, 0), Launch(1, (1, 0), 0, 12, 1)
    lanes: list[tuple[Launch | Wait, ...]] = [(good, Wait(1, 1), good), (Wait(0, 1), worse)]
    if failing_lane == 0:
        lanes = [(Wait(1, 1), worse), (good, Wait(0, 1), good)]
    program = Program(tuple(lanes), ("step", "bad"), BUFFERS, ("fine", "the bad one"))
    arrays, tensors = vectors()
    executor = make(program, {"step": step, "bad": bad}, tensors)
    for _ in range(3):
        with refused(KernelError, "'the bad one'", "'bad'", f"lane {failing_lane}", "no luck"):
            executor.run()
    with pytest.raises(KernelError):
        executor.benchmark(2, 2)
    with pytest.raises(KernelError):
        executor.profile()
    fail = False
    arrays[0][:] = 0
    executor.run()
    assert (arrays[0][0], arrays[1][0]) == (2, 3)
    executor.close()


@BOTH
def test_a_second_thread_is_refused(make: Make) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(source: Any, target: Any, begin: int, end: int) -> None:
        entered.set()
        assert leave.wait(30)

    program = Program(((Launch(0, (0, 1), 0, 12, 0),),), ("slow",), BUFFERS, ("u",))
    executor = make(program, {"slow": slow}, vectors()[1])
    thread = threading.Thread(target=executor.run)
    thread.start()
    assert entered.wait(30)
    for call in (executor.run, executor.profile, lambda: executor.benchmark(1, 1)):
        with refused(BusyError, "thread"):
            call()
    leave.set()
    thread.join()
    executor.run()
    executor.close()


@BOTH
def test_a_closed_executor_is_refused(make: Make) -> None:
    executor = make(relay_race(2, 4, waits=True), {"step": step}, vectors()[1])
    executor.run()
    executor.close()
    executor.close()
    with refused(BusyError, "closed"):
        executor.run()


@BOTH
def test_profile_covers_all_launches_in_order(make: Make) -> None:
    program = relay_race(3, 10, waits=True)
    executor = make(program, {"step": step}, vectors()[1])
    spans = executor.profile()
    assert [(s.lane, s.launch) for s in spans] == [
        (lane, launch) for lane, count in enumerate((4, 3, 3)) for launch in range(count)
    ]
    assert all(0 <= s.begin <= s.end for s in spans)
    by_leg = sorted(spans, key=lambda s: s.launch * 3 + s.lane)
    assert all(a.end <= b.begin for a, b in itertools.pairwise(by_leg))
    executor.close()


def test_a_profile_says_for_how_long_a_kernel_stood_still() -> None:
    def sleep(source: Any, target: Any, begin: int, end: int) -> None:
        time.sleep(0.02)

    program = Program(((Launch(0, (0, 1), 0, 12, 0),),), ("sleep",), BUFFERS, ("u",))
    executor = NativeExecutor(program, {"sleep": sleep}, vectors()[1])
    (span,) = executor.profile()
    assert 0.019 <= span.held_up <= span.end - span.begin
    assert span.runner == 0
    executor.close()


@BOTH
def test_benchmark_runs_as_often_as_asked(make: Make) -> None:
    calls = 0

    def count(source: Any, target: Any, begin: int, end: int) -> None:
        nonlocal calls
        calls += 1

    program = Program(((Launch(0, (0, 1), 0, 12, 0),),), ("count",), BUFFERS, ("u",))
    executor = make(program, {"count": count}, vectors()[1])
    samples = executor.benchmark(5, 3)
    assert calls == 15
    assert len(samples) == 3
    assert all(s > 0 for s in samples)
    executor.close()


def test_many_native_executors_at_once() -> None:
    count = 6
    memory = [vectors() for _ in range(count)]
    program = relay_race(3, 30, waits=True)
    executors = [NativeExecutor(program, {"step": step}, tensors) for _, tensors in memory]

    def work(number: int) -> None:
        for _ in range(5):
            memory[number][0][0][:] = number
            executors[number].run()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (arrays, _) in enumerate(memory):
        # Thirty legs end in x.
        assert arrays[0][0] == number + 30
        executors[number].close()


@pytest.mark.parametrize("options", [{"pin": True}, {"spin_seconds": 0.0}, {"spin_seconds": 1.0}])
def test_native_options_change_no_result(options: dict[str, Any]) -> None:
    arrays, tensors = vectors()
    executor = NativeExecutor(relay_race(2, 40, waits=True), {"step": step}, tensors, **options)
    executor.run()
    assert arrays[0][0] == 40
    executor.close()


def test_lanes_without_launches_are_fine() -> None:
    program = relay_race(1, 3, waits=False)
    program = replace(program, lanes=((), *program.lanes, (Wait(1, 2),)))
    arrays, tensors = vectors()
    for make in (NativeExecutor, ReferenceExecutor):
        arrays[0][:] = 0
        make(program, {"step": step}, tensors).run()
        assert arrays[1][0] == 3
