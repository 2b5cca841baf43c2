"""Files that are no models, and models that are not to be trusted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch, relative_error, run
from tests.refusals import require_names
from tvm_ios.errors import ModelError
from tvm_ios.models.load import load_onnx
from tvm_ios.onnx import file as onnx_file
from tvm_ios.onnx.file import read_onnx


def small() -> Any:
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.conv("x", 3, 64)))


def apart(folder: Path, name: str = "m.onnx") -> Path:
    """A model with its weights in a file of their own."""
    path = folder / name
    onnx.save(small(), str(path), save_as_external_data=True, location="m.data", size_threshold=16)
    return path


def edit(path: Path, key: str, value: str) -> None:
    model = onnx.load(str(path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    path.write_bytes(model.SerializeToString())


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_onnx(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path.parent) + os.sep, "")


NO_MODEL = "m.onnx is not a valid ONNX model: "


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"onnx", "it is truncated, or of another format"),
        (np.random.default_rng(0).bytes(999), "it is truncated, or of another format"),
        (small().SerializeToString()[:-99], "it is truncated, or of another format"),
        (b"\x08\x08", "it holds no graph"),
    ],
    ids=["empty", "text", "noise", "truncated", "no-graph"],
)
def test_what_is_no_model(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert refusal(path) == NO_MODEL + reason


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").mkdir()
    assert refusal(tmp_path / "m.onnx") == NO_MODEL + "it is a folder"


def test_a_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_onnx(tmp_path / "m.onnx")


def test_a_model_that_the_checker_refuses(tmp_path: Path) -> None:
    model = small()
    model.graph.node[0].input[0] = "nothing"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert refusal(tmp_path / "m.onnx") == (
        f"{NO_MODEL}operator Conv (output 'v0_0') reads 'nothing', which nothing makes"
    )


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    loaded = load_onnx(str(apart(tmp_path)))
    assert relative_error(run(loaded), run(small())) <= 1e-6


def test_missing_weights_are_named(tmp_path: Path) -> None:
    path = apart(tmp_path)
    (tmp_path / "m.data").unlink()
    assert refusal(path) == (
        "m.onnx keeps weights in 'm.data', which is missing: put this file beside it, into "
        f"{tmp_path}"
    )


def test_truncated_weights_are_named(tmp_path: Path) -> None:
    path = apart(tmp_path)
    os.truncate(tmp_path / "m.data", 100)
    assert refusal(path) == "'m.data' of m.onnx is truncated: it lacks the end of the weight 'c0'"


@pytest.mark.parametrize(("key", "value"), [("offset", "-4"), ("length", "much")])
def test_misplaced_weights_are_refused(key: str, value: str, tmp_path: Path) -> None:
    path = apart(tmp_path)
    edit(path, key, value)
    assert "m.data" in refusal(path)


@pytest.mark.parametrize("where", ["parent", "absolute", "link"])
def test_files_outside_the_folder_are_not_read(where: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = apart(folder)
    secret = tmp_path / "secret"
    secret.write_bytes((folder / "m.data").read_bytes())
    location = {"parent": "../secret", "absolute": str(secret), "link": "link"}[where]
    if where == "link":
        (folder / "link").symlink_to(secret)
    edit(path, "location", location)
    assert refusal(path) == (
        f"m.onnx keeps the weight 'c0' in {location!r}, outside its own folder: files there are "
        "not read; save it with the data beside it"
    ).replace(str(folder) + os.sep, "")


def test_a_snapshot_of_a_cache_may_link_to_its_blobs(tmp_path: Path) -> None:
    """As Hugging Face keeps files: those of a revision are links to what is stored once."""
    cache = tmp_path / "models--a--b"
    blobs, snapshot = cache / "blobs", cache / "snapshots" / "0123" / "onnx"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    apart(blobs).rename(blobs / "4567")
    (blobs / "m.data").rename(blobs / "89ab")
    path = snapshot / "m.onnx"
    path.symlink_to("../../../blobs/4567")
    (snapshot / "m.data").symlink_to("../../../blobs/89ab")
    assert relative_error(run(read_onnx(path)), run(small())) == 0
    (snapshot / "m.data").unlink()
    (snapshot / "m.data").symlink_to(tmp_path / "secret")
    assert "outside its own folder" in refusal(path)


@pytest.mark.parametrize("make", [apart, lambda folder: _whole(folder)])
def test_what_protobuf_cannot_hold(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    monkeypatch.setattr(onnx_file, "LARGEST", 2000)
    assert refusal(path).startswith("m.onnx holds 0.0 GiB, and TVM's importer reads models below")


def _whole(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(small().SerializeToString())
    return path


def unknown(kind: str, domain: str = "") -> Any:
    node = helper.make_node(kind, ["x"], ["y"], name="n", domain=domain)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_operators_of_nobody_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(unknown("Frobnicate").SerializeToString())
    assert refusal(path) == (
        "operator Frobnicate (node 'n', output 'y') of m.onnx is not an operator of opset 17: "
        "export the model again"
    )


def test_operators_of_other_domains_are_named(tmp_path: Path) -> None:
    """TVM's importer does not look at domains and would take this for ONNX's own."""
    path = tmp_path / "m.onnx"
    path.write_bytes(unknown("Relu", "com.microsoft").SerializeToString())
    assert refusal(path) == (
        "operator Relu (node 'n', output 'y') of m.onnx is of the domain 'com.microsoft', where "
        "this operator is not known: export the model without it, or give the model a function of "
        "this name that computes it by ONNX's operators (onnx.helper.make_function)"
    )


def test_packs_of_channels_are_named(tmp_path: Path) -> None:
    """ONNX Runtime writes them at its highest level."""
    path = tmp_path / "m.onnx"
    path.write_bytes(unknown("Conv", "com.microsoft.nchwc").SerializeToString())
    require_names(refusal(path), "Conv", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED")


def test_functions_of_the_model_are_its_own(tmp_path: Path) -> None:
    model = unknown("Twice", "mine")
    body = [helper.make_node("Add", ["x", "x"], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("mine", "Twice", ["x"], ["y"], body, opsets))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert [node.op_type for node in load_onnx(str(path)).graph.node] == ["Add"]


def test_an_opset_of_the_future_is_named(tmp_path: Path) -> None:
    model = small()
    model.opset_import[0].version = 99
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert refusal(tmp_path / "m.onnx").startswith("m.onnx is of opset 99, and the installed onnx")
