"""Outputs that are constants, inputs or nothing at all, and names of any kind, however they run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.execution import runtime_module
from runtime_ext.execution.executable import load
from tests.interface_models import WHAT, require_outputs, write_interface_model
from tvm_ios.policies.sequential import sequential_schedule


@pytest.mark.parametrize("what", WHAT)
def test_a_scheduled_module_that_was_saved(what: str, tmp_path: Path) -> None:
    path, feeds, expected = write_interface_model(what, tmp_path)
    prepared = prepare(load_model(path).module)
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    model = build(tvm.ir.load_json(tvm.ir.save_json(module)), lanes=2)
    assert [port.name for port in model.inputs] == list(feeds)
    for executor in ("native", "reference", "poisoning"):
        require_outputs(model.session(executor=executor), feeds, expected)


@pytest.mark.parametrize("what", WHAT)
def test_an_executable_and_its_module_in_cpp(what: str, tmp_path: Path) -> None:
    path, feeds, expected = write_interface_model(what, tmp_path)
    prepared = prepare(load_model(path).module)
    units = RelaxUnits(prepared, SearchOptions(lanes=2, cache=tmp_path / "cache"))
    units.build(sequential_schedule(prepared.units)).save(tmp_path / "out")
    require_outputs(load(tmp_path / "out").session(), feeds, expected)
    module = runtime_module.load_module(tmp_path / "out")
    assert module.get_input_names() == list(feeds)
    assert module.get_num_outputs() == len(expected)
    require_outputs(module, feeds, expected)
