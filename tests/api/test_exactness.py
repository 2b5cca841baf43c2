"""Forms that round more: kept where a program is exact enough, or none would be more exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.cpu import device as cpu_device
from runtime_ext.execution.model_session import random_values
from tests.onnx_sketch import Sketch
from tvm_ios.api import exactness
from tvm_ios.api.candidates import Candidates, build_candidates
from tvm_ios.api.exactness import INEXACT, exact_enough, leave_out_inexact
from tvm_ios.contest.outputs import Reference, Sample
from tvm_ios.files.array_files import Array
from tvm_ios.progress import silent

FORM = "winograd-6"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeasuredModule[RelaxUnits]:
    """A convolution, of which no form is faster than another."""
    monkeypatch.setattr(cpu_device, "time_program", lambda *_: [1e-3] * 3)
    sketch = Sketch(1, 32, 18, 18)
    convolved = sketch.op("Conv", "x", sketch.normal(32, 32, 3, 3), pads=[1, 1, 1, 1])
    prepared = prepare(import_onnx(sketch.model(convolved)))
    return MeasuredModule(RelaxUnits(prepared, SearchOptions(lanes=1, cache=tmp_path)))


def filtered(module: MeasuredModule[RelaxUnits]) -> tuple[Candidates, dict[str, Array], Array]:
    """The program with the form; an input, and what the program without it makes of that."""
    schedule = module.search.find("sequential").schedule
    (convolution,) = schedule.stages[0].units
    direct = module.build(schedule)
    inputs = random_values(direct.inputs)
    session = direct.session()
    session.run(**inputs)
    named = {"sequential": replace(schedule, kernels={convolution: FORM})}
    return build_candidates(module, named, silent), inputs, session.get_output(0)


def kept(module: MeasuredModule[RelaxUnits], candidates: Candidates, reference: Reference) -> bool:
    after, sentences = exact_enough(module, candidates, reference, silent)
    uses = FORM in after.schedules["sequential"].kernels.values()
    assert any(FORM in sentence for sentence in sentences) is not uses
    return uses


@pytest.mark.parametrize(("largest", "stays"), [(1e-4, True), (1e-9, False)])
def test_a_form_is_taken_back_where_it_rounds_too_much(
    module: MeasuredModule[RelaxUnits], monkeypatch: pytest.MonkeyPatch, largest: float, stays: bool
) -> None:
    monkeypatch.setattr(exactness, "LARGEST", largest)
    candidates, inputs, direct = filtered(module)
    assert kept(module, candidates, Reference([Sample(inputs, [direct])])) is stays


def test_a_form_stays_where_the_reference_differs_as_much_from_direct_ones(
    module: MeasuredModule[RelaxUnits],
) -> None:
    candidates, inputs, direct = filtered(module)
    largest = int(np.abs(direct).argmax())
    rounded = direct.copy()
    rounded.flat[largest] *= 1 + 2e-4
    assert kept(module, candidates, Reference([Sample(inputs, [rounded])]))


class _WrongIntegers:
    """Programs whose integers are wrong with forms and without them."""

    def __init__(self) -> None:
        self.forms = [FORM]

    def uses(self, names: Sequence[str]) -> bool:
        return not set(names).isdisjoint(self.forms)

    def error(self) -> float:
        return inf

    def direct_error(self) -> float:
        return inf

    def leave_out(self, name: str) -> None:
        self.forms.remove(name)


def test_wrong_integers_of_direct_programs_allow_no_form() -> None:
    programs = _WrongIntegers()
    told = leave_out_inexact(programs, Reference([Sample({}, [np.zeros(1)])]))
    assert programs.forms == []
    assert told.startswith(INEXACT[0])
    assert "integers" in told
