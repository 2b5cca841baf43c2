from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.executable import load
from runtime_ext.execution.ports import Port
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import CudaError, ExecutableError, SessionError
from tests.cuda.cuda_executables import add_two
from tests.cuda.on_stand_in.stand_in import KERNELS, kernels_of, seed
from tests.fast_run import examples
from tests.random_units import Case, cases, random_inputs
from tests.refusals import refused
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, BufferType, Program, Role


def results(session: Session, runs: int = 3) -> list[bytes]:
    for _ in range(runs):
        session.run()
    return [session.get_output(place).tobytes() for place in range(len(session.outputs))]


@examples(60)
@given(cases(whole=True), st.integers(1, 4), st.booleans(), st.integers(0, 9999))
def test_a_gpu_computes_what_the_reference_does(
    case: Case, lanes: int, planned: bool, number: int
) -> None:
    seed(number)
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    plan = plan_memory(program).plan if planned else None
    inputs = random_inputs(case.graph, number)
    outputs: list[list[bytes]] = []
    on_gpu: Any
    for on_gpu in ("cuda", "cuda-streams"):
        kernels = kernels_of(case, program)
        session = Session(program, kernels, case.constants, plan=plan, executor=on_gpu)
        session.set_input(**inputs)
        outputs.append(results(session))
        session.close()
    reference = Session(program, case.functions(), case.constants, executor="reference")
    reference.set_input(**inputs)
    assert outputs == [results(reference, 1)] * 2


@pytest.mark.parametrize("on_gpu", ["cuda", "cuda-streams"])
def test_a_program_that_launches_nothing(on_gpu: Any) -> None:
    """What it returns are a constant, an input, and one without elements."""
    constant = np.arange(3, dtype=np.float32)
    types = {"c": BufferType((3,)), "x": BufferType((2,)), "e": BufferType((2, 0))}
    roles = {"c": Role.CONSTANT, "x": Role.INPUT, "e": Role.INPUT}
    buffers = tuple(Buffer(name, types[name], roles[name]) for name in types)
    ports = {name: Port(name, name, types[name].shape, "float32") for name in types}
    inputs = [ports["x"], ports["e"]]
    program = Program(((), ()), (), buffers, ())
    session = Session(program, {}, {"c": constant}, inputs, [*ports.values()], executor=on_gpu)
    values = {"x": np.array([5, 6], np.float32), "e": np.zeros((2, 0), np.float32)}
    for _ in range(2):
        session.run(**values)
    for name, expected in ({"c": constant} | values).items():
        np.testing.assert_array_equal(session.get_output(name), expected)


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_an_executable_is_saved_loaded_and_run(tmp_path: Path, name: str) -> None:
    add_two(tmp_path, KERNELS).save(tmp_path / name)
    loaded = load(tmp_path / name)
    assert loaded.arch == "sm_90"
    session = loaded.session()
    for start in (0, 100):
        session.run(input=np.full(12, start))
        np.testing.assert_array_equal(session.get_output("first"), np.full(12, start + 2))
        np.testing.assert_array_equal(session.get_output("second"), np.arange(12) + 2)
    assert len(session.profile()) == 4
    assert len(session.benchmark(2, 3)) == 3
    session.close()
    np.testing.assert_array_equal(session.get_output("second"), np.arange(12) + 2)
    with refused(SessionError, "shape"):
        session.set_input(input=np.zeros(3, "int64"))
    with refused(ExecutableError, "sm_90", "'native'"):
        loaded.session("native")


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    add_two(tmp_path, KERNELS, "sm_80").save(tmp_path / "out")
    with refused(CudaError, "sm_80", "Stand-in", "sm_90"):
        load(tmp_path / "out").session()
    with refused(CudaError, "device 1"):
        add_two(tmp_path, KERNELS).session(device=1)


def test_code_that_the_driver_refuses_is_said(tmp_path: Path) -> None:
    add_two(tmp_path, b"no machine code").save(tmp_path / "out")
    with refused(CudaError, "cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE"):
        load(tmp_path / "out").session()
