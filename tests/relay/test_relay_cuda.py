"""Relay modules built for NVIDIA GPUs; their kernels run thread by thread on a CPU."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import autotvm, relay
from tvm.relay import testing
from tvm.relay.build_module import bind_params_by_name
from tvm.script import tir as T

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.pipeline import apply_schedule, for_target, prepare
from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.nvrtc import has_compiler
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.executable import load
from runtime_ext.execution.session import Session
from runtime_ext.relay import cuda_library
from runtime_ext.relay.build import build
from runtime_ext.relay.cuda_launches import KernelLaunch, RelayKernelError, launches_of
from runtime_ext.relay.tuning_log import read_autotvm_log
from tests.cuda.emulator import Emulator, for_stand_in
from tests.cuda.stand_in.build import build_stand_in
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, inputs_of, mixed, module_of, run
from tests.relay.uncompiled import leave_uncompiled
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.program import BufferType, Launch

ROOT = Path(__file__).parents[2]
SM_90 = {"kind": "cuda", "arch": "sm_90"}


def built_for_gpu(module: tvm.IRModule, how: Any, log: Path | None = None) -> BuiltModel:
    """A module as a function of its units schedules it; in the place of cubins stand sources."""
    options = SearchOptions(target=SM_90, database=log)
    prepared = for_target(prepare(module), options)
    with pytest.MonkeyPatch.context() as patch:
        leave_uncompiled(patch)
        scheduled = apply_schedule(prepared, how(prepared.units))
        return build(scheduled, target=SM_90, lanes=3, log=log)


def kernels_of(model: BuiltModel) -> dict[str, CudaKernel]:
    """What is known of the kernels of such a model."""
    program, made = model.program, dict[str, CudaKernel]()
    for item in (item for lane in program.lanes for item in lane if isinstance(item, Launch)):
        symbol = program.kernels[item.kernel]
        known = model.kernels.function(symbol)
        made[symbol] = CudaKernel(
            symbol=symbol,
            entry=known.entry,
            parameters=tuple(program.buffers[b].type for b in item.buffers),
            written=program.uses[item.kernel].writes,
            grid=known.grid,
            block=known.block,
            static_shared_bytes=0,
            dynamic_shared_bytes=known.shared_bytes,
            registers=0,
            local_bytes=0,
            source=known.cubin.decode(),
        )
    return made


@pytest.fixture(scope="module")
def built() -> tuple[BuiltModel, tvm.IRModule]:
    module = module_of([(1, 3, 9, 9)], mixed)
    prepared = prepare(module)
    return built_for_gpu(module, lambda _: merge_first(prepared)), module


def emulated(model: BuiltModel, module: tvm.IRModule, folder: Path) -> list[Any]:
    """The outputs, by kernels that run in some legal order; unneeded memory is overwritten."""
    check_races(model.program)
    kernels = kernels_of(model)
    emulator = Emulator(kernels.values(), folder)

    def function(kernel: CudaKernel) -> Any:
        def launch(*given: Any) -> None:
            *tensors, begin, end = given
            assert (begin, end) == (0, 1)
            arrays = map(_array, tensors, kernel.parameters)
            emulator.launch(kernel, list(arrays))

        return launch

    session = Session(
        model.program,
        {symbol: function(kernel) for symbol, kernel in kernels.items()},
        model.constants,
        model.inputs,
        model.outputs,
        plan=model.memory.plan,
        executor="poisoning",
    )
    session.run(**inputs_of(module))
    return [session.get_output(place) for place in range(len(model.outputs))]


def test_kernels_compute_what_a_cpu_does(built: Any, tmp_path: Path) -> None:
    model, module = built
    assert relative_error(emulated(model, module, tmp_path), run(module)) <= 1e-5


def _operators(s: RelaySketch, x: Any) -> Any:
    """Of several kernels each, or of threads that work together."""
    nn, flat = relay.nn, relay.nn.batch_flatten(x)
    rows = relay.reshape(x, (16, 9, 9))
    return (
        nn.lrn(x),
        nn.layer_norm(x, s.normal(9), s.normal(9)),
        nn.log_softmax(flat),
        nn.batch_matmul(rows, rows),
        nn.conv2d_transpose(x, s.normal(16, 4, 3, 3), channels=4, kernel_size=(3, 3)),
        s.conv(x, 16, 16, groups=4),
        relay.mean(x, axis=(2, 3)),
        relay.argmax(x, axis=1),
        relay.image.resize2d(x, (18, 18)),
        relay.cast(nn.relu(relay.cast(x, "float16")), "float32"),
        *relay.split(x, 4, axis=1),
    )


@pytest.mark.slow
def test_operators_of_many_kinds(tmp_path: Path) -> None:
    module = module_of([(1, 16, 9, 9)], _operators)
    model = built_for_gpu(module, greedy_schedule)
    for found, wanted in zip(emulated(model, module, tmp_path), run(module), strict=True):
        assert relative_error([found], [wanted]) <= 1e-5


@pytest.mark.slow
def test_a_tuned_convolution_of_several_kernels(tmp_path: Path) -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return relay.nn.relu(s.bias(s.conv(x, 16, 16), 16))

    module, log = module_of([(1, 16, 12, 12)], body), tmp_path / "log"
    target = tvm.target.Target("cuda -arch=sm_90")
    tasks = autotvm.task.extract_from_program(module["main"], target=target, params={})
    (task,) = (task for task in tasks if task.name == "conv2d_nchw_winograd.cuda")
    given = autotvm.MeasureInput(target, task, task.config_space.get(0))
    result = autotvm.MeasureResult((1e-4,), 0, 0.1, 0.0)
    log.write_text(autotvm.record.encode(given, result) + "\n")
    usual = built_for_gpu(module, sequential_schedule)
    assert len(usual.program.kernels) == 1
    tuned = built_for_gpu(module, sequential_schedule, log=log)
    assert len(tuned.program.kernels) == 3
    assert any(b.type.shape == (4, 4, 16, 16) for b in tuned.program.buffers), "its weights"
    known = read_autotvm_log(log, target)
    made = IOSSchedule("sequential", options=SearchOptions(target=SM_90, database=log))(module)
    assert known.coverage(module) == (1, 2)
    assert known.coverage(made) == (1, 1)
    (altered,) = autotvm.task.extract_from_program(made["main"], target=target, params={})
    with known.applied() as context, target:
        assert context.query(target, altered.workload).index == 0
        assert not context.query(target, altered.workload).is_fallback
    assert relative_error(emulated(tuned, module, tmp_path), run(module)) <= 1e-5


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="needs nvcc, or NVRTC and cuda-bindings")
def test_squeezenet_is_compiled(tmp_path: Path) -> None:
    main, params = testing.squeezenet.get_workload()
    module = tvm.IRModule.from_expr(bind_params_by_name(main["main"], params))
    options = SearchOptions(target=SM_90)
    made = IOSSchedule("ios-both", "h200", options=options)(relay.transform.InferType()(module))
    build(made, target=SM_90, lanes=4, name="squeezenet").save(tmp_path / "out")
    loaded = load(tmp_path / "out")
    assert loaded.arch == "sm_90"
    assert [port.shape for port in loaded.outputs] == [(1, 1000)]
    for kernel in loaded.functions().values():
        assert kernel.cubin.startswith(b"\x7fELF")
        assert kernel.entry.encode() in kernel.cubin


def _array(tensor: Any, kind: BufferType) -> Any:
    memory = (ctypes.c_uint8 * kind.nbytes).from_address(tensor.data_ptr())
    return np.frombuffer(memory, kind.dtype).reshape(kind.shape)


@pytest.mark.slow
def test_an_executable_runs_on_streams_without_this_tvm(built: Any, tmp_path: Path) -> None:
    model, module = built
    library = replace(model.kernels, kernels=for_stand_in(kernels_of(model), tmp_path))
    replace(model, kernels=library).save(tmp_path / "model")
    build_stand_in(tmp_path)
    np.savez(tmp_path / "inputs.npz", **inputs_of(module))
    code = """
import ctypes, importlib.util, sys
import numpy as np
from pathlib import Path
from runtime_ext.execution.runtime_module import load_module

assert importlib.util.find_spec("tvm") is None
driver, folder, found = ctypes.CDLL("libcuda.so.1"), Path(sys.argv[1]), []
for seed in range(4):
    driver.stand_in_seed(seed)
    module = load_module(folder / "model")
    with np.load(folder / "inputs.npz") as inputs:
        module.run(**inputs)
    module.run()
    found.append([module.get_output(place) for place in range(2)])
    module.close()
assert driver.stand_in_calls(b"cuGraphLaunch")
np.savez(folder / "outputs.npz", *map(np.stack, zip(*found)))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["LD_LIBRARY_PATH"] = str(tmp_path)
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "outputs.npz") as outputs:
        for runs, wanted in zip(outputs.values(), run(module), strict=True):
            assert (runs == runs[0]).all(), "the order of launches changes what is computed"
            assert relative_error([runs[0]], [wanted]) <= 1e-5


@T.prim_func
def _two_kernels(a: T.handle, b: T.handle) -> None:
    A, B = T.match_buffer(a, (8,)), T.match_buffer(b, (8,))
    C = T.decl_buffer((8,))
    with T.launch_thread("blockIdx.x", 2) as x:
        y = T.launch_thread("threadIdx.x", 4)
        C[x * 4 + y] = A[x * 4 + y] + T.float32(1)
    with T.launch_thread("threadIdx.y", 8) as z:
        D = T.decl_buffer((8,), scope="shared.dyn")
        D[z] = C[7 - z]
        B[z] = D[z] * T.float32(2)


@T.prim_func
def _loop(a: T.handle) -> None:
    A = T.match_buffer(a, (4,))
    for _ in range(3):
        with T.launch_thread("threadIdx.x", 4) as x:
            A[x] = A[x] + T.float32(1)


@T.prim_func
def _call(a: T.handle) -> None:
    A = T.match_buffer(a, (4,))
    T.evaluate(T.call_packed("sorted", A.data))


def split(function: Any) -> tvm.IRModule:
    module = tvm.IRModule({"f": function.with_attr("global_symbol", "f")})
    passes = tvm.tir.transform
    for made in (
        passes.BindTarget(tvm.target.Target("cuda -arch=sm_90", host="llvm")),
        passes.AnnotateDeviceRegions(),
        passes.SplitHostDevice(),
    ):
        module = made(module)
    return module


def test_launches_and_what_they_leave_for_each_other() -> None:
    made = launches_of(split(_two_kernels))["f"]
    assert made.launches == (
        KernelLaunch("f_kernel", (0, 2), (2, 1, 1), (4, 1, 1), 0),
        KernelLaunch("f_kernel_1", (1, 2), (1, 1, 1), (1, 8, 1), 32),
    )
    assert made.scratch == (BufferType((32,), "uint8"),)


def test_a_tvm_that_parts_kernels_in_another_way_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_library, "launches_of", lambda _: {})
    module = module_of([(1, 3)], lambda s, x: relay.nn.relu(x))
    with refused(RelayKernelError, "TVM 0.17"):
        built_for_gpu(module, sequential_schedule)


@pytest.mark.parametrize(
    ("function", "named"),
    [(_loop, ("f", "For", "host")), (_call, ("f", "tir.tvm_call_packed", "host"))],
)
def test_what_is_no_series_of_kernels_is_refused(function: Any, named: tuple[str, ...]) -> None:
    with refused(RelayKernelError, *named):
        launches_of(split(function))
