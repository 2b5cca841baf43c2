"""Kernels are compiled once, cached by content, exported, and vectorised as the target allows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tvm
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.kernel_build import tir_of
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.fast_run import one_in
from tests.kernels.kernel_harness import (
    AVX2,
    AVX512,
    host_target,
    make_unit,
    random_tensors,
    run_unit,
)
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.program.program import BufferType

op = relax.op
NHWC2 = ("NHWC", "NHWC")


def convolution(channels: int = 24, out: int = 40) -> Any:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, padding=1)), b)))

    return make_unit([(1, channels, 9, 15)], [(out, channels, 3, 3), (1, out, 1, 1)], body)


def softmax() -> Any:
    return make_unit([(4, 10)], [], lambda emit, x: op.nn.softmax(x, axis=1))


def sources() -> dict[str, UnitSource]:
    return {
        "a": UnitSource(convolution(), NHWC2),
        "same": UnitSource(convolution(), NHWC2),
        "plain": UnitSource(convolution(), ("", "")),
        "softmax": UnitSource(softmax(), ("", "")),
    }


def test_equal_units_share_code_and_are_compiled_once(tmp_path: Path) -> None:
    kernels = KernelCompiler(host_target(), 2, tmp_path)
    seen: list[tuple[int, int]] = []
    units = kernels.compile(sources(), lambda done, total: seen.append((done, total)))
    assert units["a"] == units["same"]
    assert units["a"].key != units["plain"].key
    assert kernels.compiled == 3
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
    again = kernels.compile(sources())
    assert again == units
    assert kernels.compiled == 3


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    units = KernelCompiler(host_target(), 2, tmp_path).compile(sources())
    later = KernelCompiler(host_target(), 2, tmp_path)
    assert later.compile(sources()) == units
    assert later.compiled == 0
    arguments = random_tensors([(1, 24, 9, 15), (40, 24, 3, 3), (1, 40, 1, 1)])
    run_unit(later, units["a"], NHWC2, arguments[:1], arguments[1:])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "damage"),
    one_in(
        3,
        several=True,
        cases=[
            ("o", truncate),
            ("o", flip),
            ("o", Path.unlink),
            ("json", truncate),
            ("json", Path.unlink),
            ("json", lambda p: p.write_text("[]")),
            ("json", lambda p: p.write_text("[" * 100_000)),
            ("json", lambda p: p.write_text(p.read_text().replace('", 9,', '", 10,'))),
            ("json", lambda p: p.write_bytes(bytes(range(256)))),
        ],
    ),
)
def test_a_damaged_entry_is_compiled_again(
    tmp_path: Path, suffix: str, damage: Callable[[Path], Any]
) -> None:
    chosen = {"a": UnitSource(convolution(), NHWC2)}
    units = KernelCompiler(host_target(), 2, tmp_path).compile(chosen)
    (key,) = units["a"].kernels
    damage(tmp_path / f"{key}.{suffix}")
    later = KernelCompiler(host_target(), 2, tmp_path)
    assert later.compile(chosen) == units
    assert later.compiled == 1
    third = KernelCompiler(host_target(), 2, tmp_path)
    third.compile(chosen)
    assert third.compiled == 0


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused(UserError, "file/kernels", "TVM_IOS_CACHE"):
        KernelCompiler(host_target(), 2, tmp_path / "file" / "kernels")


def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = KernelCompiler(host_target(), 2, tmp_path)
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left") as caught:
        kernels.compile({"a": UnitSource(convolution(), NHWC2)})
    assert caught.value.filename == str(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = KernelCompiler(host_target(), 2, tmp_path)
    unit = kernels.compile({"a": UnitSource(convolution(), NHWC2)})["a"]
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with refused(UserError, "g++", "tvm-ios[linker]"):
        kernels.function(unit.code.calls[0].symbol)


def test_keys_tell_targets_and_shapes_apart(tmp_path: Path) -> None:
    def key(target: Any, **shape: int) -> str:
        kernels = KernelCompiler(target, 2, tmp_path)
        unit = kernels.compile({"u": UnitSource(convolution(**shape), NHWC2)})["u"]
        return unit.kernels[0]

    assert len({key(AVX2), key(AVX2, out=41), key(AVX512)}) == 3
    # On the number of lanes no kernel depends.
    assert key(AVX2) == key({**AVX2, "num-cores": 1})


def test_exported_library_needs_only_the_runtime(tmp_path: Path) -> None:
    kernels = KernelCompiler(host_target(), 2, tmp_path / "cache")
    units = kernels.compile(sources())
    arguments = random_tensors([(1, 24, 9, 15), (40, 24, 3, 3), (1, 40, 1, 1)])
    (want,) = run_unit(kernels, units["a"], NHWC2, arguments[:1], arguments[1:])
    calls = units["a"].code.calls
    softmax_calls = units["softmax"].code.calls
    kernels.export(tmp_path / "k.so", [c.symbol for c in (*calls, *softmax_calls)])
    packed = [use.transform.apply(arguments[use.parameter]) for use in units["a"].constants]
    image = np.ascontiguousarray(arguments[0].transpose(0, 2, 3, 1))
    np.savez(tmp_path / "in.npz", *[image, *packed])
    script = f"""
import numpy as np, tvm
module = tvm.runtime.load_module({str(tmp_path / "k.so")!r})
values = [v for _, v in np.load({str(tmp_path / "in.npz")!r}).items()]
values.append(np.zeros((1, 9, 15, 40), "float32"))
tensors = [tvm.runtime.tensor(v) for v in values]
for symbol, tiles, arguments in {[(c.symbol, c.tiles, c.arguments) for c in calls]!r}:
    module[symbol](*(tensors[a] for a in arguments), 0, tiles)
for symbol in {[c.symbol for c in softmax_calls]!r}:
    assert module[symbol] is not None
np.save({str(tmp_path / "out.npy")!r}, tensors[-1].numpy())
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    got = np.load(tmp_path / "out.npy").transpose(0, 3, 1, 2)
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()
    with pytest.raises(KeyError, match="no kernel"):
        kernels.export(tmp_path / "other.so", ["kmissing_0"])


def test_a_plan_refuses_buffers_that_are_not_its_kernels() -> None:
    space = VectorSpace(isa_of(tvm.target.Target(host_target())))
    plan = plan_unit(UnitSource(convolution(), NHWC2), space)
    with pytest.raises(ValueError, match=r"^Contraction takes buffers of .*\(1, 2, 3\)"):
        replace(plan, inputs=(BufferType((1, 2, 3)),))


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_inner_loops_are_fused_multiply_adds_in_registers(
    target: dict[str, Any], register: str
) -> None:
    machine = tvm.target.Target(target)
    unit = isa_of(machine)
    (kernel,) = plan_unit(UnitSource(convolution(64, 64), NHWC2), VectorSpace(unit)).kernels
    (phase,) = tir_of(kernel.spec, machine, unit).phases
    function = phase.function.with_attr("global_symbol", "k")
    text = tvm.compile(tvm.IRModule({"k": function}), target=machine).mod.inspect_source("asm")
    multiply_adds = [line for line in text.splitlines() if "vfmadd" in line]
    assert len(multiply_adds) > 50
    assert all(register in line for line in multiply_adds)
    assert "Spill" not in text
    assert len(multiply_adds) > 5 * text.count("vmulps")
    assert "BackendAllocWorkspace" not in text


def test_what_cannot_be_a_unit_is_refused(tmp_path: Path) -> None:
    with refused(UserError, "cuda", "llvm"):
        KernelCompiler({"kind": "cuda", "arch": "sm_90"}, 2, tmp_path)
    kernels = KernelCompiler(host_target(), 2, tmp_path)
    with refused(ValueError, "1 inputs", "1 outputs", "1 layouts"):
        kernels.compile({"a": UnitSource(convolution(), ("NHWC",))})
