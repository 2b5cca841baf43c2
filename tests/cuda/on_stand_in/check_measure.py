from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gpus.suite import edges
from runtime_ext.cuda import measure
from runtime_ext.cuda.executor import run_on_device
from runtime_ext.cuda.measure import GpuDevice, time_program
from runtime_ext.cuda.nvidia.clocks import clocks
from runtime_ext.cuda.nvidia.driver import open_device
from tests.cuda.on_stand_in.stand_in import calls, kernel, kernels_of
from tests.fast_run import examples
from tests.random_units import VECTOR, Case, cases
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role


@examples(10)
@given(cases(whole=True), st.integers(1, 4), st.booleans())
def test_programs_are_timed(case: Case, lanes: int, flush: bool) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    kernels = kernels_of(case, program)
    samples = time_program(program, kernels.__getitem__, flush=flush)
    assert len(samples) == 12
    # By the stand-in's clock each launch takes a microsecond.
    launches = sum(isinstance(i, Launch) for lane in program.lanes for i in lane)
    assert min(samples) > (launches - 0.5) * 1e-6
    assert max(samples) < (launches + 2.5) * 1e-6


def one_kernel(*buffers: Buffer, launches: int = 1) -> Program:
    launch = Launch(0, tuple(range(len(buffers))), 0, 1, 0)
    return Program(((launch,) * launches,), ("step",), buffers, ("u",))


def test_large_buffers_repeat_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, count = 16, 75
    monkeypatch.setattr(measure, "_DRAWN_BYTES", 4 * drawn)
    program = one_kernel(Buffer("x", BufferType((count,), "float32"), Role.OUTPUT))
    memory, executor = run_on_device(program, {"step": kernel("step")}, None, None, 0)
    measure._fill(memory, program, executor.origin)
    numbers = memory.read("x")
    assert len(set(numbers[:drawn])) == drawn
    np.testing.assert_array_equal(numbers, np.resize(numbers[:drawn], count))


def test_the_cache_is_flushed_before_each_run_outside_the_time() -> None:
    program = one_kernel(Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT))
    before = calls("cuMemsetD8Async")
    flushed = time_program(program, lambda _: kernel("step"), flush=True)
    assert calls("cuMemsetD8Async") == before + 13 * 5
    before = calls("cuMemsetD8Async")
    warm = time_program(program, lambda _: kernel("step"))
    assert calls("cuMemsetD8Async") == before
    # The kernel and the graph's end; the memset would be one more.
    assert set(np.round(np.array(flushed) * 1e6).astype(int)) <= {2, 3}
    assert max(warm) < 2.1e-6


def test_phases_are_timed_one_by_one() -> None:
    program = one_kernel(
        Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT), launches=3
    )
    profile = GpuDevice(lanes=4).profile_phases(program, lambda _: kernel("step"))
    assert [len(samples) for samples in profile] == [12] * 3
    assert max(max(samples) for samples in profile) < 2.1e-6
    assert (GpuDevice().name, GpuDevice().splits) == ("Stand-in", False)


def test_what_a_launch_costs_is_the_time_of_one_that_does_nothing() -> None:
    program = one_kernel(Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT))
    (of_a_kernel,) = GpuDevice(lanes=4).profile_phases(program, lambda _: kernel("step"))
    overhead = GpuDevice(lanes=4).launch_overhead()
    assert len(overhead) == len(of_a_kernel)
    assert 0 < min(overhead) <= max(overhead) < 2.1e-6


def test_edges_are_timed_by_what_a_kernel_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    early = calls("cuLaunchKernelEx")
    edges.main()
    measured = json.loads(capsys.readouterr().out)["microseconds"]
    assert measured.keys() == {"ordinary", "from stream to stream", "early"}
    # By the stand-in's clock each launch takes a microsecond.
    assert all(0.9 < microseconds < 1.1 for microseconds in measured.values())
    assert calls("cuLaunchKernelEx") > early


def test_a_program_without_launches_takes_no_time_to_speak_of() -> None:
    empty = Program(((),), (), (Buffer("x", BufferType((3, 0)), Role.OUTPUT),), ())
    assert max(time_program(empty, lambda _: kernel("step"))) < 1e-5


def test_clocks_are_asked_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    device = open_device()
    assert clocks(device) == {"unknown": "nvidia-smi is not installed"}
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ "$2" = 0000:1b:00.0 ] || exit 3\n'
        "echo '1980, 3201, 1980, P0, 345.6, 41, 0x0000000000000000, 580.65'\n"
    )
    os.chmod(program, 0o755)
    figures = clocks(device)
    assert (figures["sm_mhz"], figures["power_state"], figures["driver"]) == (
        "1980",
        "P0",
        "580.65",
    )
    program.write_text("#!/bin/sh\necho no devices >&2\nexit 6\n")
    assert clocks(device) == {"unknown": "nvidia-smi says 'no devices'"}
