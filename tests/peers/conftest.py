"""A model as an executable of ours and as the files that peers read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tvm_ios.models.load import load_onnx


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Inception block as an executable and as an ONNX file; and one with other weights."""
    folder = tmp_path_factory.mktemp("side_by_side")
    model = load_onnx("inception_block")
    scheduled = IOSSchedule("greedy", "v100").transform_module(import_onnx(model), None)
    build(scheduled, lanes=2).save(folder / "ours")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight)
        if array.ndim == 2:
            weight.CopyFrom(numpy_helper.from_array(array * np.float32(1.01), weight.name))
    (folder / "other.onnx").write_bytes(model.SerializeToString())
    return folder
