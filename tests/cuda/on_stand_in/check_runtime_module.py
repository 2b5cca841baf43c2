"""The module of TVM's runtime runs executables for a GPU as the Python session does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.executable import load
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.native_errors import BusyError, ExecutableError, KernelError, SessionError
from tests.cuda.cuda_executables import add_two, executable
from tests.cuda.on_stand_in.stand_in import KERNELS, calls, kernel, kernels_of, live, seed
from tests.fast_run import examples
from tests.random_units import VECTOR, Case, cases, random_inputs
from tests.refusals import refused
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, Role, Wait


@examples(60)
@given(cases(whole=True), st.integers(1, 4), st.integers(0, 9999))
def test_random_programs_compute_the_graph(case: Case, lanes: int, number: int) -> None:
    seed(number)
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    with TemporaryDirectory() as folder:
        path = Path(folder)
        executable(path, program, kernels_of(case, program), case.constants).save(path / "out")
        module = load_module(path / "out")
    for run in range(4):
        inputs = random_inputs(case.graph, run)
        module.run(**inputs)
        for name, value in case.expected(inputs).items():
            np.testing.assert_array_equal(module.get_output(name), value)
    module.close()


def test_all_that_a_module_does(tmp_path: Path) -> None:
    before = {kind: live(kind) for kind in ("stream", "event", "graph exec", "module", "memory")}
    add_two(tmp_path, KERNELS).save(tmp_path / "out")
    module = load_module(tmp_path / "out")
    module.run(input=np.full(12, 5))
    launched = calls("cuLaunchKernel")
    module.run()
    assert calls("cuLaunchKernel") == launched
    np.testing.assert_array_equal(module.get_output("first"), np.full(12, 7))
    np.testing.assert_array_equal(module.get_output("second"), np.arange(12) + 2)
    profile = module.profile()
    assert [(p["lane"], p["unit"]) for p in profile] == [(0, "a"), (0, "b"), (1, "c"), (1, "d")]
    assert profile[3]["begin"] >= profile[0]["end"] > 0
    assert len(module.benchmark(3, 4)) == 4
    for number, repeat in ((0, 1), (1, 0)):
        with refused(SessionError, "one run", "one sample"):
            module.benchmark(number, repeat)
    module.close()
    np.testing.assert_array_equal(module.get_output(0), np.full(12, 7))
    with refused(BusyError, "closed"):
        module.run()
    del module
    assert {kind: live(kind) for kind in before} == before


def test_kernels_that_wait_by_themselves_are_launched_early(tmp_path: Path) -> None:
    """One launch after another on a stream, and none that waits for another stream."""
    made = add_two(tmp_path, KERNELS)
    waiting = {"step": kernel("waiting_step", early=True)}
    x, c, _, _, y, d = (b.name for b in made.program.buffers)
    executable(
        tmp_path, made.program, waiting, {c: np.arange(12)}, {x: "input", y: "first", d: "second"}
    ).save(tmp_path / "out")
    module = load_module(tmp_path / "out")
    before = calls("cuLaunchKernelEx")
    for _ in range(20):
        module.run(input=np.full(12, 5))
        np.testing.assert_array_equal(module.get_output("first"), np.full(12, 7))
        np.testing.assert_array_equal(module.get_output("second"), np.arange(12) + 2)
    # In the first run and in the capture.
    assert calls("cuLaunchKernelEx") == before + 2
    module.profile()
    assert calls("cuLaunchKernelEx") == before + 2
    module.close()


def test_states_stay_on_the_device(tmp_path: Path) -> None:
    replace(add_two(tmp_path, KERNELS), notes={"states": {"first": "input"}}).save(tmp_path / "out")
    for session in (load(tmp_path / "out").session(), load_module(tmp_path / "out")):
        for count in range(1, 5):
            session.run()
            np.testing.assert_array_equal(session.get_output("first"), np.full(12, 2 * count))
        session.set_input(input=np.full(12, 5))
        session.run()
        session.reset_states()
        session.run()
        np.testing.assert_array_equal(session.get_output("first"), np.full(12, 2))
        session.close()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    add_two(tmp_path, KERNELS, "sm_80").save(path)
    with refused(ExecutableError, "sm_80", "Stand-in", "sm_90"):
        load_module(path)
    add_two(tmp_path, b"no machine code").save(path)
    with refused(ExecutableError, "cuModuleLoadData"):
        load_module(path)
    module = add_two(tmp_path, KERNELS)
    for metadata in ({}, {"kernels": "[]"}, {"kernels": '{"format": "tvm-ios cuda kernels"}'}):
        other = tmp_path / "other.safetensors"
        safetensors.numpy.save_file({"a": np.zeros(3)}, other, metadata)
        replace(module, kernels=other).save(path)
        with refused(ExecutableError, path):
            load_module(path)
    called = '{"format": "tvm-ios cuda kernels", "version": 1, "arch": "sm_90", "kernels": {}, '
    metadata = {"kernels": called + '"cudnn": {}}'}
    safetensors.numpy.save_file({"a": np.zeros(3)}, other, metadata)
    replace(module, kernels=other).save(path)
    with refused(ExecutableError, "cuDNN", "Python"):
        load_module(path)
    launch = Launch(0, (0, 2), 0, 2, 0)
    uses = (KernelUse(2, 2, (1,)),)
    replace(module, program=replace(module.program, lanes=((launch,),), uses=uses)).save(path)
    with refused(ExecutableError, "CUDA kernels", "whole"):
        load_module(path)


def test_blocks_that_wait_for_each_other_must_all_fit(tmp_path: Path) -> None:
    program = Program(
        ((Launch(0, (0, 1), 0, 1, 0),),),
        ("step",),
        (Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT)),
        ("u",),
        (KernelUse(1, 2, (1,)),),
    )
    # The stand-in has 132 multiprocessors of two such blocks.
    for blocks in (264, 265):
        wide = replace(kernel("step", cleared=(1,)), grid=(blocks, 1, 1), block=(1024, 1, 1))
        executable(tmp_path, program, {"step": wide}, {}).save(tmp_path / str(blocks))
    module = load_module(tmp_path / "264")
    before = calls("cuLaunchCooperativeKernel")
    module.run(x=np.full(12, 5))
    np.testing.assert_array_equal(module.get_output(0), np.full(12, 6))
    # The first run, and the capture.
    assert calls("cuLaunchCooperativeKernel") == before + 2
    module.close()
    with refused(ExecutableError, 265, "Stand-in", 264):
        load_module(tmp_path / "265")


def test_a_failing_kernel_names_its_unit(tmp_path: Path) -> None:
    program = Program(
        ((Launch(0, (0, 1), 0, 1, 0),), (Wait(0, 1), Launch(1, (1, 2), 0, 1, 1))),
        ("step", "broken"),
        tuple(Buffer(n, VECTOR, Role.INPUT if n == "x" else Role.OUTPUT) for n in "xyz"),
        ("fine", "the bad one"),
        (KernelUse(1, 2, (1,)),) * 2,
    )
    kernels = {"step": kernel("step"), "broken": kernel("broken")}
    executable(tmp_path, program, kernels, {}).save(tmp_path / "out")
    module = load_module(tmp_path / "out")
    with refused(KernelError, "'the bad one'", "'broken'", "lane 1"):
        module.run(x=np.zeros(12, "int64"))
