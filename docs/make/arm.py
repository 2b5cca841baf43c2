"""Estimate kernels' inner loops on cores of 64-bit Arm by llvm-mca, and print docs/arm.md's table.

Run ``python docs/make/arm.py`` with Debian's package llvm-22 installed.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

from tvm import relax

from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.arm import NEON
from runtime_ext.machine.this_machine import host_target
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource

#: LLVM's names of cores that it has a model of, and multiply-adds of 128 bits a cycle there.
CORES = {
    "Cortex-A53": ("cortex-a53", 1),
    "Cortex-A72": ("cortex-a72", 1),
    "Neoverse N1": ("neoverse-n1", 2),
    "Neoverse V1": ("neoverse-v1", 4),
    "Neoverse V2": ("neoverse-v2", 4),
}
_ROUNDS = 200
_LABEL = re.compile(r"^(\.LBB\w+):")


def convolution(size: int, channels: int, extent: int, outputs: int) -> Any:
    """Return a unit of one convolution."""
    builder = relax.BlockBuilder()
    shapes = ((1, channels, extent, extent), (outputs, channels, size, size))
    params = [relax.Var(f"p{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("unit", params, attrs={"num_input": 1}):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.conv2d(*params, padding=size // 2))
        builder.emit_func_output(out)
    return builder.finalize()["unit"]


KERNELS = {
    "3x3, 64 to 64 channels, 28x28": convolution(3, 64, 28, 64),
    "1x1, 256 to 64 channels, 14x14": convolution(1, 256, 14, 64),
    "3x3, 3 to 32 channels, 56x56": convolution(3, 3, 56, 32),
}


def inner_loop(function: Any) -> tuple[str, list[str]]:
    """Return the register tile of a unit's first contraction, and its inner loop's instructions."""
    (kernel, *_) = plan_unit(UnitSource(function, ("NHWC", "NHWC")), VectorSpace(NEON)).kernels
    _, module = build_kernel(kernel.spec, "arm", host_target(1, "armv8-a"), NEON)
    lines = [line.strip() for line in module.inspect_source("asm").splitlines()]
    begins = {found[1]: n for n, line in enumerate(lines) if (found := _LABEL.match(line))}
    best: list[str] = []
    for end, line in enumerate(lines):
        begin = begins.get(line.split()[-1]) if line.startswith(("b.", "cbn", "tbn")) else None
        if begin is None or begin > end:
            continue
        loop = lines[begin + 1 : end + 1]
        is_innermost = not any(_LABEL.match(one) for one in loop)
        if is_innermost and _products(loop) > _products(best):
            best = loop
    tile = kernel.spec.blocking
    return f"{tile.pixels}x{tile.vectors}", [one for one in best if not one.startswith((".", "//"))]


def cycles(loop: list[str], processor: str) -> float:
    """Return the cycles of one round of a loop."""
    command = ["llvm-mca-22", "-mtriple=aarch64-linux-gnu", f"-mcpu={processor}"]
    text = ".L:\n" + "\n".join([*loop[:-1], re.sub(r"\.L\w+", ".L", loop[-1])]) + "\n"
    done = subprocess.run(
        [*command, f"-iterations={_ROUNDS}"], input=text, capture_output=True, text=True, check=True
    )
    (total,) = re.findall(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(total) / _ROUNDS


def _products(loop: list[str]) -> int:
    return sum(one.startswith("fmla") for one in loop)


def main() -> None:
    """Print the table."""
    print(f"| convolution | tile | multiply-adds | {' | '.join(CORES)} |")
    print("|---" * (3 + len(CORES)) + "|")
    for name, function in KERNELS.items():
        tile, loop = inner_loop(function)
        shares = [
            _products(loop) / peak / cycles(loop, processor) for processor, peak in CORES.values()
        ]
        told = " | ".join(f"{100 * share:.0f} %" for share in shares)
        print(f"| {name} | {tile} | {_products(loop)} of {len(loop)} | {told} |")


if __name__ == "__main__":
    main()
