"""Instructions that few processors have, as LLVM's IR that any can run."""

from __future__ import annotations

from collections.abc import Mapping

from runtime_ext.cpu.forms.packs.matrix_registers import Register


def multiply_pairs(lanes: int) -> str:
    """Products of pairs of bfloat16, added to sums: ``vdpbf16ps``, but of subnormal ones too."""
    floats, integers = f"<{lanes} x float>", f"<{lanes} x i32>"
    return f"""
define {floats} @multiply_packs({floats} %sum, {integers} %x, {integers} %y) {{
  %x0 = shl {integers} %x, splat (i32 16)
  %y0 = shl {integers} %y, splat (i32 16)
  %x1 = and {integers} %x, splat (i32 -65536)
  %y1 = and {integers} %y, splat (i32 -65536)
  %fx0 = bitcast {integers} %x0 to {floats}
  %fy0 = bitcast {integers} %y0 to {floats}
  %fx1 = bitcast {integers} %x1 to {floats}
  %fy1 = bitcast {integers} %y1 to {floats}
  %p1 = fmul {floats} %fx1, %fy1
  %p0 = fmul {floats} %fx0, %fy0
  %s1 = fadd {floats} %sum, %p1
  %s0 = fadd {floats} %s1, %p0
  ret {floats} %s0
}}
"""


def multiply_fours(lanes: int) -> str:
    """Products of four unsigned bytes with signed ones, added to sums: ``vpdpbusd``."""
    integers = f"<{lanes} x i32>"
    products = "".join(
        f"""
  %a{i} = lshr {integers} %a, splat (i32 {8 * i})
  %x{i} = and {integers} %a{i}, splat (i32 255)
  %b{i} = shl {integers} %b, splat (i32 {24 - 8 * i})
  %y{i} = ashr {integers} %b{i}, splat (i32 24)
  %p{i} = mul {integers} %x{i}, %y{i}
  %t{i + 1} = add {integers} %t{i}, %p{i}"""
        for i in range(4)
    )
    return f"""
define {integers} @multiply_packs({integers} %t0, {integers} %a, {integers} %b) {{{products}
  ret {integers} %t4
}}
"""


def matrix_functions(registers: Mapping[int, Register], numbers: str) -> str:
    """As :func:`runtime_ext.cpu.forms.packs.matrix_registers.functions`, of registers in memory."""
    multiply = multiply_pairs(16) if numbers == "bfloat16" else multiply_fours(16)
    text = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        multiply.replace("define", "define internal"),
        "define void @configure() { ret void }",
        "define void @release() { ret void }",
    ]
    for i, register in registers.items():
        text += [
            f"@register_{i} = internal global [{64 * register.rows} x i8] zeroinitializer",
            f"define void @clear_{i}() {{ "
            f"store [{64 * register.rows} x i8] zeroinitializer, ptr @register_{i} ret void }}",
            _moved(f"load_{i}", i, register, "ptr %in_register, ptr %in_memory"),
            _moved(f"store_{i}", i, register, "ptr %in_memory, ptr %in_register"),
        ]
        text += [
            _multiplied((i, j, k), register.rows, registers[k], numbers)
            for j in registers
            for k in registers
            if len({i, j, k}) == 3
            and (registers[j].rows, registers[j].packs) == (register.rows, registers[k].rows)
        ]
    return "\n".join(text)


def _moved(name: str, number: int, register: Register, pointers: str) -> str:
    return f"""
define void @{name}(ptr %pointer, i64 %stride) {{
entry:
  br label %rows
rows:
  %row = phi i64 [ 0, %entry ], [ %next, %rows ]
  %offset = mul i64 %row, %stride
  %in_memory = getelementptr i8, ptr %pointer, i64 %offset
  %in_register = getelementptr [64 x i8], ptr @register_{number}, i64 %row
  call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {4 * register.packs}, i1 false)
  %next = add i64 %row, 1
  %more = icmp ult i64 %next, {register.rows}
  br i1 %more, label %rows, label %end
end:
  ret void
}}"""


def _multiplied(numbers: tuple[int, int, int], rows: int, weights: Register, of: str) -> str:
    sums, data, weight = (f"@register_{number}" for number in numbers)
    kind = "float" if of == "bfloat16" else "i32"
    return f"""
define void @multiply_{"_".join(map(str, numbers))}() {{
entry:
  br label %packs
packs:
  %at = phi i64 [ 0, %entry ], [ %next, %packs ]
  %row = udiv i64 %at, {weights.rows}
  %k = urem i64 %at, {weights.rows}
  %sums = getelementptr [64 x i8], ptr {sums}, i64 %row
  %data = getelementptr [64 x i8], ptr {data}, i64 %row
  %pack_at = getelementptr i32, ptr %data, i64 %k
  %pack = load i32, ptr %pack_at
  %first = insertelement <16 x i32> poison, i32 %pack, i32 0
  %all = shufflevector <16 x i32> %first, <16 x i32> poison, <16 x i32> zeroinitializer
  %weights = getelementptr [64 x i8], ptr {weight}, i64 %k
  %b = load <16 x i32>, ptr %weights, align 1
  %sum = load <16 x {kind}>, ptr %sums, align 1
  %new = call <16 x {kind}> @multiply_packs(<16 x {kind}> %sum, <16 x i32> %all, <16 x i32> %b)
  store <16 x {kind}> %new, ptr %sums, align 1
  %next = add i64 %at, 1
  %more = icmp ult i64 %next, {rows * weights.rows}
  br i1 %more, label %packs, label %end
end:
  ret void
}}"""
