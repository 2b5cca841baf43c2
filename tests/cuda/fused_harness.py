"""Networks of TVM kernels as rPrograms, and their generated CUDA C++ run on the CPU."""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import dlight

from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.nvrtc import compile_cubin
from runtime_ext.cuda.machine_code.source import cuda_target, launch_extents, written_parameters
from runtime_ext.cuda.persistent.fused_kernel import FusedKernel, fuse, vdevice
from runtime_ext.cuda.persistent.rtask import rtask_function
from tests.cpp_compiler import compile_cpp
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.persistent import PersistentProgram
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.schedule.placement import Placement, Share
from tvm_ios.schedule.stage import Stage, Strategy

# TVM's own types do not say what its functions take.
relax: Any = tvm.relax
ARCH = "sm_90"
_RULES = [getattr(dlight.gpu, r)() for r in ("Matmul", "GeneralReduction", "Fallback")]


@dataclass(frozen=True)
class Network:
    """A graph of one kernel a unit; weights are inputs too."""

    graph: OpGraph
    code: Mapping[int, UnitCode]
    kernels: Mapping[str, CudaKernel]
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]

    @property
    def stage(self) -> Stage:
        return Stage(Strategy.CO_SCHEDULE, (tuple(range(len(self.graph))),))

    def placement(self, lanes: int, seed: int) -> Placement:
        """Each operator's rTasks cut anyhow and given to any vEUs."""
        choice = random.Random(seed)
        shares: list[Share] = []
        for unit in range(len(self.graph)):
            tasks = self.code[unit].calls[0].tiles
            cuts = sorted({0, tasks, *(choice.randint(0, tasks) for _ in range(lanes - 1))})
            shares += [
                Share(unit, 0, choice.randrange(lanes), begin, end)
                for begin, end in itertools.pairwise(cuts)
            ]
        return tuple(shares)


def network(shapes: list[tuple[int, ...]], write: Callable[..., list[Any]]) -> Network:
    """Legalised and scheduled by TVM, run by TVM on the CPU.

    Parameters
    ----------
    shapes
        Of the inputs.
    write
        Called with a function that emits an operator and the inputs; gives the outputs.
    """
    builder = relax.BlockBuilder()
    given = [relax.Var(f"in{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", given):
        with builder.dataflow():
            outputs = builder.emit_output(relax.Tuple(write(builder.emit, *given)))
        builder.emit_func_output(outputs)
    module: Any = builder.get()
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    results = [t.numpy() for t in machine["main"](*map(tvm.runtime.tensor, arrays))]
    with cuda_target(ARCH):
        module = tvm.transform.Sequential(
            [
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FuseOps(),
                relax.transform.FuseTIR(),
                relax.transform.DeadCodeElimination(["main"]),
                dlight.ApplyDefaultSchedule(*_RULES),
            ]
        )(module)
    names = {v.name: i for i, v in enumerate(given)}
    tensors = [Tensor(v.name, s, "float32") for v, s in zip(given, shapes, strict=True)]
    operators: list[Operator] = []
    code: dict[int, UnitCode] = {}
    kernels: dict[str, CudaKernel] = {}
    main = module["main"]
    for binding in main.body.blocks[0].bindings:
        if not isinstance(binding.value, relax.Call):
            continue
        variable, arguments = binding.value.args[0], binding.value.args[1]
        symbol = str(variable.name_hint)
        scheduled = module[variable]
        kernels.setdefault(symbol, kernel_of(symbol, scheduled))
        reads = tuple(names[a.name] for a in arguments.fields)
        shape = tuple(int(e) for e in binding.var.ty.shape.values)
        names[binding.var.name] = len(tensors)
        tensors.append(Tensor(f"t{len(tensors)}", shape, "float32"))
        place = len(operators)
        operators.append(Operator(f"u{place}", symbol, reads, (len(tensors) - 1,), flops=1))
        distinct = tuple(dict.fromkeys(reads))
        types = tuple(BufferType(tensors[t].shape) for t in (*distinct, len(tensors) - 1))
        order = (*(distinct.index(t) for t in reads), len(distinct))
        code[place] = UnitCode(types, 1, (), (PhaseCall(symbol, kernels[symbol].blocks, order),))
    last = main.body.blocks[0].bindings[-1].value
    ends = tuple(names[v.name] for v in last.fields)
    graph = OpGraph("network", tuple(operators), tuple(tensors), tuple(range(len(given))), ends)
    return Network(
        graph,
        code,
        kernels,
        {tensors[i].name: a for i, a in enumerate(arrays)},
        {tensors[t].name: a for t, a in zip(ends, results, strict=True)},
    )


def fused(
    program: PersistentProgram, kernels: Mapping[str, CudaKernel], device: DeviceDescription
) -> FusedKernel:
    """Compile a program of some kernels to one."""
    functions = {s: rtask_function(k.scheduled, f"rtask_{s}", ARCH) for s, k in kernels.items()}
    each = vdevice((k.footprint for k in kernels.values()), device) // device.processors
    return fuse(program, functions, device, _cubin, each)


@cache
def _cubin(source: str, arch: str, _: object) -> Any:
    """The same kernel runs other programs: it is compiled once."""
    return compile_cubin(source, arch)


def kernel_of(symbol: str, scheduled: Any) -> CudaKernel:
    """What is known of a kernel without compiling it by itself."""
    grid, block = launch_extents(scheduled)
    return CudaKernel(
        symbol=symbol,
        entry=symbol,
        parameters=tuple(BufferType(tuple(map(int, p.ty.shape))) for p in scheduled.params),
        written=written_parameters(scheduled),
        grid=grid,
        block=block,
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        registers=32,
        local_bytes=0,
        source="",
        scheduled=scheduled,
    )


class OnCpu:
    """A fused kernel compiled by the C++ compiler, its threads as fibres."""

    def __init__(self, source: str, fused: FusedKernel, folder: Path) -> None:
        self.fused = fused
        count = len(fused.kernel.parameters)
        types = ["void*"] * len(fused.buffers) + ["int*"] * (count - len(fused.buffers))
        arguments = ", ".join(f"({t})arguments[{i}]" for i, t in enumerate(types))
        text = folder / "kernel.cc"
        text.write_text(
            "#define TVM_IOS_PRELUDE\n#define TVM_IOS_BARRIERS\n"
            f'#include "{Path(__file__).parent / "veu_shim.h"}"\n{source}\n'
            "static void** arguments;\n"
            f"static void entry() {{ {fused.kernel.entry}({arguments}); }}\n"
            'extern "C" int run(void** given, int blocks, int threads, int resident, int seed) {\n'
            "  arguments = given;\n"
            "  return run_blocks(blocks, threads, resident, seed, entry);\n}\n"
        )
        compile_cpp(folder / "kernel.so", [text], "-O1", "-w", "-shared", "-fPIC")
        self._run = ctypes.CDLL(str(folder / "kernel.so")).run

    def __call__(
        self, program: PersistentProgram, inputs: Mapping[str, np.ndarray], seed: int
    ) -> dict[str, np.ndarray]:
        """All buffers of a run in a random order; raises if it stands still."""
        arrays: dict[str, np.ndarray] = {}
        for number in self.fused.buffers:
            buffer = program.buffers[number]
            kind = buffer.type
            # No number; or -1, of integers.
            empty = np.frombuffer(b"\xff" * kind.nbytes, kind.dtype).reshape(kind.shape)
            arrays[buffer.name] = np.array(inputs.get(buffer.name, empty))
        counts = np.zeros(len(program.lanes), np.int32)
        table = () if self.fused.words is None else (self.fused.words, counts)
        self.launch([*arrays.values(), *table], seed)
        return arrays

    def launch(self, arrays: Sequence[np.ndarray], seed: int) -> None:
        """Run with these parameters."""
        kernel = self.fused.kernel
        assert len(arrays) == len(kernel.parameters)
        resident = kernel.blocks if self.fused.table else 2
        given = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        stuck = self._run(given, kernel.blocks, kernel.threads, resident, seed)
        assert not stuck, f"{stuck} blocks stand still"
