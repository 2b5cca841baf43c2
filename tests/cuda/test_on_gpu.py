"""Programs on a real GPU: what the stand-in cannot know. Kernels are compiled by NVRTC."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from runtime_ext.cuda.executor import CudaExecutor, run_on_device
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import compile_cubin
from runtime_ext.cuda.measure import time_program
from runtime_ext.cuda.nvidia import cudnn
from runtime_ext.cuda.nvidia.driver import open_device
from runtime_ext.cuda.nvidia.memory import DeviceMemory
from runtime_ext.cuda.persistent.fused_kernel import fuse, vdevice
from runtime_ext.kernels.library_convolution import LibraryConvolution
from runtime_ext.native_errors import CudaError
from tests.cuda.convolutions import buffers_of, convolution, drawn, reference, view
from tests.cuda.nvrtc_kernels import (
    LENGTH,
    RING,
    compile_kernels,
    ring_functions,
    ring_program,
    run_ring,
)
from tvm_ios.devices.device import DeviceDescription, Multiprocessor, largest_gpu, load_device
from tvm_ios.devices.engine import launches_early
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.lane_writer import LaneWriter
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role

pytestmark = pytest.mark.gpu

VECTOR = BufferType((LENGTH,), "int64")


@pytest.fixture(autouse=True, scope="module")
def _gpu() -> None:
    try:
        open_device()
    except CudaError as error:
        pytest.skip(str(error))
    pytest.importorskip("cuda.bindings.nvrtc")


def arch() -> str:
    return "sm_{}{}".format(*open_device().compute_capability)


@cache
def cubin() -> bytes:
    return compile_kernels(arch())


def kernel(
    entry: str,
    shared_bytes: int = LENGTH * 8,
    cleared: tuple[int, ...] = (),
    early: bool = False,
) -> Launchable:
    return Launchable(entry, (1, 1, 1), (LENGTH, 1, 1), shared_bytes, cubin(), cleared, early)


def mixes(shared_bytes: int = LENGTH * 8, early: bool = False) -> Mapping[str, Launchable]:
    name = "early" if early else "mix"
    return {f"mix{n}": kernel(f"{name}{n}", shared_bytes, early=early) for n in range(3)}


def random_program(seed: int) -> Program:
    """One to five lanes; every two launches that conflict are ordered."""
    random = Random(seed)
    lanes, count, units = random.randint(1, 5), random.randint(3, 8), random.randint(5, 60)
    writer = LaneWriter(lanes)
    for unit in range(units):
        target, *sources = random.sample(range(count), random.randint(1, 3))
        launch = Launch(len(sources), (*sources, target), 0, 1, unit)
        writer.phase([(random.randrange(lanes), launch)], sources, [target])
    return Program(
        writer.lanes(),
        ("mix0", "mix1", "mix2"),
        tuple(Buffer(f"b{n}", VECTOR, Role.OUTPUT) for n in range(count)),
        tuple(f"u{n}" for n in range(units)),
        tuple(KernelUse(1, sources + 1, (sources,)) for sources in range(3)),
    )


def simulate(program: Program, values: list[np.ndarray]) -> None:
    for *_, launch in ordered_launches(program):
        target = launch.buffers[-1]
        # As in the source: one buffer is a, b and x, or its first argument both a and b.
        a, b = (*launch.buffers[:-1], launch.buffers[0], launch.buffers[0])[:2]
        mixed = values[target] * 7 + np.roll(values[a], -1) * 5 + np.roll(values[b], -2) * 3 + 1
        values[target] = mixed % 1000003


def this_gpu() -> DeviceDescription:
    """As the driver describes it: the device files are not on every machine with a GPU."""
    opened = open_device()
    holds = Multiprocessor(
        arch="sm_{}{}".format(*opened.compute_capability),
        threads=opened.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks=opened.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        registers=opened.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared_bytes=opened.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        block_shared_bytes=opened.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        reserved_shared_bytes=opened.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        source="the driver",
    )
    count = opened.attribute("MULTIPROCESSOR_COUNT")
    return replace(
        load_device("h100"), name="gpu", processors=count, sources={}, multiprocessor=holds
    )


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int, captured: bool, early: bool) -> None:
    if early and not launches_early(arch()):
        pytest.skip("this GPU launches no kernels early")
    program = random_program(seed)
    kernels = mixes(early=early)
    memory, executor = run_on_device(program, kernels, {}, None, 0, captured=captured)
    values = [np.arange(LENGTH) + n for n in range(len(program.buffers))]
    for buffer, value in zip(program.buffers, values, strict=True):
        memory.write(buffer.name, value)
    for _ in range(5):
        executor.run()
        simulate(program, values)
        for buffer, value in zip(program.buffers, values, strict=True):
            np.testing.assert_array_equal(memory.read(buffer.name), value)
    spans = executor.profile()
    assert len(spans) == executor.launches
    assert all(0 <= s.begin <= s.end for s in spans)
    executor.close()


def test_large_shared_memory_and_cleared_arguments() -> None:
    program = random_program(0)
    memory, executor = run_on_device(program, mixes(200 << 10), {}, None, 0)
    executor.run()
    launches = tuple(Launch(0, (0, 1), 0, 1, 0) for _ in range(3))
    counting = Program((launches,), ("count",), program.buffers[:2], ("u",))
    device = open_device()
    counts = DeviceMemory(device, counting, {})
    executor = CudaExecutor(
        counting, {"count": kernel("count", cleared=(0,))}, counts.addresses, device=device
    )
    for _ in range(3):
        executor.run()
        assert counts.read("b1")[0] == 1
    assert memory.addresses[0] % 256 == 0


def in_another_process(code: str) -> subprocess.CompletedProcess[str]:
    """Run what may lose the context, with this module as ``t``."""
    code = f"import sys; sys.path[:0] = {sys.path!r}\nimport {__name__} as t\n{code}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def run_rings(*, apart: bool, runs: int = 20) -> None:
    """Two persistent kernels, each of which alone fills the GPU, on one stream or on two."""
    gpu, functions = this_gpu(), ring_functions()
    lanes = vdevice([Footprint(f.threads, 64, f.shared_bytes) for f in functions.values()], gpu)
    rings = [ring_program(lanes, 24, seed) for seed in range(2)]
    held = lanes // gpu.processors
    fused_rings = [
        fuse(ring, functions, gpu, lambda text, arch, _: compile_cubin(text, arch), held)
        for ring in rings
    ]
    buffers: list[Buffer] = []
    launches: list[Launch] = []
    for number, kernel in enumerate(fused_rings):
        places = range(len(buffers), len(buffers) + len(kernel.kernel.parameters))
        kinds = zip(("b0", "b1", "b2", "table", "steps"), kernel.kernel.parameters, strict=True)
        buffers += [Buffer(f"{number}.{name}", kind, Role.OUTPUT) for name, kind in kinds]
        launches.append(Launch(number, tuple(places), 0, 1, number))
    of_lanes = tuple((each,) for each in launches) if apart else (tuple(launches),)
    program = Program(of_lanes, ("ring0", "ring1"), tuple(buffers), ("u0", "u1"))
    kernels = {f"ring{n}": kernel.launchable for n, kernel in enumerate(fused_rings)}
    memory, executor = run_on_device(program, kernels, {}, None, 0)
    values = [[np.arange(RING) * (n + 2) for n in range(3)] for _ in rings]
    for number, kernel in enumerate(fused_rings):
        memory.write(f"{number}.table", kernel.words)
        for n, value in enumerate(values[number]):
            memory.write(f"{number}.b{n}", value)
    for _ in range(runs):
        executor.run()
        for number, ring in enumerate(rings):
            run_ring(ring, values[number])
            for n, value in enumerate(values[number]):
                np.testing.assert_array_equal(memory.read(f"{number}.b{n}"), value)
    executor.close()


def test_persistent_kernels_see_what_other_blocks_wrote() -> None:
    # A flag that is seen before the data would show in some run of many, if at all.
    run_rings(apart=False, runs=500)


@pytest.mark.xfail(reason="programs of ours do not do that: never seen yet", strict=False)
def test_persistent_kernels_beside_each_other_both_end() -> None:
    done = in_another_process("t.run_rings(apart=True); print('both ended')")
    assert "both ended" in done.stdout, done.stderr


def test_a_persistent_kernel_computes_a_network() -> None:
    # Not among the tests that are copied to a machine without TVM's compiler.
    pytest.importorskip("tests.cuda.fused_harness")
    from tests.cuda.fused_harness import ARCH, fused, network, relax
    from tvm_ios.program.persistent_lowering import lower_persistent

    opened, op = open_device(), relax.op
    if opened.compute_capability != (9, 0):
        pytest.skip(f"the harness compiles for {ARCH}, and {opened.name} is another one")

    def write(emit: Any, x: Any, w: Any) -> list[Any]:
        first = emit(op.nn.relu(emit(op.nn.conv2d(x, w, padding=1))))
        return [emit(op.nn.conv2d(first, w, padding=1)), emit(op.nn.max_pool2d(first, (3, 3)))]

    net = network([(1, 8, 30, 30), (8, 8, 3, 3)], write)
    described = largest_gpu(ARCH)
    assert described is not None
    gpu = replace(described, processors=opened.attribute("MULTIPROCESSOR_COUNT"))
    for lanes in (2, 64, gpu.processors):
        stage = replace(net.stage, placement=net.placement(lanes, lanes))
        whole = lower_persistent(net.graph, stage, net.code, lanes=lanes)
        persistent = fused(whole, net.kernels, gpu)
        assert persistent.words is not None
        names = [*(whole.buffers[b].name for b in persistent.buffers), "table", "steps"]
        buffers = tuple(
            Buffer(name, kind, Role.OUTPUT)
            for name, kind in zip(names, persistent.kernel.parameters, strict=True)
        )
        launch = Launch(0, tuple(range(len(buffers))), 0, 1, 0)
        program = Program(((launch,),), ("rprogram",), buffers, ("network",))
        memory, executor = run_on_device(program, {"rprogram": persistent.launchable}, {}, None, 0)
        for name, value in {**net.inputs, "table": persistent.words}.items():
            memory.write(name, value)
        for _ in range(20):
            executor.run()
            for name, value in net.expected.items():
                np.testing.assert_allclose(memory.read(name), value, rtol=1e-4, atol=1e-4)
        executor.close()


@pytest.mark.parametrize("flush", [False, True])
def test_programs_are_timed(flush: bool) -> None:
    program = random_program(1)
    samples = time_program(program, mixes().__getitem__, flush=flush)
    assert len(samples) == 12
    assert all(1e-7 < s < 1 for s in samples)


def test_a_kernel_that_fails_names_its_unit() -> None:
    code = (
        "program = t.Program(((t.Launch(0, (0,), 0, 1, 0), t.Launch(1, (0,), 0, 1, 1)),),\n"
        "    ('mix0', 'broken'), t.random_program(0).buffers[:1], ('fine', 'the bad one'))\n"
        "kernels = {'mix0': t.kernel('mix0'), 'broken': t.kernel('broken')}\n"
        "try: t.run_on_device(program, kernels, {}, None, 0)[1].run()\n"
        "except RuntimeError as error: print(error)"
    )
    done = in_another_process(code)
    assert "unit 'the bad one' failed in kernel 'broken' on lane 0" in done.stdout, done.stderr


def cudnn_or_skip() -> None:
    try:
        cudnn.version()
    except cudnn.CudnnError as error:
        pytest.skip(str(error))


def large(precision: str, last: bool, fused: bool = True) -> LibraryConvolution:
    """16 images in two groups of channels, every second pixel."""
    images = (16, 64, 28, 28)
    return convolution(images, 128, last, stride=2, groups=2, precision=precision, fused=fused)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
@pytest.mark.parametrize("fused", [False, True])
def test_cudnn_computes_convolutions_side_by_side(precision: str, last: bool, fused: bool) -> None:
    cudnn_or_skip()
    call = large(precision, last, fused)
    types, lanes = buffers_of(call), 3
    buffers = tuple(
        Buffer(f"{lane}.{n}", kind, Role.OUTPUT)
        for lane in range(lanes)
        for n, kind in enumerate(types)
    )
    places = [tuple(range(lane * len(types), (lane + 1) * len(types))) for lane in range(lanes)]
    program = Program(
        tuple((Launch(0, bs, 0, 1, 0), Launch(0, bs, 0, 1, 0)) for bs in places),
        ("conv",),
        buffers,
        ("u",),
        (KernelUse(1, len(types), (2,)),),
    )
    device = open_device()
    memory = DeviceMemory(device, program, {})
    try:
        executor = CudaExecutor(program, {"conv": call}, memory.addresses, device=device)
    except cudnn.CudnnRefusal as error:
        # A search takes another form then.
        pytest.skip(str(error))
    for run in range(2):
        data = [drawn(call, 10 * run + lane) for lane in range(lanes)]
        for lane, arrays in enumerate(data):
            for n, array in enumerate(arrays):
                memory.write(f"{lane}.{n}", array)
        executor.run()
        for lane, arrays in enumerate(data):
            wanted = reference(call, arrays)
            result = view(memory.read(f"{lane}.2"), call.result)
            error = np.abs(result - wanted).max() / np.abs(wanted).max()
            assert error <= {"float32": 1e-5, "tf32": 2e-3, "float16": 4e-3}[precision]
    assert min(time_program(program, {"conv": call}.__getitem__)) > 0
    executor.close()


def test_cudnn_says_what_it_does_not_compute() -> None:
    cudnn_or_skip()
    call = large("float32", True)
    wrong = replace(call, groups=4)
    buffers = tuple(Buffer(str(n), kind, Role.OUTPUT) for n, kind in enumerate(buffers_of(call)))
    program = Program(
        ((Launch(0, tuple(range(5)), 0, 1, 0),),), ("c",), buffers, ("u",), (KernelUse(1, 5, (2,)),)
    )
    device = open_device()
    memory = DeviceMemory(device, program, {})
    with pytest.raises(cudnn.CudnnRefusal, match=r"CUDNN_STATUS_|no algorithm"):
        CudaExecutor(program, {"c": wrong}, memory.addresses, device=device)
