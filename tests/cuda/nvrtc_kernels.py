"""Kernels for tests on a real GPU, and NVRTC, which compiles them on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from runtime_ext.cuda.machine_code.prelude import AWAIT_EARLIER, PRELUDE
from runtime_ext.cuda.persistent.rtask_function import BARRIER, RTaskFunction
from tvm_ios.devices.engine import launches_early
from tvm_ios.program.persistent import PersistentProgram, ROperator, RTasks
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Role

LENGTH = 24
# Each kernel dawdles by what it has computed, so that streams overtake each other.
_MIXING = """
#define MIX(a, b, x) \\
  extern __shared__ long long mixed[]; \\
  const int n = threadIdx.x; \\
  mixed[n] = (x[n] * 7 + a[(n + 1) % 24] * 5 + b[(n + 2) % 24] * 3 + 1) % 1000003; \\
  __syncthreads(); \\
  const long long until = clock64() + mixed[0] % 64 * 400; \\
  while (clock64() < until) {} \\
  x[n] = mixed[n];
"""
_MIXES = """
extern "C" __global__ void {name}0(long long* x) {{ {begin} MIX(x, x, x) }}
extern "C" __global__ void {name}1(long long* a, long long* x) {{ {begin} MIX(a, a, x) }}
extern "C" __global__ void {name}2(long long* a, long long* b, long long* x) {{
  {begin} MIX(a, b, x)
}}
"""
_OTHERS = """
extern "C" __global__ void count(long long* steps, long long* x) { x[0] = ++steps[0]; }
extern "C" __global__ void broken(long long* x) { *(volatile int*)8 = 1; }
"""


def source(arch: str) -> str:
    """The kernels; those that may be launched early only where a GPU does that."""
    early = _MIXES.format(name="early", begin=AWAIT_EARLIER) if launches_early(arch) else ""
    return PRELUDE + _MIXING + _MIXES.format(name="mix", begin="") + early + _OTHERS


def compile_kernels(arch: str) -> bytes:
    """The cubin of the kernels above for an architecture."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source(arch).encode(), b"tests.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={arch}".encode()])
    assert not status, status
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin


#: Elements of the buffers of a ring, and threads of the rTasks that write one.
RING, THREADS = 64 * 96, {"ring64": 64, "ring96": 96}
#: Of a block: four of them fill a multiprocessor of 228 KB.
_SHARED_BYTES = 48 << 10
_RING = """
static __device__ __forceinline__ void {name}(
    long long* a, long long* b, long long* held, int task, int thread) {{
  const int n = task * {threads} + thread;
  long long sum = {threads};
  for (int i = 0; i < 8; ++i) sum += a[(n * 5 + i * 97) % {length}] * (i + 2);
  held[thread] = sum % 1000003;
  {barrier}({threads});
  b[n] = held[{threads} - 1 - thread];
}}
"""


def ring_functions() -> Mapping[str, RTaskFunction]:
    """Whose rTasks read what others wrote all over one buffer, and write a part of another."""
    functions: dict[str, RTaskFunction] = {}
    for name, threads in THREADS.items():
        source = _RING.format(name=name, threads=threads, length=RING, barrier=BARRIER)
        tasks = RING // threads
        functions[name] = RTaskFunction(
            "", name, source, tasks, threads, (0, 1), (0,), _SHARED_BYTES
        )
    return functions


def ring_program(lanes: int, operators: int, seed: int) -> PersistentProgram:
    """Operators that write three buffers in turn, each reading the one before.

    So every vEU reads what others wrote where it has read before, which its multiprocessor may
    still hold as it was.
    """
    random, functions = Random(seed), ring_functions()
    steps: list[list[RTasks]] = [[] for _ in range(lanes)]
    ring: list[ROperator] = []
    for number in range(operators):
        kernel = random.randrange(len(functions))
        waits = (number - 1,) if number else ()
        ring.append(ROperator(kernel, (number % 3, (number + 1) % 3), number, waits))
        tasks = list(functions.values())[kernel].tasks
        cuts = {0, tasks, *(random.randint(0, tasks) for _ in range(lanes))}
        for begin, end in pairwise(sorted(cuts)):
            steps[random.randrange(lanes)].append(RTasks(number, begin, end))
    return PersistentProgram(
        tuple(map(tuple, steps)),
        tuple(ring),
        tuple(functions),
        tuple(Buffer(f"b{n}", BufferType((RING,), "int64"), Role.OUTPUT) for n in range(3)),
        tuple(f"u{n}" for n in range(operators)),
        tuple(KernelUse(f.tasks, 2, (1,)) for f in functions.values()),
    )


def run_ring(program: PersistentProgram, buffers: list[Any]) -> None:
    """What a persistent kernel of it does to the buffers."""
    for operator in program.operators:
        a, threads = buffers[operator.buffers[0]], THREADS[program.kernels[operator.kernel]]
        sums = np.full(RING, threads)
        for i in range(8):
            sums += a[(np.arange(RING) * 5 + i * 97) % RING] * (i + 2)
        in_tasks = (sums % 1000003).reshape(-1, threads)
        buffers[operator.buffers[1]] = in_tasks[:, ::-1].reshape(-1)
