"""States: outputs that are inputs of the next run, without copies, as if they were handed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.ports import Port
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import ExecutableError, KernelError, SessionError
from tests.deployment.rows_model import add_rows
from tests.execution.small_executable import IMAGE, SHAPE, STEPS, change
from tests.fast_run import examples
from tests.random_units import VECTOR, Case, cases
from tests.refusals import refused
from tvm_ios.deployment.registry import DeploymentError
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, Launch, Program, Role

STATES = {"result": "image"}


@examples(40)
@given(st.data(), cases(), st.integers(1, 3), st.sampled_from(["native", "poisoning"]))
def test_steps_are_as_if_states_were_handed_over(
    data: st.DataObject, case: Case, lanes: int, executor: Any
) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    plan = plan_memory(program).plan
    names = [
        [case.graph.tensors[t].name for t in ts] for ts in (case.graph.inputs, case.graph.outputs)
    ]
    inputs, outputs = (data.draw(st.permutations(some)) for some in names)
    count = data.draw(st.integers(1, min(map(len, names))))
    states = dict(zip(outputs[:count], inputs[:count], strict=True))
    made = [
        Session(program, case.functions(), case.constants, plan=plan, executor=executor, states=s)
        for s in (states, {})
    ]
    stepping, handed = made
    values: dict[str, Array] = {name: np.zeros(VECTOR.shape, "int64") for name in states.values()}
    for step in range(5):
        if step == 3:
            stepping.reset_states()
            values |= {name: np.zeros(VECTOR.shape, "int64") for name in states.values()}
        given_now = data.draw(st.lists(st.sampled_from(names[0]), unique=True))
        if step == 0:
            given_now = names[0]
        now = {name: np.full(VECTOR.shape, 7 * step + len(name)) for name in given_now}
        stepping.run(**now)
        handed.run(**(values | now))
        for name in names[1]:
            np.testing.assert_array_equal(stepping.get_output(name), handed.get_output(name))
        values = {port: handed.get_output(output) for output, port in states.items()}
    for session in made:
        session.close()


def expected(executable: Executable, count: int, first: Array) -> Array:
    session, value = executable.session(), first
    for _ in range(count):
        session.run(image=value, steps=STEPS)
        value = session.get_output("result")
    return value


def test_what_is_saved_is_bound_here_and_in_c(executable: Executable, tmp_path: Path) -> None:
    zeros = np.zeros(SHAPE, "float32")
    replace(executable, notes={"states": STATES}).save(tmp_path / "out")
    executable.save(tmp_path / "plain")
    stepping = load_module(tmp_path / "plain")
    stepping.bind_state("result", "image")
    session = load(tmp_path / "out").session()
    assert isinstance(session, Session)
    assert session.state_inputs == {"image"}
    for one in (session, load_module(tmp_path / "out"), stepping):
        one.set_input(steps=STEPS)
        for count in (1, 2, 3):
            one.run()
            np.testing.assert_array_equal(
                one.get_output("result"), expected(executable, count, zeros)
            )
        one.benchmark(2, 2)  # runs of one step
        np.testing.assert_array_equal(one.get_output("result"), expected(executable, 4, zeros))
        one.set_input(image=IMAGE)
        for count in (1, 2):
            one.run()
            np.testing.assert_array_equal(
                one.get_output("result"), expected(executable, count, IMAGE)
            )
        one.reset_states()
        one.run()
        np.testing.assert_array_equal(one.get_output("result"), expected(executable, 1, zeros))
        one.close()
    # Others can be bound, or none.
    with refused(SessionError, "'image'", "never set"):
        load(tmp_path / "out").session(states={}).run(steps=STEPS)


def test_requests_are_no_steps(executable: Executable, tmp_path: Path) -> None:
    replace(executable, notes={"states": STATES}).save(tmp_path / "out")
    session, module = load(tmp_path / "out").session(), load_module(tmp_path / "out")
    requests = [{"image": IMAGE, "steps": STEPS}] * 4
    for one in (session, module):
        for workers in (1, 2):
            for result in one.run_many(requests, workers=workers):
                np.testing.assert_array_equal(result["result"], expected(executable, 1, IMAGE))
            with pytest.raises(Exception, match="image"):
                one.run_many([{"steps": STEPS}], workers=workers)
        one.close()


def step(*tensors: Any) -> None:
    """Adds one; fails where it is told to."""
    x, y = (np.from_dlpack(tensor) for tensor in tensors[:2])
    if x[0] == 40:
        raise ValueError("no luck")
    y[:] = x + 1


def shifting(states: dict[str, str]) -> Session:
    """``y = x + 1``, and inputs that are outputs, too: ``x`` as ``x_out``, ``z`` as ``z_out``."""
    buffers = tuple(Buffer(n, VECTOR, Role.OUTPUT if n == "y" else Role.INPUT) for n in "xzvy")
    program = Program(((Launch(0, (0, 3), 0, 1, 0),),), ("step",), buffers, ("u",))
    ports = {n: Port(n, n, VECTOR.shape, VECTOR.dtype) for n in "xzvy"}
    passed = [replace(ports[buffer], name=f"{buffer}_out") for buffer in "xzy"]
    return Session(
        program,
        {"step": step},
        {},
        [ports[n] for n in "xzv"],
        [ports["y"], *passed],
        states=states,
    )


def test_inputs_that_are_passed_on_are_a_register() -> None:
    session = shifting({"x_out": "z", "z_out": "v", "y": "x"})
    for count in range(5):
        session.run()
        shown = [int(session.get_output(name)[0]) for name in ("y", "x_out", "z_out")]
        assert shown == [count + 1, count, max(count - 1, 0)]
    # Two outputs in one buffer.
    session = shifting({"y": "x", "y_out": "z"})
    session.set_input(v=np.zeros(12, "int64"))
    for count in range(4):
        session.run()
        assert [int(session.get_output(n)[0]) for n in ("y", "z_out")] == [count + 1, count]


def test_a_step_that_fails_leaves_states_as_they_were() -> None:
    session = shifting({"y": "x"})
    zeros = np.zeros(12, "int64")
    session.run(x=np.full(12, 38), z=zeros, v=zeros)
    session.run()
    for _ in range(2):
        with refused(KernelError, "no luck"):
            session.run()
    session.run(x=np.full(12, 2))
    session.run()
    assert session.get_output("y")[0] == 4


@pytest.mark.parametrize(
    ("states", "names"),
    [
        ({"other": "image"}, ("output", "other", "result, inner")),
        ({"result": "other"}, ("input", "other", "image, steps")),
        ({"result": "steps"}, ("'result'", "float32", "'steps'", "int64")),
        ({"result": "image", "inner": "image"}, ("'image'", "two outputs")),
    ],
)
def test_what_does_not_fit_is_refused(
    executable: Executable, saved: Path, states: dict[str, str], names: tuple[str, ...]
) -> None:
    with refused(SessionError, *names):
        executable.session(states=states)
    module = load_module(saved)
    with refused(SessionError, *names):
        for output, port in states.items():
            module.bind_state(output, port)
    change(saved, "meta.json", lambda meta: meta["notes"].update(states=states))
    with refused(ExecutableError, saved, "other" if "other" in str(states) else "state"):
        load_module(saved)


def test_what_keeps_none_says_so(executable: Executable, saved: Path, tmp_path: Path) -> None:
    for one in (executable.session(), load_module(saved)):
        with refused(SessionError, "no states"):
            one.reset_states()
    add_rows(tmp_path / "app", 4)
    deployed = load_module(tmp_path / "app")
    for call in (deployed.reset_states, lambda: deployed.bind_state("result", "image")):
        with refused(SessionError, "deployment", "states"):
            call()
    kept = replace(executable, notes={"states": STATES})
    with refused(DeploymentError, "states"):
        add_entry(tmp_path / "other", "m", "0" * 64, NewEntry(kept, "sequential"))
