"""Relax modules saved as JSON, and files that only look like them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.refusals import refused
from tests.relax.relax_sketch import module_of, run
from tvm_ios.errors import ModelError, UserError
from tvm_ios.models.source import ModelSource, read_json
from tvm_ios.policies.sequential import sequential_schedule


def small() -> tvm.IRModule:
    return module_of([(1, 3, 8, 8)], lambda s, x: s.emit(relax.op.nn.relu(s.bias(s.conv(x, 4)))))


def dynamic() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    n, width = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("w", "int64")
    x = relax.Var("x", relax.TensorType((n, 3, width), "float32"))
    y = relax.Var("y", relax.TensorType((n, 3, width * 2), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            joined = builder.emit(relax.op.concat([x, y], axis=2))
            result = builder.emit_output(relax.op.nn.relu(joined))
        builder.emit_func_output(result)
    return builder.finalize()


def saved(module: Any, folder: Path) -> str:
    path = folder / "module.json"
    path.write_text(tvm.ir.save_json(module))
    return str(path)


def test_a_saved_module_computes_the_same(tmp_path: Path) -> None:
    module = small()
    loaded = load_model(saved(module, tmp_path))
    assert loaded.name == "module"
    prepared = prepare(loaded.module, loaded.name)
    schedule = sequential_schedule(prepared.units)
    assert schedule is not None
    session = build(apply_schedule(prepared, schedule), lanes=1).session()
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8), dtype=np.float32)
    session.run(x0=x)
    (expected,) = run(module, [x])
    assert np.abs(session.get_output() - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.slow
def test_symbolic_dimensions_become_those_given(tmp_path: Path) -> None:
    path = saved(dynamic(), tmp_path)
    loaded = load_model(ModelSource(path, shapes={"x": (2, 3, 5), "y": (2, 3, 10)}))
    (operator, *_) = prepare(loaded.module).outliner.extraction.graph.operators
    assert operator.kind == "concat"


@pytest.mark.slow
def test_symbolic_dimensions_that_are_refused(tmp_path: Path) -> None:
    path = saved(dynamic(), tmp_path)
    with refused(ModelError, "dimension 0", "'n'", "--shape x:1,3,w"):
        load_model(path)
    with refused(ModelError, "[2, 3, 9]"):
        load_model(ModelSource(path, shapes={"x": (2, 3, 5), "y": (2, 3, 9)}))


def _nodes(change: Callable[[list[Any]], None]) -> Callable[[Any], None]:
    return lambda data: change(data["nodes"])


def _set(kind: str, key: str, value: Callable[[int], Any]) -> Callable[[Any], None]:
    def change(nodes: list[Any]) -> None:
        number = next(i for i, node in enumerate(nodes) if node["type"] == kind)
        nodes[number]["data"][key] = value(number)

    return _nodes(change)


DAMAGED: dict[str, Callable[[Any], None]] = {
    # Each of the first four ends a process that loads it.
    "circle": _set("relax.expr.SeqExpr", "body", lambda number: number),
    "later": _set("ir.Call", "args", lambda number: number + 1),
    "nothing": _set("relax.expr.VarBinding", "var", lambda number: 0),
    "no-type": _set("ir.Call", "ty", lambda number: 10**6),
    "dangling": _set("ir.Call", "op", lambda number: -1),
    "no-nodes": lambda data: data.update(nodes=[]),
    "not-nodes": lambda data: data.update(nodes=3),
    "no-root": lambda data: data.pop("root_index"),
    "other-root": lambda data: data.update(root_index="1"),
    "unknown-type": _nodes(lambda nodes: nodes[20].update(type="relax.Nothing")),
    "unknown-operator": _nodes(
        lambda nodes: [n.update(data="relax.magic") for n in nodes if n["type"] == "ir.Op"]
    ),
    "constant": _nodes(
        lambda nodes: [
            n["data"].update(ty=next(i for i, t in enumerate(nodes) if "TensorType" in t["type"]))
            for n in nodes
            if n["type"] == "ir.GenericConst"
        ]
    ),
}


#: Each takes a process of its own that imports TVM.
QUICK = ("circle", "no-nodes")


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in DAMAGED]
)
def test_damaged_modules_are_refused(case: str, tmp_path: Path) -> None:
    path = saved(small(), tmp_path)
    data = json.loads(Path(path).read_text())
    DAMAGED[case](data)
    Path(path).write_text(json.dumps(data))
    with pytest.raises(UserError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert path in str(caught.value) or "a constant" in str(caught.value)


def test_other_objects_of_tvm_are_no_modules(tmp_path: Path) -> None:
    with refused(ModelError, "module.json", "Relax"):
        load_model(saved(tvm.tirx.IntImm("int64", 3), tmp_path))


@pytest.mark.parametrize(
    "nodes",
    [[{"type_key": ""}, {"type_key": "relay.Function"}], [{"type": "relay.expr.Call"}]],
)
def test_relay_modules_are_refused(nodes: Any, tmp_path: Path) -> None:
    path = tmp_path / "relay.json"
    path.write_text(json.dumps({"root": 1, "nodes": nodes, "attrs": {"tvm_version": "0.18.0"}}))
    assert "root" in read_json(path)
    with refused(ModelError, "relay.json", "--dialect relay"):
        load_model(str(path))


def test_a_scheduled_module_is_refused(tmp_path: Path) -> None:
    path = saved(IOSSchedule("sequential")(small()), tmp_path)
    with refused(ModelError, "schedule"):
        load_model(path)


def test_random_weights_are_not_for_modules(tmp_path: Path) -> None:
    with refused(ModelError, "--random-weights"):
        load_model(ModelSource(saved(small(), tmp_path), random_weights=0))
