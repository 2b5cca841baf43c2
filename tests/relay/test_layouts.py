"""Layouts: no transform between units that agree, and the same results whatever they are."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes import SearchOptions
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, for_target, prepare
from relay_passes.prepared import Prepared
from relay_passes.relay.target_units import RelayUnits
from runtime_ext.relay.library import host_target
from tests.fast_run import one_in
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import RelaySketch, branches, module_of, run
from tests.relay.relay_text import filecheck
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule

AVX512 = tvm.target.Target("llvm -mcpu=skylake-avx512")


def _prepared(module: tvm.IRModule, target: Any = AVX512) -> Prepared:
    return for_target(prepare(module), SearchOptions(lanes=2, target=target))


def _stack(s: RelaySketch, x: Any) -> Any:
    y = relay.nn.relu(s.bias(s.conv(x, 16, 32), 32))
    y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
    low, high = relay.nn.relu(s.conv(y, 32, 16)), s.norm(s.conv(y, 32, 32, (1, 1)), 32)
    return s.conv(relay.concatenate([low, high], axis=1), 48, 16)


def test_only_the_input_and_the_output_are_transformed(tmp_path: Path) -> None:
    prepared = _prepared(module_of([(1, 16, 8, 8)], _stack))
    checks = """
    CHECK: fn (%x0: f32(1, 16, 8, 8)) -> f32(1, 16, 4, 4) {
    CHECK: layout_transform(%p0{{.*}}, src_layout="NCHW", dst_layout="NCHW16c")
    CHECK: f32(2, 1, 3, 3, 16, 16), %p2{{.*}}: f32(1, 2, 1, 1, 16)
    CHECK-NOT: layout_transform
    CHECK: nn.contrib_conv2d_NCHWc(
    CHECK: nn.relu(
    CHECK: let %conv2d_0_1: f32(1, 2, 8, 8, 16)
    CHECK: nn.max_pool2d({{.*}}layout="NCHW16c"
    CHECK: nn.contrib_conv2d_NCHWc(
    CHECK: nn.contrib_conv2d_NCHWc(
    CHECK: concatenate(
    CHECK: nn.contrib_conv2d_NCHWc(
    CHECK: layout_transform({{.*}}, src_layout="NCHW16c", dst_layout="NCHW")
    CHECK-NOT: layout_transform
    """
    filecheck(apply_schedule(prepared, sequential_schedule(prepared.units)), checks, tmp_path)


def _disagreeing(s: RelaySketch, x: Any, cuts: Any = (3, 6)) -> Any:
    """One tensor read in blocks of 16 and of 3 channels, unblocked, and returned."""
    y = relay.nn.relu(s.conv(x, 16, 48))
    parts = relay.split(y, cuts, axis=1)
    thirds = [s.conv(parts[0], 3, 16), s.conv(parts[1], 3, 16)]
    flat = relay.nn.softmax(relay.nn.batch_flatten(y))
    grouped = s.conv(y, 48, 48, groups=48)
    return relay.concatenate([*thirds, s.conv(y, 48, 16)], axis=1), flat, y, grouped


@pytest.mark.parametrize(
    ("body", "channels"), one_in(2, [(_disagreeing, 16), (branches, 3)], several=True)
)
def test_results_are_the_same(body: Any, channels: int) -> None:
    module = module_of([(1, channels, 6, 6)], body)
    prepared = _prepared(module, host_target(2))
    made = apply_schedule(prepared, greedy_schedule(prepared.units))
    assert relative_error(run(made), run(module)) <= 1e-5


def test_equal_parts_of_blocks_that_they_do_not_divide() -> None:
    """TVM alone fails to build this."""
    module = module_of([(1, 16, 6, 6)], lambda s, x: _disagreeing(s, x, 16))
    prepared = _prepared(module)
    made = apply_schedule(prepared, sequential_schedule(prepared.units))
    assert "indices_or_sections=[3, 6, 9," in made["main"].astext(show_meta_data=False)


def test_a_gpu_has_the_layouts_of_the_model() -> None:
    prepared = _prepared(module_of([(1, 16, 8, 8)], _stack), "cuda -arch=sm_80")
    made = apply_schedule(prepared, sequential_schedule(prepared.units))
    assert "NCHWc" not in made["main"].astext(show_meta_data=False)


def test_what_is_measured_fits_together(tmp_path: Path) -> None:
    def wide(s: RelaySketch, x: Any) -> Any:
        y = s.conv(x, 16, 16)
        parts = [relay.nn.relu(s.conv(y, 16, n, (k, k))) for n, k in ((16, 3), (32, 1))]
        return s.conv(relay.concatenate([*parts, y], axis=1), 64, 16)

    options = SearchOptions(lanes=2, target=AVX512, cache=tmp_path)
    search = MeasuredModule(RelayUnits(prepare(module_of([(1, 16, 8, 8)], wide)), options))
    graph = search.prepared.units
    merged = search.units.source(
        next(p for p in combinations(range(len(graph)), 2) if mergeable(graph, p))
    )
    kinds = {}
    for unit in range(len(graph)):
        made = search.units.source((unit,))
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(made.function))["main"]
        kinds |= {t: p.checked_type for t, p in zip(made.data, typed.params, strict=False)}
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(merged.function))["main"]
    returned = typed.ret_type.fields
    assert [str(kinds[t]) for t in merged.outputs] == [str(kind) for kind in returned]
    assert str(kinds[merged.data[0]]) == str(typed.params[0].checked_type)
    assert "layout_transform" not in str(typed)
