"""The networks that a bundle is compared with, and how the comparison goes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime_ext.bundle.backend import open_bundle
from runtime_ext.bundle.contents import read_bundle
from runtime_ext.bundle.network import BundledNetwork
from runtime_ext.bundle.peers import compare_peers
from runtime_ext.bundle.saved_schedules import for_this_batch, saved_schedule
from runtime_ext.bundle.search import bundle_search, limits_of
from runtime_ext.peers.registry import peer_named
from tests.refusals import refused
from tests.schedule.published_files import inception_block_model, published_file
from tvm_ios.contest.outputs import output_errors
from tvm_ios.errors import UserError
from tvm_ios.graph.elements import Tensor
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import ScheduleError


class OnGpu(BundledNetwork):
    """As if the bundle was for a GPU."""

    gpu = True


def test_onnx_runtime_says_what_it_lacks(folder: Path) -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime runs on GPUs")
    with refused(UserError, "CUDAExecutionProvider"):
        peer_named("onnxruntime").start(OnGpu(read_bundle(folder), 1))


@pytest.mark.parametrize("name", ["torch", "torch-nhwc", "onnxruntime"])
def test_peers_compute_what_the_bundle_does(folder: Path, name: str) -> None:
    for package in ("torch", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    bundle = read_bundle(folder)
    peer = peer_named(name).start(BundledNetwork(bundle, 1))
    assert output_errors(peer.outputs(peer.run()), bundle.reference_outputs)[1] < 1e-5


@pytest.mark.slow
def test_programs_and_peers_in_turn(folder: Path, tmp_path: Path) -> None:
    for package in ("torch", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    bundle = read_bundle(folder)
    backend = open_bundle(bundle, 1, tmp_path)
    limits = limits_of(bundle, 0, None)
    search = bundle_search(bundle, backend, tmp_path, limits, lambda *_: None)
    files = {"ours": tmp_path / "ours.json", "broken": tmp_path / "broken.json"}
    greedy_schedule(bundle.graph).save(files["ours"], bundle.graph)
    files["broken"].write_text("{}")
    names = ("torch", "torch-graph", "onnxruntime", "onnxruntime-graph", "unheard-of")
    comparison = compare_peers(bundle, backend, search.timer, files, names, lambda *_: None)
    assert set(comparison["latency_ms"]) == {"ours", "torch", "onnxruntime"}
    assert comparison["ratio"]["ours"]["median"] == 1
    assert all(error < 1e-5 for error in comparison["max_rel_error"].values())
    assert set(comparison["skipped"]) == {
        "broken",
        "torch-graph",
        "onnxruntime-graph",
        "unheard-of",
    }
    assert comparison["skipped"]["onnxruntime-graph"] == "onnxruntime-graph runs on GPUs only"
    with refused(UserError, "schedules"):
        compare_peers(bundle, backend, search.timer, {}, (), lambda *_: None)


def test_a_schedule_of_another_batch_is_one_of_the_same_units(folder: Path) -> None:
    graph = read_bundle(folder).graph

    def batched(tensor: Tensor) -> Tensor:
        return tensor if tensor.constant else replace(tensor, shape=(4, *tensor.shape[1:]))

    larger = replace(graph, tensors=tuple(map(batched, graph.tensors)))
    schedule = sequential_schedule(graph)
    with pytest.raises(ScheduleError):
        schedule.validate(larger)
    moved = for_this_batch(schedule, larger)
    assert (moved.stages, moved.batch) == (schedule.stages, 4)
    fewer = replace(graph, operators=graph.operators[:-1], outputs=())
    with pytest.raises(ScheduleError):
        for_this_batch(schedule, fewer)


def test_a_schedule_of_the_published_implementation_is_taken(tmp_path: Path) -> None:
    graph = form_units(graph_from_onnx(inception_block_model()))
    stages = sequential_schedule(graph).stages
    path = tmp_path / "published.json"
    path.write_text(json.dumps(published_file(graph, stages, len(graph) - 1)))
    assert saved_schedule(path, graph).stages == stages
