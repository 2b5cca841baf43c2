"""Kernels for tests on a real GPU, and NVRTC, which compiles them on any machine."""

from __future__ import annotations

LENGTH = 24
# Each kernel dawdles by what it has computed, so that streams overtake each other.
SOURCE = """
#define MIX(a, b, x) \\
  extern __shared__ long long mixed[]; \\
  const int n = threadIdx.x; \\
  mixed[n] = (x[n] * 7 + a[(n + 1) % 24] * 5 + b[(n + 2) % 24] * 3 + 1) % 1000003; \\
  __syncthreads(); \\
  const long long until = clock64() + mixed[0] % 64 * 400; \\
  while (clock64() < until) {} \\
  x[n] = mixed[n];
extern "C" __global__ void mix0(long long* x) { MIX(x, x, x) }
extern "C" __global__ void mix1(long long* a, long long* x) { MIX(a, a, x) }
extern "C" __global__ void mix2(long long* a, long long* b, long long* x) { MIX(a, b, x) }
extern "C" __global__ void count(long long* steps, long long* x) { x[0] = ++steps[0]; }
extern "C" __global__ void broken(long long* x) { *(volatile int*)8 = 1; }
"""


def compile_kernels(arch: str) -> bytes:
    """The cubin of the kernels above for an architecture."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"tests.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={arch}".encode()])
    assert not status, status
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    made = b" " * size
    nvrtc.nvrtcGetCUBIN(program, made)
    return made
