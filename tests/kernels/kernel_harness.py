"""Build small units, run them in tiles, and compare with the module that TVM itself compiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from runtime_ext.cpu import compiler as cpu_compiler
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.forms.packs import matrix_registers
from runtime_ext.isa.isa import Isa, Products
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.relax_function import tensor_types
from runtime_ext.machine import this_machine
from runtime_ext.units.unit import UnitSource
from runtime_ext.units.values import Layout, SliceLayout
from tests.arm.emulator import emulator
from tests.fast_run import is_fast
from tests.kernels.emulated_instructions import matrix_functions, multiply_fours, multiply_pairs
from tvm_ios.files.array_files import Array
from tvm_ios.program.compiled_unit import CompiledUnit

AVX512 = {"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}
SSE = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 2}
AVX2 = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
#: The variable that names a level of Arm's, for which all units are then compiled, and emulated.
LEVEL = "TVM_IOS_TEST_LEVEL"


def host_target() -> dict[str, Any]:
    """The widest of the two targets that this machine can run."""
    with open("/proc/cpuinfo") as info:
        return AVX512 if "avx512vl" in info.read() else AVX2


def targets(*names: str) -> dict[str, dict[str, Any]]:
    """Targets by name, of which a host without AVX-512 runs fewer.

    In a run for Arm the first name stands for its level.
    """
    if level := os.environ.get(LEVEL):
        return {names[0]: this_machine.host_target(2, level).export()}
    known = {"sse": SSE, "avx2": AVX2} | ({"avx512": AVX512} if host_target() is AVX512 else {})
    return {name: known[name] for name in names if name in known}


def in_brief(target: Mapping[str, Any]) -> dict[str, Any]:
    """A target that in a fast run does not optimise, which takes half of the time of compiling.

    For Arm the optimiser is a part of what is tested.
    """
    brief = is_fast() and LEVEL not in os.environ
    return {**target, "opt-level": 0} if brief else {**target}


def make_unit(
    inputs: Sequence[tuple[int, ...]],
    constants: Sequence[tuple[int, ...]],
    body: Callable[..., Any],
) -> Any:
    """A Relax function ``body(emit, *inputs, *constants)`` with its attribute ``num_input``."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"p{i}", relax.TensorType(shape, "float32"))
        for i, shape in enumerate([*inputs, *constants])
    ]
    with builder.function("unit", params, attrs={"num_input": len(inputs)}):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *params))
        builder.emit_func_output(result)
    return builder.finalize()["unit"]


def random_tensors(shapes: Sequence[tuple[int, ...]], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def scaled(weight: Array) -> Array:
    """Weights whose sums of products stay near 1, so that errors compare with results."""
    fan_in = weight.shape[0] if weight.ndim == 2 else int(np.prod(weight.shape[1:]))
    return (weight / np.sqrt(fan_in)).astype("float32")


_machines: dict[int, Any] = {}


def reference(function: Any, arguments: Sequence[Array]) -> list[Array]:
    """What TVM computes without any schedule of ours."""
    digest = tvm_ffi.structural_hash(function, map_free_vars=True)
    if digest not in _machines:
        _machines[digest] = _machine(function)
    result = _machines[digest]["main"](*(tvm.runtime.tensor(a) for a in arguments))
    return [r.numpy() for r in result] if not hasattr(result, "numpy") else [result.numpy()]


def _machine(function: Any) -> Any:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    # It computes next to nothing: optimising it would take most of its time.
    target = tvm.target.Target({"kind": "llvm", "num-cores": 2, "opt-level": 0})
    return relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())


def shape_of(ty: Any) -> tuple[int, ...]:
    return tuple(int(e) for e in ty.shape)


def to_physical(array: Array, layout: Layout) -> Array:
    """As a kernel reads it; what lies around a slice is not a number."""
    if isinstance(layout, SliceLayout):
        whole = np.full(layout.whole(array.shape), np.nan, array.dtype)
        whole[_place(layout, array.shape[layout.axis])] = array
        return to_physical(whole, layout.order)
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if layout == "NHWC" else array


def to_logical(array: Array, layout: Layout, shape: tuple[int, ...]) -> Array:
    """As it was written; nothing may have been written around a slice."""
    if isinstance(layout, SliceLayout):
        place = _place(layout, shape[layout.axis])
        whole = np.array(to_logical(array, layout.order, shape))
        part = whole[place].copy()
        whole[place] = np.nan
        assert np.isnan(whole).all()
        return part
    return array.transpose(0, 3, 1, 2) if layout == "NHWC" else array


def _place(layout: SliceLayout, count: int) -> tuple[slice, ...]:
    return (*[slice(None)] * layout.axis, slice(layout.begin, layout.begin + count))


@cache
def compiler(folder: str, target: str = "host") -> KernelCompiler:
    if level := os.environ.get(LEVEL):
        arm = this_machine.host_target(2, level)
        return KernelCompiler(arm, 2, os.path.join(folder, level), opened=emulator().open)
    chosen = {"host": host_target(), "avx2": AVX2, "sse": SSE}[target]
    return KernelCompiler(in_brief(chosen), 2, os.path.join(folder, target))


#: How a processor may have the instructions of a form: by themselves, or those of matrices too.
MULTIPLYING = ("emulated", "host", "emulated matrices", "host matrices")


def compiler_with(
    form: str, on: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> KernelCompiler:
    """A compiler that has the instructions of a form: emulated, or as this machine has them.

    ``on`` is one of :data:`MULTIPLYING`.
    """
    with_matrices = on.endswith("matrices")
    if level := os.environ.get(LEVEL):
        kernels = compiler(str(folder))
        if on != "host" or form not in kernels.space.isa.products:
            pytest.skip(f"{level} has no such instruction for {form}")
        return kernels
    if on.startswith("host"):
        target = this_machine.host_target(2, forms=[form])
        isa = isa_of(target)
        if form not in (isa.matrices if with_matrices else isa.products):
            pytest.skip(f"this machine has no such instruction for {form}")
        if not with_matrices:
            isa = replace(isa, matrices={})
        given = in_brief(target.export())
    else:
        lanes, matrices = (16, {form: form}) if with_matrices else (8, {})
        code, channels = {"int8": (multiply_fours, 4), "bfloat16": (multiply_pairs, 2)}[form]
        emulated = Products(code(lanes), channels)
        monkeypatch.setattr(matrix_registers, "functions", matrix_functions)
        products = {**isa_of(tvm.target.Target(AVX2)).products, form: emulated}
        isa = Isa(lanes, 16, products=products, matrices=matrices)
        given = in_brief(AVX2)
    monkeypatch.setattr(cpu_compiler, "isa_of", lambda _: isa)
    return KernelCompiler(given, 2, folder)


def multiplies_matrices(kernels: KernelCompiler, form: str, data: Array, weight: Array) -> bool:
    """Whether products of data and weights should be of matrices: not of groups or few pixels."""
    channels = data.shape[1 if weight.ndim == 4 else -1]
    grouped = weight.ndim == 4 and channels != weight.shape[1]
    pixels = data.size // channels
    return form in kernels.space.isa.matrices and not grouped and pixels > 2


def run_unit(
    kernels: KernelCompiler,
    unit: CompiledUnit,
    layouts: Sequence[Layout],
    inputs: Sequence[Array],
    constants: Sequence[Array],
    cuts: Callable[[int], Sequence[int]] = lambda tiles: (0, tiles),
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> list[Array]:
    """Run a unit phase by phase, each phase cut into the given tile ranges (last one first)."""
    code = unit.code
    physical = [to_physical(a, layout) for a, layout in zip(inputs, layouts, strict=False)]
    for use in unit.constants:
        physical.append(use.transform.apply(constants[use.parameter - len(inputs)]))
    first_output = len(code.parameters) - code.outputs
    assert len(physical) == first_output
    for have, want in zip(physical, code.parameters, strict=False):
        assert have.shape == want.shape, (have.shape, want.shape)
    for want in (*code.parameters[first_output:], *code.scratch):
        physical.append(np.full(want.shape, np.nan if want.dtype == "float32" else 0, want.dtype))
    tensors = [tvm.runtime.tensor(a) for a in physical]
    for call in code.calls:
        borders = list(cuts(call.tiles))
        assert borders[0] == 0
        assert borders[-1] == call.tiles
        ranges = list(pairwise(borders))
        for begin, end in reversed(ranges):
            kernels.function(call.symbol)(*(tensors[a] for a in call.arguments), begin, end)
    outputs = tensors[first_output : len(code.parameters)]
    wanted = layouts[len(inputs) :]
    logical = shapes or [()] * len(outputs)
    return [to_logical(t.numpy(), *at) for t, *at in zip(outputs, wanted, logical, strict=True)]


def check(
    folder: str,
    function: Any,
    layouts: Sequence[Layout],
    *,
    seed: int = 0,
    target: str = "host",
    tolerance: float = 2e-5,
    expected: Sequence[Array] | None = None,
) -> CompiledUnit:
    """Compile a unit; compare it with TVM; compare random partitions bit by bit."""
    kernels = compiler(folder, target)
    unit = kernels.compile({"unit": UnitSource(function, tuple(layouts))})["unit"]
    count = int(function.attrs["num_input"])
    arguments = random_tensors([shape_of(p.ty) for p in function.params], seed)
    arguments[count:] = [scaled(a) for a in arguments[count:]]
    inputs, constants = arguments[:count], arguments[count:]
    want = expected if expected is not None else reference(function, arguments)
    shapes = [wish.shape for wish in want]
    got = run_unit(kernels, unit, layouts, inputs, constants, shapes=shapes)
    assert len(got) == len(want)
    for have, wish in zip(got, want, strict=True):
        assert have.shape == wish.shape
        assert np.isfinite(wish).all()
        scale = max(float(np.abs(wish).max()), 1e-30)
        error = float(np.abs(have - wish).max()) / scale
        assert error <= tolerance, f"error {error} in {unit.code.calls}"
    rng = np.random.default_rng(seed)

    def cuts(tiles: int) -> list[int]:
        return [0, *sorted(rng.integers(0, tiles + 1, 3).tolist()), tiles]

    parts = run_unit(kernels, unit, layouts, inputs, constants, cuts, shapes)
    for have, wish in zip(parts, got, strict=True):
        assert have.tobytes() == wish.tobytes()
    return unit


def sliced(function: Any, orders: tuple[str, ...], of_images: int = 1) -> tuple[Layout, ...]:
    """Each tensor of a unit as a range of channels, or of what else is contiguous in memory.

    ``of_images`` is the axis of images: 1 for channels, or 2 for rows.
    """
    count = int(function.attrs["num_input"])
    kinds = [p.ty for p in function.params[:count]] + tensor_types(function.ret_ty)
    layouts: list[Layout] = []
    for number, (kind, order) in enumerate(zip(kinds, orders, strict=True)):
        shape = shape_of(kind)
        axis = of_images if order == "NHWC" else int(shape[0] == 1)
        layouts.append(SliceLayout(order, axis, 3 + number, shape[axis] + 5 + 2 * number))
    return tuple(layouts)
