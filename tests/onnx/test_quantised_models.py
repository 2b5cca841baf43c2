"""Six quantised models: what becomes of each, beside ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.isa.isa import BYTES
from runtime_ext.isa.levels import isa_of
from runtime_ext.isa.x86 import V4
from runtime_ext.machine import this_machine
from tests.fast_run import only
from tests.onnx_sketch import kinds, run_on
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.sequential import sequential_schedule

pytest.importorskip("onnxruntime")

#: Units of each; what is element-wise is computed with what is before it.
UNITS = {
    "static, Q/DQ, per tensor": 11,
    "static, Q/DQ, per channel": 11,
    "static, QOperator": 11,
    "dynamic, MatMulInteger": 37,
    "dynamic, ConvInteger": 66,
    "dynamic, text": 61,
}


@pytest.mark.parametrize(
    "name", only(["static, Q/DQ, per channel", "dynamic, MatMulInteger"], UNITS)
)
def test_it_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    from tests.quantised_models import models

    original = onnx.load(models()[name](tmp_path))
    simple = simplify(original)
    left = {k for k in kinds(simple) if "Quantize" in k or "Integer" in k or k.startswith("Q")}
    assert not left
    prepared = prepare(import_onnx(simple), "quantised")
    assert prepared.units.fingerprint == prepare_units(simple)
    assert len(prepared.units) == UNITS[name]
    schedule = sequential_schedule(prepared.units)
    session = build(apply_schedule(prepared, schedule), lanes=1).session()
    for seed in range(3):
        feeds = session.random_inputs(seed)
        session.run(**feeds)
        (expected,) = run_on(original, feeds)
        difference = np.abs(session.get_output() - expected) / np.abs(expected).max()
        # Of a number just between two steps either may be taken, which the next layers carry on.
        assert difference.max() < 2e-2
        assert np.median(difference) < 1e-6


def test_what_is_rounded_is_computed_as_exactly_as_by_onnx_runtime(tmp_path: Path) -> None:
    """Of what trained networks compute: indices of zero and one would hide a difference."""
    from tests.quantised_models import WORDS, models

    original = onnx.load(models()["dynamic, text"](tmp_path))
    prepared = prepare(import_onnx(simplify(original)), "text")
    schedule = sequential_schedule(prepared.units)
    session = build(apply_schedule(prepared, schedule), lanes=1).session()
    largest: list[float] = []
    for seed in range(5):
        feeds = {"x": np.random.default_rng(seed).integers(0, *WORDS)}
        session.run(**feeds)
        (expected,) = run_on(original, feeds)
        difference = np.abs(session.get_output() - expected).max() / np.abs(expected).max()
        largest.append(float(difference))
    # A few are just between two steps.
    assert np.median(largest) < 5e-7
    assert max(largest) < 2e-2


def prepare_units(model: onnx.ModelProto) -> str:
    from tvm_ios.graph.units import form_units

    return form_units(graph_from_onnx(model, already_simplified=True)).fingerprint


def test_joins_and_pools_are_of_integers_and_sums_read_them_so(tmp_path: Path) -> None:
    from tests.quantised_models import models

    model = simplify(onnx.load(models()["static, Q/DQ, per channel"](tmp_path)))
    kinds = {op.kind for op in prepare(import_onnx(model), "quantised").units.operators}
    assert {"concat", "max_pool2d"} <= kinds
    # The sum belongs to the later convolution, and scales what both make as it reads.
    (total,) = (kind for kind in kinds if "+add+" in kind)
    assert total == ("conv2d+bias_add+multiply+round+clip+multiply+multiply+add+divide+round+clip")


def test_bytes_are_multiplied_where_the_processor_can(tmp_path: Path) -> None:
    """The target of a model that rounds has the instruction, and a built module finds the form."""
    from tests.quantised_models import models

    options = SearchOptions(lanes=2, cache=tmp_path)
    original = onnx.load(models()["static, Q/DQ, per channel"](tmp_path))
    prepared = prepare(import_onnx(simplify(original)), "quantised")
    units = RelaxUnits(prepared, options)
    compiler = units.backend.compiler
    if BYTES not in isa_of(compiler.target).products:
        pytest.skip("this machine has no VNNI")
    assert BYTES not in isa_of(options.resolved_target).products
    count = len(prepared.units)
    named = [u for u in range(count) if BYTES in compiler.rkernels(units.source((u,)))]
    assert len(named) > 3
    plain = sequential_schedule(prepared.units)
    sessions = [
        build(apply_schedule(prepared, schedule), lanes=2).session()
        for schedule in (plain, replace(plain, kernels=dict.fromkeys(named, BYTES)))
    ]
    inputs = sessions[0].random_inputs(0)
    for session in sessions:
        session.run(**inputs)
    usual, by_bytes = (session.get_output(0) for session in sessions)
    assert np.array_equal(usual, by_bytes)
    assert np.unique(usual).size > 9


def test_only_models_that_round_need_more_than_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "host_features", lambda: V4.features | {"avx512vnni"})
    options = SearchOptions(lanes=2)
    target = options.target_for(["conv2d+bias_add+round+clip"])
    assert BYTES in isa_of(target).products
    assert BYTES not in isa_of(options.target_for(["conv2d+bias_add+relu"])).products
    # What is given is taken.
    given = SearchOptions(lanes=2, target=this_machine.host_target(2, "x86-64-v4"))
    assert BYTES not in isa_of(given.target_for(["conv2d+round"])).products
