"""Kernels of several operators: their CUDA C++ run on the CPU, and compiled for a GPU."""

from __future__ import annotations

import importlib
import re
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.cuda.machine_code.nvrtc import compile_cubin
from runtime_ext.cuda.persistent.fused_kernel import FusedKernel, fuse, vdevice
from runtime_ext.cuda.persistent.fused_source import VOLATILE
from runtime_ext.cuda.persistent.rtask import rtask_function
from tests.cuda.fused_harness import Network, OnCpu, fused, kernel_of, network, relax
from tests.cuda.nvrtc_kernels import RING, ring_functions, ring_program, run_ring
from tests.fast_run import is_fast
from tests.graph_sketch import GraphSketch
from tests.refusals import refused
from tvm_ios.devices.device import load_device
from tvm_ios.devices.occupancy import OccupancyError, multiprocessor_of, resident_blocks
from tvm_ios.program.persistent import PersistentProgram
from tvm_ios.program.persistent_lowering import lower_persistent
from tvm_ios.program.program import BufferType, PhaseCall, Role, UnitCode
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.stage import Stage, Strategy

op = relax.op
VEUS = 5


def inception(emit: Any, x: Any, w1: Any, w3: Any, w5: Any) -> list[Any]:
    """Three branches: 1x1; 1x1 and 3x3; pool. They meet in a concatenation and a softmax."""
    first = emit(op.nn.relu(emit(op.nn.conv2d(x, w1))))
    second = emit(op.nn.conv2d(first, w3, padding=1))
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
    third = emit(op.nn.conv2d(pooled, w5))
    joined = emit(op.concat([first, second, third], axis=1))
    rows = emit(op.reshape(joined, (24, 49)))
    return [emit(op.nn.softmax(rows, axis=-1)), second]


@pytest.fixture(scope="module")
def block() -> Network:
    return network([(1, 8, 7, 7), (8, 8, 1, 1), (8, 8, 3, 3), (8, 8, 1, 1)], inception)


@pytest.fixture(scope="module")
def made(block: Network) -> FusedKernel:
    return fused(lowered(block), block.kernels, load_device("h200"))


@pytest.fixture(scope="module")
def on_cpu(made: FusedKernel, tmp_path_factory: pytest.TempPathFactory) -> OnCpu:
    return OnCpu(made.kernel.source, made, tmp_path_factory.mktemp("fused"))


def lowered(net: Network, lanes: int = VEUS, seed: int = 0) -> PersistentProgram:
    stage = replace(net.stage, placement=net.placement(lanes, seed))
    return lower_persistent(net.graph, stage, net.code, lanes=lanes)


def check(net: Network, program: PersistentProgram, run: OnCpu, seed: int) -> None:
    found = run(program, net.inputs, seed)
    for name, value in net.expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)


def test_persistent_kernel_computes_the_network(
    block: Network, made: FusedKernel, on_cpu: OnCpu
) -> None:
    program = lowered(block)
    assert made.table is not None
    assert made.launchable.cleared == (len(made.buffers) + 1,)
    assert made.kernel.grid == (VEUS, 1, 1)
    assert made.kernel.block[0] == max(k.threads for k in block.kernels.values())
    for seed in range(2 if is_fast() else 4):
        check(block, program, on_cpu, seed)


@pytest.mark.slow
def test_a_dropped_wait_is_a_wrong_result_or_a_kernel_that_stands_still(
    block: Network, made: FusedKernel, tmp_path: Path
) -> None:
    program = lowered(block)
    waiting = "if (step.first_wait < step.last_wait) {"
    assert waiting in made.kernel.source
    # The operator whose waits are dropped: the 3x3 convolution, which reads the 1x1's result.
    broken = made.kernel.source.replace(waiting, waiting.replace(") {", " && step.of != 1) {"))
    run = OnCpu(broken, made, tmp_path)

    def wrong(seed: int) -> bool:
        try:
            check(block, program, run, seed)
        except AssertionError:
            return True
        return False

    assert any(map(wrong, range(20)))


@pytest.mark.slow
def test_a_wait_for_what_never_comes_stands_still(
    block: Network, made: FusedKernel, tmp_path: Path
) -> None:
    program = lowered(block)
    silent = made.kernel.source.replace("count_step(steps + lane, ++made)", ";")
    with pytest.raises(AssertionError, match="stand still"):
        OnCpu(silent, made, tmp_path)(program, block.inputs, 0)


def side_by_side(emit: Any, x: Any, w: Any) -> list[Any]:
    """Kernels of 128 and of more threads that do not read from each other."""
    return [emit(op.nn.conv2d(x, w)), emit(op.sigmoid(x)), emit(op.nn.max_pool2d(x, (1, 1)))]


@pytest.mark.slow
def test_without_dependences_each_rtask_is_a_block(tmp_path: Path) -> None:
    net = network([(1, 8, 7, 7), (16, 8, 1, 1)], side_by_side)
    program = lowered(net)
    assert program.independent
    made = fused(program, net.kernels, load_device("h200"))
    assert made.table is None
    assert not made.launchable.cleared
    assert made.kernel.blocks == sum(k.blocks for k in net.kernels.values())
    assert len(made.kernel.parameters) == len(made.buffers) == 5
    run = OnCpu(made.kernel.source, made, tmp_path)
    for seed in range(3):
        check(net, program, run, seed)


def test_one_kernel_serves_all_placements(block: Network, made: FusedKernel, on_cpu: OnCpu) -> None:
    run = copy(on_cpu)
    for seed in range(1, 3 if is_fast() else 4):
        program = lowered(block, seed=seed)
        other = fused(program, block.kernels, load_device("h200"))
        assert other.kernel.symbol == made.kernel.symbol
        assert other.table != made.table
        run.fused = other
        check(block, program, run, seed)
    fewer = fused(lowered(block, lanes=2), block.kernels, load_device("h200"))
    assert fewer.kernel.source == made.kernel.source
    assert fewer.kernel.symbol != made.kernel.symbol, "its grid is another one"


def test_without_scoped_accesses_blocks_wait_by_volatile_ones(made: FusedKernel) -> None:
    def ptx(source: str) -> str:
        return compile_cubin(source, "compute_90").code.decode()

    scoped, volatile = (
        ptx(made.kernel.source),
        ptx(f"#define {VOLATILE}\n{made.kernel.source}"),
    )
    unknown = ("relaxed.gpu", "fence.acq_rel", "nanosleep", "trap;")
    assert all(word in scoped for word in unknown)
    assert not any(word in volatile for word in unknown)
    assert all(w in volatile for w in ("ld.volatile.global", "st.volatile.global", "membar.gl"))


def test_operators_of_equal_code_share_it() -> None:
    def twice(emit: Any, x: Any, w: Any) -> list[Any]:
        return [emit(op.nn.conv2d(emit(op.nn.conv2d(x, w, padding=1)), w, padding=1))]

    net = network([(1, 8, 7, 7), (8, 8, 3, 3)], twice)
    program = lowered(net)
    assert (len(program.operators), len(program.kernels)) == (2, 1)
    made = fused(program, net.kernels, load_device("h200"))
    assert made.kernel.source.count("__forceinline__ void rtask_") == 1
    assert "case 1: a0 = " in made.kernel.source


def test_what_a_block_takes_is_the_most_that_an_operator_takes(
    block: Network, made: FusedKernel
) -> None:
    functions = [
        rtask_function(kernel.scheduled, f"rtask_{i}", "sm_90")
        for i, kernel in enumerate(block.kernels.values())
    ]
    assert made.kernel.dynamic_shared_bytes == max(f.shared_bytes for f in functions) > 0
    assert made.kernel.static_shared_bytes == 0
    assert made.kernel.threads == max(f.threads for f in functions)


def test_results_of_other_blocks_are_not_read_through_the_cache_of_constants(
    made: FusedKernel,
) -> None:
    """The compiler may not take for constant what the kernel writes: ``ld.global.nc``."""
    text = ptx(made.kernel.source, "compute_90")
    loads = set(re.findall(r"ld\.global[.\w]*", text))
    # The table is constant.
    assert {load for load in loads if ".nc" in load} <= {"ld.global.nc.u32"}
    assert any("f32" in load for load in loads)
    assert re.search(r"bar(rier)?\.(cta\.)?sync\s+1, ", text)
    assert text.count("fence.acq_rel.gpu") == 2


def ptx(source: str, arch: str) -> str:
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    (error,) = nvrtc.nvrtcCompileProgram(program, 2, [f"-arch={arch}".encode(), b"-std=c++17"])
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


def test_more_veus_than_the_gpu_holds_are_refused(block: Network) -> None:
    device = load_device("h200")
    small = replace(device, processors=1)
    with refused(OccupancyError, "vEUs"):
        fused(lowered(block, lanes=64), block.kernels, small)
    footprints = [kernel.footprint for kernel in block.kernels.values()]
    assert vdevice(footprints, device) % 132 == 0


@pytest.mark.slow
def test_threads_that_fill_no_warps_wait_but_do_nothing(tmp_path: Path) -> None:
    """A kernel of 48 threads that reverse a row through shared memory, beside one of 128."""
    rows, threads = 3, 48
    code = ThreadCode(rows, threads)
    source, target = (
        tirx.decl_buffer((rows * threads,), "float32", "a"),
        tirx.decl_buffer((rows * threads,), "float32", "b"),
    )
    held = code.shared("held", threads)
    here = code.block * threads

    def copy(to: Any, place: Any, of: Any, index: Any) -> None:
        code.append(tirx.BufferStore(to, tirx.BufferLoad(of, [index]), [place]))

    copy(held, code.thread, source, here + code.thread)
    code.synchronise()
    copy(target, here + code.thread, held, threads - 1 - code.thread)
    scheduled = code.kernel([source, target])
    function = rtask_function(scheduled, "reverse", "sm_90")
    assert (function.tasks, function.threads) == (rows, 64)
    assert function.source.count("if (thread < 48)") == 2
    kernel = kernel_of("reverse", scheduled)
    vector = BufferType((rows * threads,))
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("reverse", sketch.op("reverse", 0)))
    codes = {
        unit: UnitCode((vector,) * 2, 1, (), (PhaseCall("reverse", rows, (0, 1)),))
        for unit in range(2)
    }
    shares = tuple(Share(unit, 0, row, row, row + 1) for unit in range(2) for row in range(rows))
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1),), placement=shares)
    program = lower_persistent(graph, stage, codes, lanes=rows)
    made = fused(program, {"reverse": kernel}, load_device("h200"))
    given = np.arange(rows * threads, dtype="float32")
    (name,) = (b.name for b in program.buffers if b.role is Role.INPUT)
    (result,) = (b.name for b in program.buffers if b.role is Role.OUTPUT)
    for seed in range(3):
        found = OnCpu(made.kernel.source, made, tmp_path)(program, {name: given}, seed)
        np.testing.assert_array_equal(found[result], given)


@pytest.mark.slow
def test_the_ring_that_is_run_on_gpus(tmp_path: Path) -> None:
    program = ring_program(8, 6, 0)
    device = load_device("h200")
    made = fuse(program, ring_functions(), device, lambda t, a, _: compile_cubin(t, a), 4)
    assert resident_blocks(made.kernel.footprint, multiprocessor_of(device)) == 4
    values = [np.arange(RING) * (n + 2) for n in range(3)]
    given = {f"b{n}": value for n, value in enumerate(values)}
    run_ring(program, values)
    run = OnCpu(made.kernel.source, made, tmp_path)
    for seed in range(2):
        found = run(program, given, seed)
        for n, value in enumerate(values):
            np.testing.assert_array_equal(found[f"b{n}"], value)
