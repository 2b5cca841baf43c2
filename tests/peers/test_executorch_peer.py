"""ExecuTorch as a peer: on the threads that were asked for, and it says what XNNPACK left out."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from runtime_ext.execution.bound_model import BoundModel, Taken
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.registry import peer_named
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.onnx.simplify import simplify

torch: Any = pytest.importorskip("torch")
pytest.importorskip("executorch")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Its threads are those of the process: leave as many as other tests may expect."""
    yield
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(2)


def started(sketch: Sketch, output: str, folder: Path, lanes: int = 1) -> BoundModel:
    """The peer on a model."""
    onnx.save(simplify(sketch.model(output)), folder / "m.onnx")
    shape = [extent.dim_value for extent in sketch.inputs[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.default_rng(0).standard_normal(shape, dtype=np.float32)}
    peer = peer_named("executorch").start(ModelFiles(inputs, lanes, None, folder / "m.onnx", None))
    # It has to hold by itself all that a run reads.
    gc.collect()
    return peer


def require_right(peer: BoundModel, sketch: Sketch, output: str) -> None:
    assert relative_error(peer.outputs(peer.run()), run_onnxruntime(sketch.model(output))) <= 1e-5


def test_all_is_taken_of_a_convolution(tmp_path: Path) -> None:
    sketch = Sketch(1, 3, 16, 16)
    pooled = sketch.op("GlobalAveragePool", sketch.op("Relu", sketch.conv("x", 3, 8)))
    dense = sketch.op("Gemm", sketch.op("Flatten", pooled), sketch.normal(8, 4), sketch.normal(4))
    peer = started(sketch, dense, tmp_path)
    require_right(peer, sketch, dense)
    assert peer.taken == Taken()


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """XNNPACK has no products of integers."""
    sketch = Sketch(4, 8)
    weight = sketch.const(np.arange(96).reshape(8, 12))
    product = sketch.op("MatMul", sketch.op("Cast", "x", to=TensorProto.INT64), weight)
    floats = sketch.op("Cast", product, to=TensorProto.FLOAT)
    both = sketch.op("Add", sketch.op("MatMul", "x", sketch.normal(8, 12)), floats)
    peer = started(sketch, both, tmp_path)
    require_right(peer, sketch, both)
    assert peer.taken.multiply_adds == 1 / 2
    assert 0 < peer.taken.operators < 1


def test_it_runs_on_as_many_threads_as_asked(tmp_path: Path) -> None:
    """By what the system counts for each thread of this process."""
    sketch = Sketch(1, 64, 48, 48)
    output = sketch.conv(sketch.op("Relu", sketch.conv("x", 64, 64)), 64, 64)
    for lanes in (1, 3, 2):
        peer = started(sketch, output, tmp_path, lanes)
        peer.run()
        before = nanoseconds_of_threads()
        for _ in range(30):
            peer.run()
        after = nanoseconds_of_threads()
        worked = {task: after[task] - before.get(task, 0) for task in after}
        all_of_them = sum(worked.values())
        assert sum(spent > 0.05 * all_of_them for spent in worked.values()) == lanes


def nanoseconds_of_threads() -> dict[str, int]:
    tasks = Path("/proc/self/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


def test_an_operator_without_a_kernel_is_named(tmp_path: Path) -> None:
    sketch = Sketch(1, 6, 8, 8)
    with refused(UserError, "ExecuTorch has no kernel", "aten::avg_pool3d.out"):
        started(sketch, sketch.op("LRN", "x", size=3, alpha=0.3), tmp_path)


@dataclass(frozen=True)
class DataDependent(ModelFiles):
    """A model that torch.export refuses."""

    def torch_module(self) -> Any:
        class Network(torch.nn.Module):
            input_names = ("x",)

            def forward(self, x: Any) -> Any:
                return (x + 1,) if x.sum() > 0 else (x - 1,)

        return Network()


def test_a_model_that_cannot_be_exported_is_refused() -> None:
    network = DataDependent({"x": np.zeros(3, np.float32)}, 1, None, None, None)
    with refused(UserError, "ExecuTorch refuses the model: ") as caught:
        peer_named("executorch").start(network)
    assert "\n" not in str(caught.value)
