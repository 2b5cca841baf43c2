from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import tvm_ffi

from runtime_ext.execution.buffers import ALIGNMENT, allocate, content_key, share_constant
from runtime_ext.execution.ports import Port
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import KernelError, SessionError
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    Launch,
    Part,
    Program,
    ProgramError,
    Role,
    Wait,
)

IMAGE = BufferType((2, 3), "float32")
PROGRAM = Program(
    lanes=(
        (Launch(0, (0, 1, 2, 3), 0, 1, 0),),
        (Wait(0, 1), Launch(0, (0, 1, 2, 3), 1, 2, 0)),
    ),
    kernels=("scale_add",),
    buffers=(
        Buffer("x", IMAGE, Role.INPUT),
        Buffer("bias", IMAGE, Role.INPUT),
        Buffer("scale/1", IMAGE, Role.CONSTANT),
        Buffer("y", IMAGE, Role.OUTPUT),
    ),
    units=("scale",),
)
SCALE = np.full((2, 3), 3, "float32")
ONES = np.ones((2, 3), "float32")


def scale_add(x: Any, bias: Any, scale: Any, y: Any, begin: int, end: int) -> None:
    rows = slice(begin, end)
    x, bias, scale = (np.from_dlpack(t)[rows] for t in (x, bias, scale))
    np.from_dlpack(y)[rows] = x * scale + bias


def session(
    function: Callable[..., None] = scale_add,
    executor: Literal["native", "reference"] = "native",
    **options: Any,
) -> Session:
    options = {"constants": {"scale/1": SCALE}} | options
    return Session(PROGRAM, {"scale_add": function}, executor=executor, **options)


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_inputs_and_outputs(executor: Literal["native", "reference"]) -> None:
    live = session(executor=executor)
    live.set_input("x", ONES * 2)
    live.run(bias=tvm_ffi.from_dlpack(ONES))
    first = live.get_output("y")
    np.testing.assert_array_equal(first, ONES * 7)
    live.run(x=ONES * 10)
    np.testing.assert_array_equal(live.get_output(0), ONES * 31)
    np.testing.assert_array_equal(live.get_output(-1), ONES * 31)
    # A copy: later runs do not change it.
    np.testing.assert_array_equal(first, ONES * 7)
    assert len(live.benchmark(number=2, repeat=3)) == 3
    assert len(live.profile()) == 2
    live.close()


def test_ports_rename_buffers() -> None:
    ports = {
        "inputs": [
            Port("bias", "x", (2, 3), "float32"),
            Port("name", "bias", (2, 3), "float32"),
        ],
        "outputs": [
            Port("result", "y", (2, 3), "float32"),
            Port("handed through", "bias", (2, 3), "float32"),
        ],
    }
    live = session(**ports)
    live.run(bias=ONES, name=ONES * 5)
    np.testing.assert_array_equal(live.get_output("result"), ONES * 8)
    np.testing.assert_array_equal(live.get_output("handed through"), ONES * 5)
    with refused(SessionError, "'z'", "float32[3, 2]", "float32[2, 3]"):
        session(outputs=[Port("z", "y", (3, 2), "float32")])
    with refused(SessionError, "'z'", "'nowhere'"):
        session(outputs=[Port("z", "nowhere", (2, 3), "float32")])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda s: s.set_input("z", ONES), ("'z'", "x, bias")),
        (lambda s: s.set_input(x=ONES[:1]), ("'x'", "[1, 3]", "[2, 3]")),
        (lambda s: s.set_input(x=ONES.astype("float64")), ("'x'", "float64", "float32")),
        (lambda s: s.set_input(None, ONES), ("2 inputs", "x, bias")),
        (lambda s: s.set_input("x"), ("'x'", "value")),
        (lambda s: s.run(x=ONES), ("'bias'", "set")),
        (lambda s: s.benchmark(), ("'bias'", "set")),
        (lambda s: s.get_output(), ("'y'", "run")),
        (lambda s: s.get_output("x"), ("output 'x'", "y")),
        (lambda s: s.get_output(1), ("output 1",)),
        (lambda s: s.benchmark(number=0), ("one run",)),
    ],
)
def test_wrong_use_is_told(call: Callable[[Session], Any], named: tuple[object, ...]) -> None:
    live = session()
    with refused(SessionError, *named) as caught:
        call(live)
    assert isinstance(caught.value, UserError)
    assert "\n" not in str(caught.value)
    live.close()


def test_wrong_parts_are_told() -> None:
    with refused(SessionError, "'scale/1'", "given"):
        session(constants={})
    with refused(SessionError, "'scale/1'", "float32[1, 3]", "float32[2, 3]"):
        session(constants={"scale/1": SCALE[:1]})
    with refused(SessionError, "'scale_add'"):
        Session(PROGRAM, {}, {"scale/1": SCALE})


def test_no_output_after_a_failed_run() -> None:
    live = session()
    live.set_input(x=ONES, bias=ONES)
    live.run()
    live.get_output()

    def fail(*arguments: Any) -> None:
        raise RuntimeError("broken")

    broken = session(fail)
    broken.set_input(x=ONES, bias=ONES)
    with refused(KernelError, "'scale'", "'scale_add'", "broken"):
        broken.run()
    with refused(SessionError, "'y'"):
        broken.get_output()


def test_a_session_in_use_is_refused() -> None:
    sentences: list[str] = []

    def intrude(*arguments: Any) -> None:
        for call in (live.run, live.get_output, lambda: live.set_input("x", ONES)):
            with refused(SessionError, "thread") as caught:
                call()
            sentences.append(str(caught.value))

    live = session(intrude, executor="reference")
    live.set_input(x=ONES, bias=ONES)
    live.run()
    assert len(sentences) == 6


def test_random_inputs_fit() -> None:
    live = session()
    values = live.random_inputs(seed=3)
    assert values.keys() == {"x", "bias"}
    np.testing.assert_array_equal(values["x"], live.random_inputs(seed=3)["x"])
    assert not np.array_equal(values["x"], live.random_inputs(seed=4)["x"])
    live.run(**values)
    np.testing.assert_allclose(live.get_output(), values["x"] * 3 + values["bias"], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (7, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_buffers_are_aligned_and_zero(shape: tuple[int, ...], dtype: str) -> None:
    kept = [allocate(BufferType(shape, dtype)) for _ in range(5)]
    for array in kept:
        # An array of no elements has no first byte.
        assert array.size == 0 or array.ctypes.data % ALIGNMENT == 0
        assert (array.shape, str(array.dtype)) == (shape, dtype)
        assert not array.any()


def test_an_unknown_type_is_told() -> None:
    with refused(UserError, "'float3'"):
        allocate(BufferType((1,), "float3"))


def test_equal_constants_share_memory() -> None:
    base = np.arange(12, dtype="float32").reshape(3, 4)
    one = share_constant(base)
    assert share_constant(base.copy()) is one
    assert share_constant(one) is one
    assert share_constant(base.T.copy()) is not one
    assert share_constant(base.astype("float64")) is not one
    assert content_key(base) == content_key(np.asfortranarray(base))
    assert len({content_key(a) for a in (base, base.T, base + 1, base.reshape(4, 3))}) == 4
    assert one.ctypes.data % ALIGNMENT == 0


@pytest.mark.parametrize("name", ["t", "half of t"])
def test_outputs_and_inputs_in_the_arena_are_refused(name: str) -> None:
    buffers = (
        Buffer("t", IMAGE, Role.INTERMEDIATE),
        Buffer("half of t", IMAGE, Role.INTERMEDIATE, Part(0, 0, 0, 1)),
    )
    program = Program(((),), (), buffers, ())
    port = Port("result", name, IMAGE.shape, IMAGE.dtype)
    Session(program, {}, {}, [], [port])
    with refused(SessionError, "'result'", f"'{name}'"):
        Session(program, {}, {}, [], [port], plan=MemoryPlan(64, {0: 0}))
    with refused(ProgramError, "memory plan", "program"):
        Session(program, {}, {}, [], [], plan=MemoryPlan(64, {1: 0}))
