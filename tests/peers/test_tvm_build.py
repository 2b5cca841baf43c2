"""TVM's own build, with which everything is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, topi

from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers import tvm_build
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.registry import peer_named
from tests.refusals import refused
from tests.relax.relax_sketch import RelaxSketch, module_of
from tests.tuning.tuned_database import convolution, tuned_database
from tvm_ios.errors import UserError


def test_modules_with_functions_in_tir_are_compiled(tmp_path: Path) -> None:
    module = module_of([(4, 6)], lambda s, x: s.builder.emit_te(topi.tile, x, [1, 2]))
    tvm_build.compile_tvm_build(module, host_target(1), tmp_path / "tvm.so")
    assert [path.name for path in tmp_path.iterdir()] == ["tvm.so"]


def test_many_tensors_are_not_joined_by_one_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM's passes call themselves for each parameter: functions of thousands end the process."""

    def joined(s: RelaxSketch, *inputs: Any) -> Any:
        parts = [s.emit(relax.op.concat(inputs[at : at + 40], axis=1)) for at in (0, 40)]
        return s.emit(relax.op.concat(parts, axis=1))

    built: list[tvm.IRModule] = []
    build = tvm_build.relax.build

    def noted(module: tvm.IRModule, **options: Any) -> Any:
        built.append(module)
        return build(module, **options)

    monkeypatch.setattr(tvm_build.relax, "build", noted)
    module = module_of([(1, 2)] * 80, joined)
    tvm_build.compile_tvm_build(module, host_target(1), tmp_path / "tvm.so")
    functions = [f for f in built[0].functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    assert max(len(function.params) for function in functions) == 41


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


def test_what_a_tuning_log_has_of_a_build(tmp_path: Path) -> None:
    """The peer runs what is tuned, and computes what TVM computes without the log."""
    target = tvm.target.Target(host_target(1))
    tuned_database(tmp_path / "log", convolution(16), target)
    random = np.random.default_rng(0)
    outputs: dict[int, list[np.ndarray]] = {}
    for channels in (16, 8):
        function = convolution(channels).with_attr("global_symbol", "main")
        shapes = [[int(n) for n in p.ty.shape.values] for p in function.params]
        inputs = {f"p{i}": random.standard_normal(s, np.float32) for i, s in enumerate(shapes)}
        for name, log in (("plain", None), ("tuned", tmp_path / "log")):
            path = tmp_path / f"{name}{channels}.so"
            tvm_build.compile_tvm_build(tvm.IRModule({"main": function}), target, path, log)
            files = ModelFiles(inputs, 1, None, None, path)
            if (channels, name) == (16, "tuned"):
                assert (files.tvm_library().functions, files.tvm_library().tuned) == (1, 1)
                peer = peer_named("tvm-tuned").start(files)
                outputs[1] = peer.outputs(peer.run())
            else:
                said = "without a tuning log" if log is None else "none of the 1"
                with refused(UserError, said):
                    peer_named("tvm-tuned").start(files)
            if (channels, name) == (16, "plain"):
                peer = peer_named("tvm").start(files)
                outputs[0] = peer.outputs(peer.run())
    np.testing.assert_allclose(outputs[1][0], outputs[0][0], rtol=1e-5, atol=1e-5)
