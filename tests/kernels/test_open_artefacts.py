"""Descriptions of kernels of open extents on disk, and their keys."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime_ext.kernels.artefact import (
    Artefact,
    ArtefactCache,
    KernelPhase,
    kernel_key,
    workload_text,
)
from tvm_ios.shapes.extent import Symbol, extent_of

LENGTH = Symbol("length", 1, 512, hint=128)
L = extent_of(LENGTH)
OPEN = Artefact(
    "key",
    (KernelPhase("kkey_0", 4 * -(-L // 6), (0, 2), ("length",)), KernelPhase("kkey_1", 3, (1, 2))),
    (((L, 4), "float32"), ((7,), "int64")),
)


def test_open_tiles_and_scratch_come_back(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)
    cache.add(OPEN, b"code")
    assert repr(cache.find("key")) == repr(OPEN)


def test_descriptions_of_exact_kernels_have_no_table(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)
    exact = replace(OPEN, phases=OPEN.phases[1:], scratch=OPEN.scratch[1:])
    cache.add(exact, b"code")
    assert cache.find("key") == exact
    assert "expressions" not in json.loads((tmp_path / "key.json").read_text())


@pytest.mark.parametrize("damage", ["e9", 7.5, None])
def test_damaged_expressions_are_as_if_missing(
    tmp_path: Path, damage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ArtefactCache(tmp_path)
    cache.add(OPEN, b"code")
    file = tmp_path / "key.json"
    data = json.loads(file.read_text())
    data["phases"][0][1] = damage
    file.write_text(json.dumps(data))
    assert cache.find("key") is None
    monkeypatch.setattr("runtime_ext.kernels.artefact._digest", lambda *_: data["sha256"])
    assert cache.find("key") is None


def test_keys_tell_ranges_and_hints_apart() -> None:
    ranges = [LENGTH, replace(LENGTH, most=256), replace(LENGTH, least=2), replace(LENGTH, hint=64)]
    extents = [extent_of(symbol) for symbol in ranges]
    assert len({repr(extent) for extent in extents}) == 1
    keys = {kernel_key(workload_text((extent * 2,)), "llvm") for extent in extents}
    assert len(keys) == len(ranges)
    assert workload_text((1, 2)) == "(1, 2)"
