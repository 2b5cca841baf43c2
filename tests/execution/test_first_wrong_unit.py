"""A program whose kernels read other weights is compared unit by unit."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.first_wrong_unit import first_wrong_unit
from tvm_ios.contest.tolerance import Tolerance
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program import Launch


@pytest.fixture(scope="module")
def programs() -> tuple[BuiltModel, BuiltModel]:
    """Of the Inception block, one unit after another and by stages."""
    prepared = prepare(load_model("inception_block").module)
    greedy = greedy_schedule(prepared.units)
    assert greedy is not None
    sequential, staged = (
        build(apply_schedule(prepared, schedule), lanes=2)
        for schedule in (sequential_schedule(prepared.units), greedy)
    )
    return sequential, staged


def test_the_first_wrong_unit_is_named(programs: tuple[BuiltModel, BuiltModel]) -> None:
    sequential, staged = programs
    with closing(sequential.session()) as session:
        inputs = session.random_inputs(0)
    assert first_wrong_unit(sequential, staged, inputs, Tolerance(1e-3)) is None
    program = sequential.program
    unit = program.units.index("conv_4")
    launch = next(i for i in program.lanes[0] if isinstance(i, Launch) and i.unit == unit)
    used = {program.buffers[number].name for number in launch.buffers}
    constants = {
        name: array * np.float32(1.1) if name in used else array
        for name, array in staged.constants.items()
    }
    assert used & constants.keys()
    wrong = replace(staged, constants=constants)
    assert first_wrong_unit(sequential, wrong, inputs, Tolerance(1e-3)) == "conv_4"
