import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_units import VECTOR, Case, cases
from tests.refusals import refused
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, ProgramError, Role, Wait
from tvm_ios.program.program_json import program_from_json, program_to_json

BUFFERS = (Buffer("x", VECTOR, Role.INTERMEDIATE),)
LAUNCH = Launch(0, (0,), 0, 4, 0)


def program(*lanes: tuple[Launch | Wait, ...]) -> Program:
    return Program(lanes, ("k",), BUFFERS, ("u",))


@given(cases(), st.integers(1, 4))
def test_json_round_trip(case: Case, lanes: int) -> None:
    lowered = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    assert program_from_json(json.loads(json.dumps(program_to_json(lowered)))) == lowered


@pytest.mark.parametrize(
    "lanes",
    [
        [(Wait(1, 1), LAUNCH), (Wait(0, 1), LAUNCH)],
        [(Wait(0, 1), LAUNCH)],
        [(LAUNCH, Wait(1, 1)), (Wait(2, 1), LAUNCH), (Wait(1, 1), LAUNCH)],
    ],
)
def test_cyclic_waits_are_rejected(lanes: list[tuple[Launch | Wait, ...]]) -> None:
    with refused(ProgramError, "lane 0", "cycle"):
        program(*lanes)


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (Wait(2, 0), "lane 2"),
        (Wait(-1, 0), "lane -1"),
        (Wait(1, 2), "launch 2 of lane 1"),
        (Wait(1, -1), "launch -1"),
        (Launch(1, (0,), 0, 4, 0), "kernel 1"),
        (Launch(0, (1,), 0, 4, 0), "buffer"),
        (Launch(0, (-1,), 0, 4, 0), "buffer"),
        (Launch(0, (0,), 3, 2, 0), "3, 2"),
        (Launch(0, (0,), -1, 2, 0), "-1, 2"),
        (Launch(0, (0,), 0, 4, 1), "unit 1"),
    ],
)
def test_dangling_items_are_rejected(item: Launch | Wait, named: str) -> None:
    with refused(ProgramError, "lane 0", named):
        program((item,), (LAUNCH,))


def test_malformed_json_is_rejected() -> None:
    good = program_to_json(program((LAUNCH,), (Wait(0, 1), LAUNCH)))
    program_from_json(good)
    for key in good:
        lacking = copy.deepcopy(good)
        del lacking[key]
        with pytest.raises(ProgramError):
            program_from_json(lacking)
    for key, value in {"version": 1, "lanes": [[["launch", 0]]], "buffers": [["x"]]}.items():
        with pytest.raises(ProgramError):
            program_from_json(good | {key: value})


USES = {
    "tiles": ((0, 5), {}, ("tiles 0 to 5", "'k'", 4)),
    "buffers": ((0, 4), {"arguments": 2}, ("1 buffers", "'k'", 2)),
    "input": ((0, 4), {"role": Role.INPUT}, ("lane 0", "input 'x'")),
    "constant": ((0, 4), {"role": Role.CONSTANT}, ("lane 0", "constant 'x'")),
    "argument": ((0, 4), {"writes": (1,)}, ("argument",)),
}


@pytest.mark.parametrize("case", USES)
def test_a_launch_that_its_kernel_does_not_allow(case: str) -> None:
    (begin, end), changes, named = USES[case]
    buffers = (Buffer("x", VECTOR, changes.get("role", Role.OUTPUT)),)
    use = KernelUse(4, changes.get("arguments", 1), changes.get("writes", (0,)))
    with refused(ProgramError, *named):
        Program(((Launch(0, (0,), begin, end, 0),),), ("k",), buffers, ("u",), (use,))


def test_every_kernel_says_how_it_may_be_launched() -> None:
    with refused(ProgramError, "every kernel"):
        Program(((LAUNCH,),), ("k", "l"), BUFFERS, ("u",), (KernelUse(4, 1, (0,)),))


@given(cases(), st.integers(1, 4))
def test_lowered_programs_prove_themselves_free_of_races(case: Case, lanes: int) -> None:
    lowered = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    assert len(lowered.uses) == len(lowered.kernels)
    check_races(lowered)


def test_names_of_buffers_are_unique() -> None:
    data = program_to_json(program((LAUNCH,)))
    data["buffers"] = data["buffers"] * 2
    with refused(ProgramError, "one name"):
        program_from_json(data)
