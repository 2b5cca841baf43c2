"""The matrix registers of AMX, and LLVM IR of the operations on them.

TIR has no such registers. Intrinsics name them by numbers, so that none is preserved over a call
or spilled. A register's rows and bytes are part of a thread's state: a kernel configures them when
it begins and releases them when it ends, so that switching threads does not save them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """The extents of a register's matrix: rows, and packs of 32 bits in each."""

    rows: int
    packs: int


def functions(registers: Mapping[int, Register], multiply: str) -> str:
    """Return functions for ``tirx.call_extern``, as LLVM IR, for the given registers.

    They are ``configure()``, ``release()``, and, of a register by number ``clear_I()``,
    ``load_I(pointer, stride)``, ``store_I(pointer, stride)`` with strides in bytes, and
    ``multiply_I_J_K()``, which adds the product of J and K to I by LLVM's intrinsic ``multiply``.
    """
    memory = "ptr %pointer, i64 %stride"
    text = [
        f"@configuration = private constant [64 x i8] [{configuration(registers)}]",
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8)",
        "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        f"declare void @llvm.{multiply}(i8, i8, i8)",
        _defined("configure", "", "x86.ldtilecfg(ptr @configuration)"),
        _defined("release", "", "x86.tilerelease()"),
    ]
    for i in registers:
        text += [
            _defined(f"clear_{i}", "", f"x86.tilezero(i8 {i})"),
            _defined(f"load_{i}", memory, f"x86.tileloadd64(i8 {i}, {memory})"),
            _defined(f"store_{i}", memory, f"x86.tilestored64(i8 {i}, {memory})"),
        ]
        text += [
            _defined(f"multiply_{i}_{j}_{k}", "", f"{multiply}(i8 {i}, i8 {j}, i8 {k})")
            for j in registers
            for k in registers
            if len({i, j, k}) == 3
        ]
    return "\n".join(text)


def configuration(registers: Mapping[int, Register]) -> str:
    """Return the bytes that ``ldtilecfg`` reads, as an LLVM array: extents of the first palette."""
    data = bytearray(64)
    data[0] = 1
    for number, register in registers.items():
        data[16 + 2 * number] = 4 * register.packs
        data[48 + number] = register.rows
    return ", ".join(f"i8 {byte}" for byte in data)


def _defined(name: str, parameters: str, call: str) -> str:
    return f"define void @{name}({parameters}) alwaysinline {{ call void @llvm.{call} ret void }}"
