"""Relay modules saved as JSON, in Python and in the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from relay_passes.relay.saved_module import import_saved
from runtime_ext.build import build
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_commands import RELAY, command
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run
from tvm_ios.errors import ModelError, UserError
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.input_shapes import InputShapeError


def body(s: RelaySketch, x: Any) -> Any:
    return relay.nn.relu(s.bias(s.conv(x, 3, 4), 4))


def dynamic() -> tvm.IRModule:
    x, y = (relay.var(name, shape=(relay.Any(), 3, relay.Any())) for name in "xy")
    joined = relay.nn.relu(relay.concatenate([x, relay.exp(y)], axis=2))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], joined)))


def saved(module: Any, folder: Path) -> str:
    path = folder / "module.json"
    path.write_text(tvm.ir.save_json(module))
    return str(path)


def test_a_saved_module_computes_the_same(tmp_path: Path) -> None:
    module = module_of([(1, 3, 8, 8)], body)
    loaded = load_model(ModelSource(saved(module, tmp_path), dialect="relay"))
    assert (loaded.name, loaded.dialect.name) == ("module", "relay")
    session = build(IOSSchedule("sequential")(loaded.module), lanes=1).session()
    session.run(**inputs_of(module))
    assert relative_error([session.get_output()], run(module)) <= 1e-5


def test_dynamic_dimensions_become_those_given() -> None:
    made = import_saved(dynamic(), Path("m.json"), {"x": (2, 3, 5), "y": (2, 3, 10)})
    graph = prepare(made).units
    assert [graph.tensors[t].shape for t in graph.outputs] == [(2, 3, 15)]
    assert relative_error(run(made), run(same_operators(made))) == 0
    with refused(InputShapeError, "dimension 0", "--shape x:1,3,N2"):
        import_saved(dynamic(), Path("m.json"), {})


def same_operators(module: tvm.IRModule) -> tvm.IRModule:
    """The dynamic module's operators of a module's inputs."""
    x, y = (relay.var(p.name_hint, p.checked_type) for p in module["main"].params)
    joined = relay.nn.relu(relay.concatenate([x, relay.exp(y)], axis=2))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], joined)))


def test_the_commands_take_it(tmp_path: Path) -> None:
    path = saved(module_of([(1, 3, 8, 8)], body), tmp_path)
    found = command("schedule", path, *RELAY, "--cost", "v100", "--json")
    assert [stage["groups"] for stage in found["stages"]] == [[["conv2d_0"]]]


SLOW = [pytest.param(what, marks=pytest.mark.slow) for what in ("no-root", "constant")]


@pytest.mark.parametrize("what", ["no-nodes", "circle", *SLOW])
def test_damaged_modules_are_refused(what: str, tmp_path: Path) -> None:
    path = Path(saved(module_of([(1, 3, 8, 8)], body), tmp_path))
    data = json.loads(path.read_text())
    if what == "circle":
        here = next(i for i, n in enumerate(data["nodes"]) if n["type_key"] == "relay.Call")
        data["nodes"][here]["attrs"]["args"] = str(here)
    elif what == "no-nodes":
        data["nodes"] = []
    elif what == "no-root":
        del data["root"]
    else:
        data["b64ndarrays"] = [array[: len(array) // 2] for array in data["b64ndarrays"]]
    path.write_text(json.dumps(data))
    with pytest.raises(UserError) as caught:
        load_model(ModelSource(str(path), dialect="relay"))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_modules_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "relax.json"
    path.write_text(json.dumps({"nodes": [{"type": "relax.expr.Function"}], "root_index": 0}))
    with refused(ModelError, "Relax", "--dialect relay"):
        load_model(ModelSource(str(path), dialect="relay"))
    made = IOSSchedule("sequential")(module_of([(1, 3, 8, 8)], body))
    with refused(ModelError, "schedule"):
        load_model(ModelSource(saved(made, tmp_path), dialect="relay"))
