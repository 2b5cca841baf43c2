"""TVM's own build, with which everything is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relax, topi

from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers import tvm_build
from tests.refusals import refused
from tests.relax.relax_sketch import module_of
from tvm_ios.errors import UserError


def test_modules_with_functions_in_tir_are_compiled(tmp_path: Path) -> None:
    module = module_of([(4, 6)], lambda s, x: s.builder.emit_te(topi.tile, x, [1, 2]))
    tvm_build.compile_tvm_build(module, host_target(1), tmp_path / "tvm.so")
    assert [path.name for path in tmp_path.iterdir()] == ["tvm.so"]


def test_a_disk_without_room_for_the_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = tvm_build.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        tvm_build.shutil, "disk_usage", lambda _: usage._replace(free=(64 << 20) + 100)
    )
    weights = module_of([(4, 6)], lambda s, x: s.emit(relax.op.add(x, s.normal(4, 6))))
    with refused(UserError, "64 MB", "TMPDIR"):
        tvm_build.compile_tvm_build(weights, host_target(1), tmp_path / "tvm.so")
    assert not list(tmp_path.iterdir())
