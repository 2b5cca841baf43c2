"""TVM's own builds are made once for equal models, and no folder or disk is filled with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers import kept_tvm_builds
from runtime_ext.peers.kept_tvm_builds import kept_tvm_build
from tests.relax.relax_sketch import module_of

TARGET = tvm.target.Target(host_target(1))


def added(number: float) -> tvm.IRModule:
    return module_of([(4, 6)], lambda s, x: s.emit(relax.op.add(x, relax.const(number))))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tvm.IRModule]:
    """The modules that were compiled."""
    modules: list[tvm.IRModule] = []
    compile_tvm_build = kept_tvm_builds.compile_tvm_build

    def noted(module: tvm.IRModule, target: Any, path: Path) -> None:
        modules.append(module)
        compile_tvm_build(module, target, path)

    monkeypatch.setattr(kept_tvm_builds, "compile_tvm_build", noted)
    return modules


def test_equal_models_are_compiled_once(tmp_path: Path, compiled: list[tvm.IRModule]) -> None:
    for name, number in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        kept_tvm_build(added(number), TARGET, tmp_path / f"{name}.so", tmp_path / "kept")
    assert len(compiled) == 2
    first, second, third = ((tmp_path / f"{name}.so").read_bytes() for name in "abc")
    assert first == second != third


def test_models_with_other_constants_are_compiled_each(
    tmp_path: Path, compiled: list[tvm.IRModule]
) -> None:
    """TVM's structural hash of these is the same."""
    for number in (-1, 3):
        module = module_of(
            [(4, 6)],
            lambda s, x, n=number: s.emit(
                relax.op.equal(s.emit(relax.op.astype(x, "int64")), relax.const(n, "int64"))
            ),
        )
        kept_tvm_build(module, TARGET, tmp_path / "a.so", tmp_path / "kept")
    assert len(compiled) == 2


def test_a_damaged_one_is_compiled_again(tmp_path: Path, compiled: list[tvm.IRModule]) -> None:
    kept_tvm_build(added(1.0), TARGET, tmp_path / "a.so", tmp_path / "kept")
    (kept,) = (tmp_path / "kept").glob("*.so")
    kept.write_bytes(kept.read_bytes()[:-1])
    kept_tvm_build(added(1.0), TARGET, tmp_path / "b.so", tmp_path / "kept")
    assert len(compiled) == 2
    assert kept.read_bytes() == (tmp_path / "b.so").read_bytes()


def test_the_oldest_go(
    tmp_path: Path, compiled: list[tvm.IRModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    kept_tvm_build(added(1.0), TARGET, tmp_path / "a.so", folder)
    size = (tmp_path / "a.so").stat().st_size
    monkeypatch.setattr(kept_tvm_builds, "_MOST_BYTES", int(2.5 * size))
    # The last but one was used again, so that the second one is the oldest.
    for number in (2.0, 1.0, 3.0):
        kept_tvm_build(added(number), TARGET, tmp_path / "a.so", folder)
    assert len(list(folder.glob("*.so"))) == len(list(folder.glob("*.json"))) == 2
    kept_tvm_build(added(1.0), TARGET, tmp_path / "a.so", folder)
    assert len(compiled) == 3


def test_none_fills_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = kept_tvm_builds.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        kept_tvm_builds.shutil, "disk_usage", lambda _: usage._replace(free=65 << 20)
    )
    monkeypatch.setattr(kept_tvm_builds, "_PART_OF_FREE", 1e-6)
    kept_tvm_build(added(1.0), TARGET, tmp_path / "a.so", tmp_path / "kept")
    assert (tmp_path / "a.so").exists()
    assert not list((tmp_path / "kept").iterdir())
