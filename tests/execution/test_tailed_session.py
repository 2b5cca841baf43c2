"""An executable whose model ends with what the data decide gives the model's own outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.runtime_module import load_module
from runtime_ext.execution.tailed_session import TailedSession
from runtime_ext.native_errors import ExecutableError, SessionError
from tests.onnx.test_tail import FEEDS, TAILS, model
from tests.onnx_sketch import run_on
from tests.refusals import refused
from tvm_ios.policies.sequential import sequential_schedule

#: The tail reads an output of the program, and an input that only it reads.
TEXT, OUTPUTS, _ = TAILS["an input that only the tail reads"]


@pytest.fixture(scope="module")
def drawn() -> Any:
    return model(TEXT, OUTPUTS)


@pytest.fixture(scope="module")
def saved(drawn: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tailed")
    onnx.save(drawn, str(folder / "drawn.onnx"))
    loaded = load_model(folder / "drawn.onnx")
    prepared = prepare(loaded.module)
    scheduled = apply_schedule(prepared, sequential_schedule(prepared.units))
    build(scheduled, lanes=1).save(folder / "out.tar", tail=loaded.tail)
    return folder / "out.tar"


@pytest.fixture
def executable(saved: Path) -> Executable:
    return load(saved)


def test_states_are_those_of_the_program(executable: Executable) -> None:
    (made,) = executable.outputs
    session = executable.session(states={made.name: "x"})
    plain, program = executable.session(), executable.program_session()
    x = np.zeros((3, 4), "float32")
    session.set_input(k=FEEDS["k"])
    for _ in range(3):
        session.run()
        plain.run(x=x, k=FEEDS["k"])
        np.testing.assert_array_equal(session.get_output("y"), plain.get_output("y"))
        program.run(x=x, k=FEEDS["k"])
        x = program.get_output()
    # The tail makes the one, and the other is no number like it.
    for states, names in (({"y": "x"}, ("output", "'y'")), ({made.name: "k"}, ("input", "'k'"))):
        with refused(SessionError, *names):
            executable.session(states=states)


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_outputs_are_those_of_the_model(
    is_installed: bool, drawn: Any, executable: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_on(drawn, FEEDS)
    monkeypatch.setattr(
        "runtime_ext.execution.tailed_session.find_spec", lambda _: is_installed or None
    )
    session = executable.session()
    assert isinstance(session, TailedSession)
    assert [port.name for port in session.inputs] == ["x", "k"]
    assert [(p.name, p.shape, p.dtype) for p in session.outputs] == [
        ("y", (3, -1), "float32"),
        ("i", (3, -1), "int64"),
    ]
    session.set_input("x", FEEDS["x"])
    session.set_input(k=FEEDS["k"])
    session.run()
    for which, array in ((0, expected[0]), ("y", expected[0]), (-1, expected[1])):
        np.testing.assert_allclose(session.get_output(which), array, rtol=1e-6)
    # Another number of rows; what was set before stays.
    session.run(k=np.array([4]))
    assert session.get_output("i").shape == (3, 4)
    assert len(session.benchmark(number=2, repeat=3)) == 3
    assert session.profile()
    assert {name: a.shape for name, a in session.random_inputs().items()} == {
        "x": (3, 4),
        "k": (1,),
    }
    session.close()


def test_what_is_refused(executable: Executable) -> None:
    session = executable.session()
    with refused(SessionError, "'y'", "run"):
        session.get_output()
    with refused(SessionError, "'k'", "set"):
        session.run(x=FEEDS["x"])
    with refused(SessionError, "'z'", "x, k"):
        session.run(z=FEEDS["x"])
    with refused(SessionError, "'k'", "[2]", "[1]"):
        session.set_input(k=np.array([1, 2]))
    with refused(SessionError, "2", "inputs"):
        session.set_input(None, FEEDS["x"])
    session.run(**FEEDS)
    with refused(SessionError, "2"):
        session.get_output(2)
    session.close()


def test_a_second_thread_is_refused(
    executable: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = executable.session()
    assert isinstance(session, TailedSession)
    run_tail, refusals = session._tail, list[SessionError]()

    def meanwhile(feeds: Any) -> Any:
        for again in (lambda: session.run(**FEEDS), session.benchmark):
            with pytest.raises(SessionError) as error:
                again()
            refusals.append(error.value)
        return run_tail(feeds)

    monkeypatch.setattr(session, "_tail", meanwhile)
    session.run(**FEEDS)
    assert len(refusals) == 2
    session.close()


def test_other_loaders_give_what_the_tail_reads(saved: Path, executable: Executable) -> None:
    module = load_module(saved)
    assert module.get_input_names() == ["x", "k"]
    assert module.get_output_names() == ["a"]
    module.run(**FEEDS)
    np.testing.assert_allclose(module.get_output("a"), np.exp(FEEDS["x"]), rtol=1e-5)
    module.close()
    session = executable.program_session()
    assert [port.name for port in session.outputs] == ["a"]
    session.close()


def test_a_damaged_tail_is_refused(executable: Executable, tmp_path: Path) -> None:
    executable.save(tmp_path / "out")
    assert load(tmp_path / "out").tail is not None
    file = tmp_path / "out" / "tail.onnx"
    file.write_bytes(file.read_bytes()[:-1])
    with refused(ExecutableError, "tail.onnx", "damaged"):
        load(tmp_path / "out")
    file.unlink()
    with refused(ExecutableError, "tail.onnx"):
        load(tmp_path / "out")


def test_many_requests_run_with_their_tails(executable: Executable) -> None:
    session = executable.session()
    assert isinstance(session, TailedSession)
    requests = [FEEDS, *({**FEEDS, **session.random_inputs(seed)} for seed in range(3))]
    for asked, result in zip(requests, session.run_many(requests, workers=2), strict=True):
        session.run(**asked)
        for port in session.outputs:
            np.testing.assert_array_equal(result[port.name], session.get_output(port.name))
    session.close()
