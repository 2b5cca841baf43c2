"""Estimate kernels' inner loops on cores of 64-bit Arm by llvm-mca, and print docs/arm.md's tables.

Run ``python docs/make/arm.py`` with Debian's package llvm-22 installed.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import Any

from tvm import relax

from runtime_ext.cpu.forms.registry import named_plans
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import BYTES
from runtime_ext.isa.levels import isa_of
from runtime_ext.machine.this_machine import host_target
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tvm_ios.program.bfloat16 import FORM

#: LLVM's names of cores that it has a model of, and multiply-adds of 128 bits a cycle there.
CORES = {
    "Cortex-A53": ("cortex-a53", 1),
    "Cortex-A72": ("cortex-a72", 1),
    "Neoverse N1": ("neoverse-n1", 2),
    "Neoverse V1": ("neoverse-v1", 4),
    "Neoverse V2": ("neoverse-v2", 4),
}
#: Forms of products of packs: the level, the instruction, its multiplications, cores that have it.
FORMS = {
    BYTES: [
        ("armv8-a+dotprod", "sdot", 16, ("Neoverse N1", "Neoverse V1", "Neoverse V2")),
        ("armv8-a+i8mm", "usmmla", 32, ("Neoverse V1", "Neoverse V2")),
    ],
    FORM: [("armv8-a+bf16", "bfmmla", 16, ("Neoverse V1", "Neoverse V2"))],
}
_OF_FLOATS = 4
_ROUNDS = 200
_LABEL = re.compile(r"^(\.LBB\w+):")
_PRODUCT = re.compile(r"(fmla|sdot|usmmla|bfmmla)\s+(\w+)")


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


@dataclass
class Loop:
    """The inner loop of a contraction's largest register tile."""

    tile: str
    instructions: list[str]

    @property
    def products(self) -> int:
        """Its instructions that multiply."""
        return sum(bool(_PRODUCT.match(one)) for one in self.instructions)

    def cycles(self, processor: str) -> float:
        """Return the cycles of one round."""
        command = ["llvm-mca-22", "-mtriple=aarch64-linux-gnu", f"-mcpu={processor}"]
        *body, branch = self.instructions
        text = "\n".join([".L:", *body, re.sub(r"\.L\w+", ".L", branch), ""])
        done = subprocess.run(
            [*command, f"-iterations={_ROUNDS}"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        (total,) = re.findall(r"Total Cycles:\s+(\d+)", done.stdout)
        return int(total) / _ROUNDS

    def rate(self, core: str) -> float:
        """Return the products a cycle of a core."""
        return self.products / self.cycles(CORES[core][0])


def inner_loop(function: Any, level: str = "armv8-a", form: str = "") -> Loop:
    """Return the inner loop of a unit's contraction, by the default plan or one of a form."""
    target = host_target(1, level)
    space = VectorSpace(isa_of(target))
    layouts = ("NHWC", "NHWC")
    integers = ((0.0, 255.0), (-127.0, 127.0)) if form == BYTES else ()
    source = UnitSource(function, layouts, integers=integers)
    plan = named_plans(source, space)[form] if form else plan_unit(source, space)
    spec = plan.kernels[-1].spec
    _, module = build_kernel(spec, "arm", target, space.isa)
    lines = [line.strip() for line in module.inspect_source("asm").splitlines()]
    begins = {found[1]: n for n, line in enumerate(lines) if (found := _LABEL.match(line))}
    best: list[str] = []
    for end, line in enumerate(lines):
        begin = begins.get(line.split()[-1]) if line.startswith(("b.", "cbn", "tbn")) else None
        if begin is None or begin > end:
            continue
        loop = lines[begin + 1 : end + 1]
        is_innermost = not any(_LABEL.match(one) for one in loop)
        if is_innermost and _size(loop) > _size(best):
            best = loop
    tile = getattr(spec, "contraction", spec).blocking
    instructions = [one for one in best if not one.startswith((".", "//"))]
    return Loop(f"{tile.pixels}x{tile.vectors}", instructions)


def _size(loop: list[str]) -> tuple[int, int]:
    """Return the registers that a loop adds products to, and its products."""
    sums = [found[2] for one in loop if (found := _PRODUCT.match(one))]
    return len(set(sums)), len(sums)


def main() -> None:
    """Print the tables: of float32, then of the forms beside it."""
    floats = {name: inner_loop(function) for name, function in KERNELS.items()}
    print(f"| convolution | tile | multiply-adds | {' | '.join(CORES)} |")
    print("|---" * (3 + len(CORES)) + "|")
    for name, loop in floats.items():
        shares = [loop.rate(core) / peak for core, (_, peak) in CORES.items()]
        told = " | ".join(f"{100 * share:.0f} %" for share in shares)
        count = f"{loop.products} of {len(loop.instructions)}"
        print(f"| {name} | {loop.tile} | {count} | {told} |")
    cores = FORMS[BYTES][0][3]
    print(f"\n| convolution | instruction | tile | products | {' | '.join(cores)} |")
    print("|---" * (4 + len(cores)) + "|")
    for name, function in KERNELS.items():
        for form, level, product, multiplications, having in (
            (form, *row) for form, rows in FORMS.items() for row in rows
        ):
            loop = inner_loop(function, level, form)
            times = [
                f"{loop.rate(core) * multiplications / floats[name].rate(core) / _OF_FLOATS:.1f}"
                if core in having
                else ""
                for core in cores
            ]
            count = f"{loop.products} of {len(loop.instructions)}"
            print(f"| {name} | `{product}` | {loop.tile} | {count} | {' | '.join(times)} |")


if __name__ == "__main__":
    main()
