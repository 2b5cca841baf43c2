"""From a module through Rammer's search to one kernel, run on the CPU and compared with TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from runtime_ext.build import build
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.launchable import read_kernels
from runtime_ext.cuda.persistent.co_schedule import CoScheduledStage, co_scheduled, rtask_code
from runtime_ext.cuda.persistent.rtask_times import (
    contended_rkernel,
    profiled_rkernel,
)
from runtime_ext.execution.buffers import content_key
from runtime_ext.execution.session import Session
from runtime_ext.kernels.spec import Contraction, Mean, Pooling
from runtime_ext.units.in_place import arrange
from tests.cuda.fused_harness import OnCpu
from tests.persistent_lanes import program_of
from tests.relax.relax_sketch import RelaxSketch, inputs_of, module_of, run
from tvm_ios.costs.cuda_kernels.unit_kernels import cuda_kernels
from tvm_ios.costs.persistent import rkernel
from tvm_ios.devices.device import load_device
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.persistent_lowering import lower_persistent
from tvm_ios.program.program import BufferType, Launch, Part, PhaseCall, Program, Role, UnitCode
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

op = relax.op
VEUS = 6


def inception(s: RelaxSketch, x: Any) -> Any:
    """Branches of dependent convolutions, a pool, and a concatenation in which they lie."""
    first = s.emit(op.nn.relu(s.bias(s.conv(x, 8, (1, 1)))))
    second = s.emit(op.nn.relu(s.conv(s.conv(x, 8, (1, 1)), 12)))
    third = s.conv(s.emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1))), 4, (1, 1))
    return s.conv(s.emit(op.concat([first, second, third], axis=1)), 8)


def separable(s: RelaxSketch, x: Any) -> Any:
    """The sum of two separable convolutions and of what they read, as in a NASNet cell."""
    a = s.conv(s.conv(s.emit(op.nn.relu(x)), 8, groups=8), 8, (1, 1))
    b = s.conv(s.conv(s.emit(op.nn.relu(x)), 8, (5, 5), groups=8), 8, (1, 1))
    pooled = s.emit(op.nn.avg_pool2d(x, (3, 3), padding=(1, 1)))
    return s.emit(op.add(s.emit(op.add(a, b)), pooled))


@dataclass(frozen=True)
class Compiled:
    """A network's units as CUDA kernels, and its rProgram."""

    module: Any
    graph: OpGraph
    parts: Mapping[int, Part]
    code: dict[int, UnitCode]
    kernels: dict[str, CudaKernel]
    constants: dict[str, np.ndarray]
    names: dict[tuple[int, int], str]
    stage: Stage
    prepared: Prepared
    compiler: CudaKernelCompiler

    def constant_name(self, units: tuple[int, ...], parameter: int) -> str:
        return self.names[units[0], parameter]

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.graph.fingerprint, (self.stage,), "rammer")

    def one_kernel(self) -> CoScheduledStage:
        return co_scheduled(
            self.graph,
            self.stage,
            self.code,
            self.compiler,
            load_device("h200"),
            self.parts,
        )

    def launched(self, stage: CoScheduledStage) -> Program:
        def constant_name(units: tuple[int, ...], parameter: int) -> str:
            first = len(stage.code.parameters) - stage.code.outputs - len(stage.constants) - 1
            assert units == self.stage.units
            if parameter - first == len(stage.constants):
                return "table"
            unit, place = stage.constants[parameter - first]
            return self.constant_name((unit,), place)

        return lower(
            self.graph,
            self.schedule,
            self.code,
            {self.stage: stage.code},
            lanes=2,
            constant_name=constant_name,
            parts=self.parts,
        )


@pytest.fixture(scope="module", params=[inception, separable], ids=["inception", "separable"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    module = module_of([(1, 8, 9, 9)], request.param)
    prepared = prepare(module)
    graph = prepared.units
    units = [prepared.outliner.unit(u) for u in range(len(graph))]
    memory = arrange(graph, [u.function for u in units])
    compiler = CudaKernelCompiler("sm_90", tmp_path_factory.mktemp("cuda"))
    units_by_name = compiler.compile(
        {str(i): memory.source(u.function, u.data, u.outputs) for i, u in enumerate(units)}
    )
    code = {i: units_by_name[str(i)].code for i in range(len(graph))}
    constants: dict[str, np.ndarray] = {}
    names: dict[tuple[int, int], str] = {}
    for i, unit in enumerate(units):
        for k, use in enumerate(units_by_name[str(i)].constants):
            value = unit.constants[use.parameter - len(unit.data)].value.numpy()
            packed = use.transform.apply(value)
            names[i, len(unit.data) + k] = content_key(packed)
            constants[content_key(packed)] = packed
    symbols = {call.symbol for c in code.values() for call in c.calls}
    kernels = {symbol: compiler.kernel(symbol) for symbol in symbols}
    device = load_device("h200")

    def rkernels(unit: int) -> Any:
        flops = graph.operators[unit].flops
        symbols = [call.symbol for call in code[unit].calls]
        return (rkernel("default", compiler.estimates(symbols, flops), device, VEUS),)

    program = co_schedule(graph, range(len(graph)), rkernels, VEUS)
    stage = Stage(Strategy.CO_SCHEDULE, (program.units,), placement=program.placement)
    return Compiled(
        module=module,
        graph=graph,
        parts=memory.parts,
        code=code,
        kernels=kernels,
        constants=constants,
        names=names,
        stage=stage,
        prepared=prepared,
        compiler=compiler,
    )


def test_one_launch_computes_the_network(compiled: Compiled, tmp_path: Path) -> None:
    stage = compiled.one_kernel()
    assert stage.fused is not None
    assert stage.table is not None
    program = compiled.launched(stage)
    check_races(program)
    assert [len(lane) for lane in program.lanes] == [1, 0]
    on_cpu = OnCpu(stage.fused.kernel.source, stage.fused, tmp_path)
    seeds = iter(range(10))

    def kernel(*arguments: Any) -> None:
        *buffers, begin, end = arguments
        assert (begin, end) == (0, 1)
        arrays = [np.from_dlpack(b) for b in buffers]
        for place in stage.fused.launchable.cleared:
            arrays[place][:] = 0
        on_cpu.launch(arrays, next(seeds))

    inputs = inputs_of(compiled.module)
    session = Session(
        program,
        {stage.fused.kernel.symbol: kernel},
        {**compiled.constants, "table": stage.table},
        executor="poisoning",
    )
    for _ in range(3):
        session.run(**dict(zip((p.name for p in session.inputs), inputs, strict=True)))
        expected = run(compiled.module, inputs)
        for place, value in enumerate(expected):
            output = session.get_output(place).reshape(value.shape)
            np.testing.assert_allclose(output, value, rtol=1e-4, atol=1e-4)
    session.close()


def test_what_is_built_has_one_launch_and_clears_its_counts(
    compiled: Compiled, tmp_path: Path
) -> None:
    module = apply_schedule(compiled.prepared, compiled.schedule)
    model = build(module, compiler=compiled.compiler, lanes=2)
    check_races(model.program)
    (launch,) = (item for lane in model.program.lanes for item in lane)
    assert isinstance(launch, Launch)
    symbol = model.program.kernels[launch.kernel]
    compiled.compiler.export(tmp_path / "kernels", [symbol])
    _, kernels = read_kernels(tmp_path / "kernels")
    stage = compiled.one_kernel()
    assert stage.fused is not None
    assert stage.table is not None
    assert kernels[symbol] == stage.fused.launchable
    (counts,) = kernels[symbol].cleared
    assert model.program.buffers[launch.buffers[counts]].type == BufferType((VEUS,), "int32")
    table = content_key(stage.table)
    assert {b.name for b in model.program.buffers if b.role is Role.CONSTANT} == {
        *compiled.constants,
        table,
    }
    np.testing.assert_array_equal(model.constants[table], stage.table)


def test_the_same_rprogram_is_free_of_races_on_lanes(compiled: Compiled) -> None:
    persistent = lower_persistent(
        compiled.graph,
        compiled.stage,
        {u: rtask_code(c, compiled.compiler.blocks) for u, c in compiled.code.items()},
        lanes=VEUS,
        parts=compiled.parts,
    )
    assert not persistent.independent
    program = program_of(persistent)
    check_races(program)
    usual = lower(
        compiled.graph,
        compiled.schedule,
        {u: rtask_code(c, compiled.compiler.blocks) for u, c in compiled.code.items()},
        lanes=VEUS,
        parts=compiled.parts,
    )
    assert replace(program, lanes=((),)) == replace(usual, lanes=((),))


def test_compiled_kernels_are_estimated_as_those_of_the_graph(compiled: Compiled) -> None:
    compiler, cut = compiled.compiler, 0
    for unit, code in compiled.code.items():
        symbols = [call.symbol for call in code.calls]
        made = compiler.estimates(symbols, compiled.graph.operators[unit].flops)
        described = cuda_kernels(compiled.graph, unit, compiler.gpu)
        for symbol, kernel, other in zip(symbols, made, described, strict=True):
            assert kernel.blocks == compiler.blocks(symbol)
            if isinstance(compiler.workload(symbol), Contraction | Pooling | Mean):
                cut += 1
                assert kernel.blocks == other.blocks
                assert kernel.block_seconds == pytest.approx(other.block_seconds, rel=0.1)
    assert cut >= 3


def test_an_rtask_takes_as_long_as_a_wave_of_its_kernel() -> None:
    device = load_device("h200")
    buffer = BufferType((1 << 10,))
    calls = (PhaseCall("many", 1, (0, 1)), PhaseCall("few", 1, (0, 1)))
    code = UnitCode((buffer, buffer), 1, (), calls)
    footprint = Footprint(1024, 32, 0)

    def rkernel(*seconds: float, overhead: float) -> RKernel:
        blocks = {"many": 3 * 264, "few": 7}.__getitem__
        return profiled_rkernel(
            "default", code, seconds, blocks, lambda _: footprint, device, overhead
        )

    # A multiprocessor holds two blocks of 1024 threads.
    with_launches = rkernel(14e-6, 1e-6, overhead=2e-6)
    assert with_launches.tasks == (792, 7)
    assert with_launches.task_seconds == pytest.approx((4e-6, 1e-6))
    assert with_launches.seconds == pytest.approx(13e-6)
    # A simulator's times may begin with a kernel's first instruction: nothing is left out then.
    assert rkernel(12e-6, 0.5e-6, overhead=0).task_seconds == pytest.approx((4e-6, 0.5e-6))


def test_rtasks_that_were_profiled_alone_are_slower_beside_others() -> None:
    device = load_device("h200")
    calls = (PhaseCall("many", 1, ()), PhaseCall("few", 1, ()))
    code = UnitCode((), 0, (), calls)
    # Four warps use half of a multiprocessor; so many threads fit sixteen times.
    footprint = Footprint(128, 32, 0)
    assert device.saturating_warps == 8
    alone = RKernel("default", (132 * 16, 132), (8e-6, 1e-6), 9e-6)

    def beside(veus: int) -> tuple[float, ...]:
        return contended_rkernel(alone, code, lambda _: footprint, device, veus).task_seconds

    # The first shared its multiprocessor when it was profiled; the second had one for itself.
    assert beside(16 * 132) == pytest.approx((8e-6, 8e-6))
    assert beside(4 * 132) == pytest.approx((2e-6, 2e-6))
    assert beside(132) == pytest.approx((1e-6, 1e-6))
