from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.session import Session
from tests.fast_run import examples
from tests.random_units import Case, cases, random_inputs
from tvm_ios.explain.one_after_another import one_after_another
from tvm_ios.explain.tasks import find_work
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.lower import lower
from tvm_ios.program.program import ProgramError


@examples(40)
@given(cases(), st.integers(1, 4), st.integers(0, 1000))
def test_it_computes_the_same_unit_after_unit(case: Case, lanes: int, seed: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    rival = one_after_another(find_work(program))
    assert len(rival.lanes) == lanes
    session = Session(rival, case.functions(), case.constants, executor="reference", seed=seed)
    session.run(**random_inputs(case.graph, 7))
    for name, value in case.expected(random_inputs(case.graph, 7)).items():
        np.testing.assert_array_equal(session.get_output(name), value)
    # Each kernel's tiles are spread over as many lanes as it can use.
    tiles: dict[tuple[int, str], list[tuple[int, range]]] = {}
    for lane, _, _, launch in ordered_launches(rival):
        key = (launch.unit, rival.kernels[launch.kernel])
        tiles.setdefault(key, []).append((lane, range(launch.begin, launch.end)))
    for (_, kernel), shares in tiles.items():
        whole = rival.uses[rival.kernels.index(kernel)].tiles
        assert sorted(t for _, share in shares for t in share) == list(range(whole))
        assert len({lane for lane, _ in shares}) == max(1, min(lanes, whole))


@given(cases())
def test_a_program_that_does_not_say_what_it_writes_is_refused(case: Case) -> None:
    program = lower(case.graph, case.schedule_on(1), case.code, case.merged, lanes=1)
    with pytest.raises(ProgramError):
        one_after_another(find_work(replace(program, uses=())))
