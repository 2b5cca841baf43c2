"""Peers that serve many requests, each with its settings for that, beside ours."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from runtime_ext.execution.ports import Port
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.peer import PeerError
from runtime_ext.peers.registry import OURS, peer_named, peers_to_compare, serve_peers
from runtime_ext.peers.requests_side_by_side import Peers, Way, serve_side_by_side
from tests.execution.small_executable import small_executable
from tests.onnx_sketch import Sketch, run_on
from tests.refusals import refused
from tvm_ios.contest.rules import Rules
from tvm_ios.errors import UserError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    sketch = Sketch(1, 3, 8, 8)
    onnx.save(sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4))), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(
    ("peer", "ways"),
    [("onnxruntime", ["onnxruntime 2 x 1", "onnxruntime 1 x 2"]), ("openvino", ["openvino"])],
)
def test_each_way_computes_each_request(peer: str, ways: list[str], model: Path) -> None:
    pytest.importorskip(peer)
    rng = np.random.default_rng(0)
    requests = [{"x": rng.standard_normal((1, 3, 8, 8), dtype=np.float32)} for _ in range(8)]
    network = ModelFiles(requests[0], 2, model, None, None)
    with ExitStack() as opened:
        submits = peer_named(peer).serve(network, 3, opened)
        assert list(submits) == ways
        for submit in submits.values():
            futures = [submit(request) for request in requests]
            for request, future in zip(requests, futures, strict=True):
                expected = run_on(onnx.load(model), request)
                np.testing.assert_allclose(future.result()[0], expected[0], rtol=1e-4, atol=1e-5)


def test_on_one_lane_there_is_one_way(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.zeros((1, 3, 8, 8), np.float32)}
    network = ModelFiles(inputs, 1, model, None, None)
    with ExitStack() as opened:
        assert list(peer_named("onnxruntime").serve(network, 2, opened)) == ["onnxruntime 1 x 1"]


def test_who_has_no_settings_for_it_is_refused(model: Path) -> None:
    for peer in OURS.values():
        if not peer.server:
            with refused(PeerError, peer.name):
                peer.require_server()
    assert not {"torch", "tvm"} & set(peers_to_compare(with_log=True, serving=True))
    network = ModelFiles({}, 1, model, None, None)
    with ExitStack() as opened:
        ways, failed = serve_peers(["tvm"], network, 2, opened)
    assert (ways, list(failed)) == ({}, ["tvm"])


def test_who_computes_something_else_is_not_timed(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    executable = small_executable(tmp_path)
    executable.save(tmp_path / "out")
    constants = [np.zeros(port.shape, port.dtype) for port in executable.outputs]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Identity", [f"c{place}"], [port.name])
            for place, port in enumerate(executable.outputs)
        ],
        "zeros",
        [_value(port) for port in executable.inputs],
        [_value(port) for port in executable.outputs],
        [numpy_helper.from_array(array, f"c{place}") for place, array in enumerate(constants)],
    )
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "other.onnx"
    )
    peers = Peers(["onnxruntime"], tmp_path / "other.onnx", 1)
    rules = Rules(rounds=1, seconds=0, minimum=1)
    with refused(UserError, "ours", "onnxruntime 1 x 1"):
        serve_side_by_side({"ours": Way(tmp_path / "out", 2)}, 2, rules, peers=peers)
    served = serve_side_by_side(
        {"ours": Way(tmp_path / "out", 2)}, 2, rules, peers=replace(peers, verified=False)
    )
    assert served.reference == "onnxruntime 1 x 1"
    assert set(served.samples) == set(served.errors) == {"ours", "onnxruntime 1 x 1"}
    assert served.errors["ours"] > 0
    assert all(len(served.latencies[way]) == served.requests for way in served.samples)


def _value(port: Port) -> Any:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
    return onnx.helper.make_tensor_value_info(port.name, kind, port.shape)
