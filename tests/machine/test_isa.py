"""Instruction sets agree with TVM's targets and with the loader."""

from __future__ import annotations

import pytest
import tvm

from runtime_ext.isa import arm
from runtime_ext.isa.arm import AARCH64, EXTENSIONS, NEON
from runtime_ext.isa.isa import BYTES, Level
from runtime_ext.isa.levels import best_level, isa_of, level_in, level_named, levels_below
from runtime_ext.isa.x86 import AVX, AVX512, LEVELS, SSE, V2, V3, V4
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.machine.this_machine import host_target, processor_of
from runtime_ext.native_library import load_native_library
from tvm_ios.errors import UserError
from tvm_ios.program.bfloat16 import FORM

V8 = arm.level_named("armv8-a")
WHOLE = arm.level_named("armv8-a+dotprod+fp16+i8mm+bf16")
ALL = (*LEVELS.values(), V8, *(arm.level_named(f"armv8-a+{own}") for own in EXTENSIONS), WHOLE)


@pytest.mark.parametrize("level", ALL, ids=lambda level: level.name)
def test_the_loader_knows_the_features_that_targets_have(level: Level) -> None:
    beyond = {name for names in level.beyond.values() for name in names}
    known = set(map(str, load_native_library()["known_features"]()))
    assert level.features | beyond <= known
    target = host_target(2, level.name)
    assert level.features <= set(required_features(target))
    attributes = {**target.export(), "mattr": sorted(f"+{name}" for name in beyond)}
    if beyond:
        assert beyond <= set(required_features(attributes))


def test_targets_of_levels_have_the_widest_vectors() -> None:
    for level, isa in ((V2, SSE), (V3, AVX), (V4, AVX512), (V8, NEON), (WHOLE, NEON)):
        found = isa_of(host_target(2, level.name))
        assert (found.lanes, found.registers) == (isa.lanes, isa.registers)
        assert level.flops == 4 * found.lanes
        assert found.fuses == (level is not V2)
        assert "int16" in found.products
        assert not found.matrices
        assert ({BYTES, FORM} <= set(found.products)) == (level is WHOLE)
        assert found.rounds == (level is WHOLE)


def test_extensions_of_arm_give_the_products_of_their_packs() -> None:
    """Of several for a type the one with most: packs of two pixels at once."""
    pixels = {"dotprod": {BYTES: 1}, "fp16": {}, "i8mm": {BYTES: 2}, "bf16": {FORM: 2}}
    for own in EXTENSIONS:
        products = isa_of(host_target(2, f"armv8-a+{own}")).products
        assert {kind: of.pixels for kind, of in products.items()} == {"int16": 1, **pixels[own]}
    assert isa_of(host_target(2, WHOLE.name)).products[BYTES].pixels == 2


@pytest.mark.parametrize("level", LEVELS.values(), ids=lambda level: level.name)
def test_features_beyond_a_level_give_the_products_of_their_forms(level: Level) -> None:
    for form, features in level.beyond.items():
        attributes = level.attributes([form], features)
        target = {"kind": "llvm", **level.target, "mattr": attributes}
        isa = isa_of(tvm.target.Target(target))
        assert form in isa.products
        assert (form in isa.matrices) == any(name.startswith("amx") for name in features)
    assert level.attributes(["no such form"], level.features) == []
    assert level.attributes(level.beyond, ()) == []


def test_the_level_of_a_machine_is_the_best_whose_features_it_has() -> None:
    assert best_level("x86_64", V2.features | V3.features | V4.features) is V4
    assert best_level("x86_64", V2.features | V3.features) is V3
    assert best_level(AARCH64, ()) == V8
    assert best_level(AARCH64, {"lse", *WHOLE.features}) == WHOLE
    for machine, features in (("x86_64", V2.features - {"sse4.2"}), ("riscv64", V4.features)):
        with pytest.raises(UserError, match=f"this machine is {machine}"):
            best_level(machine, features)


def test_levels_are_known_by_name_in_targets_and_in_devices() -> None:
    for level in ALL:
        assert level_named(level.name) == level
        target = host_target(2, level.name)
        assert level_in(str(target)) == level.name
        assert level_in(f"some processor, {level.name}, 2 lanes") == level.name
    assert level_in("llvm -mcpu=haswell") == V3.name
    assert level_in("llvm -mcpu=znver4") is None
    assert level_named("armv8-a+fp16+dotprod").name == "armv8-a+dotprod+fp16"
    for name in ("armv8-a+sse4.2", "armv9-a", "aarch64", "x86-64-v9"):
        with pytest.raises(KeyError):
            level_named(name)


def test_code_of_levels_below_runs_on_a_level() -> None:
    assert levels_below(V3) == [V3.name, V2.name]
    assert levels_below(level_named("armv8-a+dotprod+fp16")) == [
        "armv8-a+dotprod+fp16",
        "armv8-a+dotprod",
        "armv8-a+fp16",
        "armv8-a",
    ]
    assert {level.name for level in ALL if level.machine == AARCH64} <= {*levels_below(WHOLE)}


def test_cores_of_arm_are_known_by_their_numbers() -> None:
    cpuinfo = "processor\t: 0\nCPU implementer\t: {}\nCPU part\t: {}\n"
    assert processor_of(cpuinfo.format("0x41", "0xd0c")) == "Neoverse N1"
    assert processor_of(cpuinfo.format("0x41", "0xfff")) == "Arm processor 0x41:0xfff"
    assert processor_of(cpuinfo.format("0x61", "0xd0c")) == "Arm processor 0x61:0xd0c"


def test_other_kinds_of_targets_have_no_vectors() -> None:
    with pytest.raises(UserError, match="the target's kind is cuda"):
        isa_of(tvm.target.Target({"kind": "cuda", "arch": "sm_90"}))
