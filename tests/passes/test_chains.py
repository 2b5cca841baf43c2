"""Chains of units: chosen by measuring, one function of the module, saved, and the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.cpu import device as cpu_device
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.executable import load
from runtime_ext.ir_form import CHAIN, UNIT
from tests.relax.relax_sketch import LANES, RelaxSketch, inputs_of, module_of, outputs_of, run
from tvm_ios.program.program import Program, Role
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages


def bottlenecks(s: RelaxSketch, x: Any) -> Any:
    """Two inverted residuals, each of three units."""
    for _ in range(2):
        wide = s.emit(relax.op.nn.relu(s.bias(s.conv(x, 48, (1, 1)))))
        reduced = s.emit(relax.op.nn.relu(s.bias(s.conv(wide, 48, groups=48))))
        x = s.emit(relax.op.add(x, s.bias(s.conv(reduced, 12, (1, 1)))))
    return x


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 12, 14, 15)], bottlenecks)


@pytest.fixture(scope="module")
def prepared(module: tvm.IRModule) -> Prepared:
    network = prepare(module)
    assert len(network.units) == 6
    return network


def by_hand(prepared: Prepared, *chains: tuple[int, ...]) -> Schedule:
    units = tuple(range(len(prepared.units)))
    stages = (Stage(Strategy.CONCURRENT, (units,)),)
    return Schedule(prepared.units.fingerprint, stages, "by hand", chains=chains)


def handed_on(model: BuiltModel) -> set[tuple[int, ...]]:
    roles = (Role.INTERMEDIATE, Role.SCRATCH)
    return {buffer.type.shape for buffer in model.program.buffers if buffer.role in roles}


@pytest.mark.parametrize("chains", [((0, 1),), ((1, 2), (3, 4))])
def test_a_chain_is_one_unit_of_the_module(
    prepared: Prepared, module: tvm.IRModule, chains: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    apart = build(apply_schedule(prepared, by_hand(prepared)), lanes=LANES)
    scheduled = apply_schedule(prepared, by_hand(prepared, *chains))
    marked = [
        str(function.attrs[UNIT])
        for _, function in scheduled.functions_items()
        if function.attrs and CHAIN in function.attrs
    ]
    names = [op.name for op in prepared.units.operators]
    assert sorted(marked) == sorted("+".join(names[unit] for unit in chain) for chain in chains)
    model = build(scheduled, lanes=LANES)
    assert set(marked) <= set(model.program.units)
    inputs = inputs_of(module)
    for executor in ("native", "reference"):
        assert [a.tobytes() for a in outputs_of(model, inputs, executor=executor)] == [
            a.tobytes() for a in outputs_of(apart, inputs)
        ]
    assert len(model.program.buffers) == len(apart.program.buffers) - len(chains)
    assert model.memory.plan.nbytes <= apart.memory.plan.nbytes
    # TVM alone compiles the module, and so does who reads its text back.
    (expected,) = run(scheduled, inputs)
    (ours,) = outputs_of(model, inputs)
    assert abs(expected - ours).max() <= 1e-4 * abs(expected).max()
    read_again: Any = tvm.ir.load_json(tvm.ir.save_json(scheduled))
    again = build(read_again, lanes=LANES)
    assert again.program == model.program
    model.save(tmp_path / "model.ios")
    (saved,) = outputs_of(load(tmp_path / "model.ios"), inputs)
    assert saved.tobytes() == ours.tobytes()


def test_without_the_wide_tensor_the_arena_is_smaller(prepared: Prepared) -> None:
    apart = build(apply_schedule(prepared, by_hand(prepared)), lanes=1)
    chained = build(apply_schedule(prepared, by_hand(prepared, (0, 1), (3, 4))), lanes=1)
    assert (1, 14, 15, 48) in handed_on(apart)
    assert chained.memory.plan.nbytes < 0.7 * apart.memory.plan.nbytes


def searching(prepared: Prepared, cache: Path, **options: Any) -> MeasuredModule[RelaxUnits]:
    return MeasuredModule(RelaxUnits(prepared, SearchOptions(lanes=LANES, cache=cache, **options)))


def test_chains_are_those_that_are_measured_to_be_faster(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[str] = []

    def fake(program: Program, function: Any) -> list[float]:
        """A launch takes 1 ms; as chains the second and third units of each block take less."""
        several = [name for name in program.units if "+" in name]
        joined.extend(several)
        names = [op.name for op in prepared.units.operators]
        slow = {"+".join(names[i : i + 2]) for i in (0, 2, 3)}
        return [1e-3 * len(program.units) * (2.5 if slow & {*several} else 1.0)] * 3

    monkeypatch.setattr(cpu_device, "time_program", fake)
    search = searching(prepared, tmp_path).search
    schedule = search.find("sequential").schedule
    assert schedule.chains == ((1, 2), (4, 5))
    assert sorted(len(stage.units) for stage in schedule.stages) == [1, 1, 2, 2]
    names = [op.name for op in prepared.units.operators]
    # The third unit's result is read by a sum of the second block, too.
    assert joined == ["+".join(names[i : i + 2]) for i in (0, 1, 3, 4)]
    without = searching(prepared, tmp_path, chains=False).search.find("sequential").schedule
    assert (without.stages, without.chains) == (sequential_stages(prepared.units), ())

    # The log remembers both ways.
    monkeypatch.setattr(cpu_device, "time_program", lambda *_: pytest.fail("it was measured"))
    assert searching(prepared, tmp_path).search.find("sequential").schedule == schedule


def attention(s: RelaxSketch, x: Any, *masks: Any) -> Any:
    """Three heads of tokens that look at each other, as an exporter writes it."""
    op, (batch, tokens, width) = relax.op, (int(extent) for extent in x.ty.shape)

    def heads(order: tuple[int, ...]) -> Any:
        made = s.emit(op.matmul(x, s.normal(width, width)))
        parts = s.emit(op.reshape(made, (batch, tokens, 3, width // 3)))
        return s.emit(op.permute_dims(parts, order))

    query, key = heads((0, 2, 1, 3)), heads((0, 2, 3, 1))
    scores = s.emit(op.divide(s.emit(op.matmul(query, key)), relax.const(2.0)))
    for mask in masks:
        scores = s.emit(op.add(scores, mask))
    weights = s.emit(op.nn.softmax(scores, axis=-1))
    seen = s.emit(op.matmul(weights, heads((0, 2, 1, 3))))
    joined = s.emit(op.reshape(s.emit(op.permute_dims(seen, [0, 2, 1, 3])), x.ty.shape))
    return s.emit(op.add(x, s.emit(op.matmul(joined, s.normal(width, width)))))


@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_a_chain_around_the_values_of_its_tokens(
    masked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit that makes the values stands between the chain's; it runs before all of these."""
    module = module_of([(2, 33, 12), (2, 1, 1, 33)][: 1 + masked], attention)
    network = prepare(module)
    number_of = {op.kind: number for number, op in enumerate(network.units.operators)}
    scores = ["matmul+divide", "add+softmax"] if masked else ["matmul+divide+softmax"]
    chain = tuple(number_of[kind] for kind in (*scores, "matmul+transpose+reshape"))
    values = number_of["dense+reshape+transpose"]
    assert chain[-2] < values < chain[-1]

    def fake(program: Program, _: Any) -> list[float]:
        return [1e-3 * len(program.units)] * 3

    monkeypatch.setattr(cpu_device, "time_program", fake)
    schedule = searching(network, tmp_path).search.find("sequential").schedule
    assert schedule.chains == (chain,)
    assert any((values, *chain) in stage.groups for stage in schedule.stages)
    apart = Schedule(network.units.fingerprint, sequential_stages(network.units), "by hand")
    inputs = inputs_of(module)
    inputs[1:] = [np.where(a > 1, -np.inf, a).astype(np.float32) for a in inputs[1:]]
    outputs = [
        outputs_of(build(apply_schedule(network, each), lanes=LANES), inputs)[0]
        for each in (schedule, apart)
    ]
    assert outputs[0].tobytes() == outputs[1].tobytes()
    (expected,) = run(module, inputs)
    assert abs(expected - outputs[0]).max() <= 1e-4 * abs(expected).max()
