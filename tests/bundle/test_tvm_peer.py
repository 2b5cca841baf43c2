"""TVM's own build of a network, which runs beside a bundle's programs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.load import load_model
from runtime_ext.bundle.contents import TVM_LIBRARY, read_bundle
from runtime_ext.bundle.network import BundledNetwork
from runtime_ext.bundle.weights import save_weights
from runtime_ext.bundle.writing.tvm_build import compile_tvm_peer, weights_as_parameters
from runtime_ext.cuda.machine_code.source import cuda_target
from runtime_ext.execution.buffers import content_key
from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers.peer import PeerError
from runtime_ext.peers.registry import peer_named
from tests.refusals import refused
from tvm_ios.errors import UserError


def constants(module: Any) -> list[Any]:
    nodes: list[Any] = []
    relax.analysis.post_order_visit(
        module["main"], lambda e: nodes.append(e) if isinstance(e, GenericConst) else None
    )
    return nodes


def test_weights_become_parameters() -> None:
    module = load_model("inception_block").module
    lifted, weights = weights_as_parameters(module)
    old = {content_key(constant.value.numpy()) for constant in constants(module)}
    assert {content_key(array) for array in weights} == old
    assert not constants(lifted)
    main = lifted["main"]
    assert int(main.attrs["num_input"]) == len(main.params) - len(weights) == 1


def test_what_compiles_it_and_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_model("inception_block").module
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    def program(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def refuses(*named: str) -> None:
        with refused(UserError, *named):
            compile_tvm_peer(module, cuda_target("sm_90"), tmp_path / TVM_LIBRARY)

    refuses("nvcc", "g++", "--with-tvm")
    program("nvcc", "exit 0")
    program("g++", "echo no room >&2; exit 1")
    refuses("nm", "No such file or directory")
    program("nm", "echo what is this >&2; exit 1")
    refuses("nm", "what is this", "--with-tvm")
    program("nm", "echo U cuInit")
    refuses("g++", "no room")


def test_a_bundle_without_it_says_so(folder: Path) -> None:
    with refused(PeerError, "--with-tvm"):
        peer_named("tvm").start(BundledNetwork(read_bundle(folder), 1))


@pytest.mark.slow
def test_it_computes_the_reference(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install .[torch]")
    bundle = read_bundle(folder)
    shutil.copytree(folder, tmp_path / "copy")
    model = load_model("inception_block")
    weights = compile_tvm_peer(model.module, host_target(1), tmp_path / "copy" / TVM_LIBRARY)
    arrays = {content_key(array): array for array in weights}
    save_weights(tmp_path / "copy", arrays, {})
    copied = replace(
        bundle,
        folder=tmp_path / "copy",
        about={**bundle.about, "tvm": list(arrays)},
        weights=replace(bundle.weights, file=tmp_path / "copy" / bundle.weights.file.name),
    )
    peer = peer_named("tvm").start(BundledNetwork(copied, 1))
    (first,) = peer.outputs(peer.run())
    peer.run()
    (again,) = peer.outputs(peer.run())
    np.testing.assert_array_equal(first, again)
    session: Any = pytest.importorskip("onnxruntime").InferenceSession(
        model.onnx.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, bundle.reference_inputs)
    assert abs(first - wanted).max() < 1e-5 * abs(wanted).max()
