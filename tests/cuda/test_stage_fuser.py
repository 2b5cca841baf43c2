"""What a measured search asks about co-scheduled stages on a GPU; no kernel is compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runtime_ext.bundle.rtasks import BundledRTasks, read_rtasks
from runtime_ext.cuda.machine_code import cubin_cache
from runtime_ext.cuda.machine_code.cubin_cache import CubinCache
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import Cubin
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser
from tests.graph_sketch import GraphSketch
from tests.refusals import refused
from tvm_ios.costs.composed import ComposedCost
from tvm_ios.devices.device import described_archs, largest_gpu, load_device
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.errors import UnfusedError
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.rprogram_profile import RProgramProfile
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy

VECTOR = BufferType((8,))
SMALL, LARGE = Footprint(128, 32, 0), Footprint(1024, 32, 0)


@dataclass(frozen=True)
class Library:
    """Kernels of given footprints; none can be compiled."""

    footprints: Mapping[str, Footprint]

    def blocks(self, symbol: str) -> int:
        return 10

    def footprint(self, symbol: str) -> Footprint:
        return self.footprints[symbol]

    def rtasks(self, symbol: str) -> RTaskFunction:
        return RTaskFunction("", f"f_{symbol}", "", 10, 128, (0, 1), (), 0)

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        raise UnfusedError("there is no compiler")

    def add(self, symbol: str, kernel: Launchable) -> None:
        raise AssertionError


def code(*symbols: str) -> UnitCode:
    return UnitCode((VECTOR, VECTOR), 1, (), tuple(PhaseCall(s, 1, (0, 1)) for s in symbols))


def test_a_gpu_is_as_many_veus_as_the_chosen_kernels_leave() -> None:
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("relu", sketch.op("relu", 0)))
    device = load_device("h200")
    fuser = GpuStageFuser(Library({"small": SMALL, "large": LARGE}), device)
    forms = {"default": code("small"), "coarse": code("large")}
    assert fuser.lanes(forms.values()) == 132 * 2
    slow, fast = RKernel("default", (10,), (2e-6,), 2e-6), RKernel("coarse", (10,), (1e-6,), 1e-6)
    # Of two ways the better one is of the large kernel: its vEUs.
    program = fuser.rprogram(graph, (0, 1), lambda _: (slow, fast), lambda _, name: forms[name])
    assert {k.name for k in program.kernels.values()} == {"coarse"}
    assert len(program.clocks) == 264
    # With the small one alone there is more room.
    program = fuser.rprogram(graph, (0, 1), lambda _: (fast, slow)[:1], lambda *_: code("small"))
    assert len(program.clocks) == 132 * 16
    worse = RKernel("coarse", (10,), (9e-6,), 9e-6)
    program = fuser.rprogram(graph, (0, 1), lambda _: (slow, worse), lambda _, name: forms[name])
    assert len(program.clocks) == 132 * 16, "the kernel that was not chosen takes no room"
    # Where nothing can be compiled units have their usual kernels.
    ahead = GpuStageFuser(Library({"small": SMALL, "large": LARGE}), device, only=[(1, 0)])
    program = ahead.rprogram(graph, (0, 1), lambda _: (slow, fast), lambda _, name: forms[name])
    assert {k.name for k in program.kernels.values()} == {"default"}
    assert ahead.can_fuse({0: code("small"), 1: code("small")})
    assert not ahead.can_fuse({0: code("small")})
    assert not fuser.can_fuse({0: code(*map(str, range(49)))})


def test_what_cannot_be_compiled_is_said() -> None:
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("relu", sketch.op("relu", 0)))
    fuser = GpuStageFuser(Library({"small": SMALL}), load_device("h200"))
    codes = {0: code("small"), 1: code("small")}
    kernel = RKernel("default", (10,), (1e-6,), 1e-6)
    program = fuser.rprogram(graph, (0, 1), lambda _: (kernel,), lambda unit, _: codes[unit])
    stage = Stage(Strategy.CO_SCHEDULE, (program.units,), placement=program.placement)
    with refused(UnfusedError, "2 units", "compiler"):
        fuser.fused(graph, [stage], codes)
    without = GpuStageFuser(Library({"small": SMALL}), load_device("h200"), (), "it runs none")
    assert not without.can_fuse(codes)
    with refused(UnfusedError, "it runs none"):
        without.fused(graph, [stage], codes)
    many = {0: code("small"), 1: code(*(f"k{i}" for i in range(48)))}
    names = {call.symbol for unit_code in many.values() for call in unit_code.calls}
    fuser = GpuStageFuser(Library(dict.fromkeys(names, SMALL)), load_device("h200"))
    counts = {unit: len(unit_code.calls) for unit, unit_code in many.items()}
    of = {unit: RKernel("default", (10,) * n, (1e-6,) * n, 1.0) for unit, n in counts.items()}
    program = fuser.rprogram(graph, (0, 1), lambda u: (of[u],), lambda unit, _: many[unit])
    with refused(UnfusedError, 49, 48):
        fuser.fused(graph, [replace(stage, placement=program.placement)], many)


def test_bounds_of_co_scheduled_stages_count_no_launches() -> None:
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("relu", sketch.op("relu", 0)))
    cost = ComposedCost(
        {"u": (5e-6,)},
        lambda *_: "u",
        1,
        placed=lambda _: (1e-6, 2e-6),
        can_co_schedule=lambda units: units == (0, 1),
    )
    both = Stage(Strategy.CO_SCHEDULE, ((0, 1),))
    assert cost.stage_latency(graph, both) == pytest.approx(4e-6)
    assert cost.stage_latency(graph, Stage(Strategy.CO_SCHEDULE, ((0,),))) == math.inf
    assert cost.stage_latency(graph, Stage(Strategy.CONCURRENT, ((0, 1),))) == pytest.approx(1e-5)


def test_rprograms_that_cannot_run_take_for_ever_measured_or_not() -> None:
    small, large = RProgram.empty(1), RProgram.empty(2)
    for most in (0, 9):
        profile = RProgramProfile(
            lambda programs: (3.0 for _ in programs),
            Budget(max_measurements=most),
            lambda _: None,
            lambda program: program is small,
        )
        assert profile((small, large)) == ((3.0 if most else 0.0), math.inf)


def test_gpus_are_found_by_their_architecture() -> None:
    assert {"sm_80", "sm_90"} <= set(described_archs())
    for arch in described_archs():
        gpu, same = largest_gpu(arch), largest_gpu(arch + "a")
        assert gpu is not None
        assert gpu.multiprocessor is not None
        assert gpu.multiprocessor.arch == arch
        assert gpu == same
    assert largest_gpu("sm_10") is None


def test_rtasks_of_a_bundle_are_saved(tmp_path: Path) -> None:
    function = RTaskFunction("c", "f", "void f() {}", 3, 64, (1, 0), (0, 128), 256)
    bundled = BundledRTasks(
        load_device("h200"), {"k": (LARGE, function)}, {"rprogram_1": (32, 8, 0)}, [(3, 4)]
    )
    bundled.save(tmp_path)
    loaded = read_rtasks(tmp_path)
    assert (loaded.kernels, loaded.fused, loaded.stages) == (
        bundled.kernels,
        bundled.fused,
        bundled.stages,
    )
    assert (loaded.device.processors, loaded.device.wait_overhead) == (132, 5e-7)


def test_a_kernel_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []

    def compiled(source: str, arch: str) -> Cubin:
        sources.append(source)
        return Cubin(b"machine\ncode", 40, 8, 16)

    monkeypatch.setattr(cubin_cache, "compile_cubin", compiled)
    for _ in range(2):
        cubin = CubinCache(tmp_path / "cache").cubin("source", "sm_90", "rprogram_1")
        assert cubin == Cubin(b"machine\ncode", 40, 8, 16)
    assert sources == ["source"]
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    CubinCache(tmp_path / "cache").cubin("source", "sm_90", "rprogram_1")
    assert len(sources) == 2, "what is not whole is made again"
