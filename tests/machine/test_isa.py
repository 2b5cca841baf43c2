"""Instruction sets agree with TVM's targets and with the loader."""

from __future__ import annotations

import pytest
import tvm

from runtime_ext.isa.arm import AARCH64, NEON
from runtime_ext.isa.isa import BYTES, Level
from runtime_ext.isa.levels import best_level, isa_of, level_named, level_of
from runtime_ext.isa.x86 import AVX, AVX512, LEVELS, SSE, V2, V3, V4
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.machine.this_machine import host_target
from runtime_ext.native_library import load_native_library
from tvm_ios.errors import UserError
from tvm_ios.program.bfloat16 import FORM

ALL = (*LEVELS.values(), AARCH64)


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
    for level, isa in ((V2, SSE), (V3, AVX), (V4, AVX512), (AARCH64, NEON)):
        found = isa_of(host_target(2, level.name))
        assert (found.lanes, found.registers) == (isa.lanes, isa.registers)
        assert level.flops == 4 * found.lanes
        assert found.fuses == (level is not V2)
        assert ("int16" in found.products) == (level is not AARCH64)
        assert not found.matrices
        assert not {BYTES, FORM} & set(found.products)


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
    assert best_level("aarch64", ()) is AARCH64
    with pytest.raises(UserError, match="has less"):
        best_level("x86_64", V2.features - {"sse4.2"})


def test_levels_are_known_by_name_and_by_an_older_llvms_processor() -> None:
    assert [level_named(level.name) for level in ALL] == list(ALL)
    assert level_of("haswell") == V3.name
    assert level_of("znver4") == "znver4"


def test_other_kinds_of_targets_have_no_vectors() -> None:
    with pytest.raises(UserError, match="the target's kind is cuda"):
        isa_of(tvm.target.Target({"kind": "cuda", "arch": "sm_90"}))
