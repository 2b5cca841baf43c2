"""Outputs that are constants, inputs or nothing at all, and names of any kind, in Relay."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.execution import runtime_module
from runtime_ext.execution.executable import load
from runtime_ext.relay.build import build
from tests.interface_models import WHAT, require_outputs, write_interface_model
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.sequential import sequential_schedule


@pytest.mark.parametrize("what", WHAT)
def test_as_onnx_defines_them(what: str, tmp_path: Path) -> None:
    path, feeds, expected = write_interface_model(what, tmp_path)
    prepared = prepare(load_model(ModelSource(str(path), dialect="relay")).module)
    model = build(apply_schedule(prepared, sequential_schedule(prepared.units)), lanes=2)
    assert [port.name for port in model.inputs] == list(feeds)
    require_outputs(model.session(), feeds, expected)
    model.save(tmp_path / "out")
    require_outputs(load(tmp_path / "out").session(), feeds, expected)
    require_outputs(runtime_module.load_module(tmp_path / "out"), feeds, expected)
