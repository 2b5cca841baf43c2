"""What a case is run through: tvm-ios, ONNX Runtime, TVM."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import onnx

from tests.guarded_memory import guarded_memory
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.ranges import Range


@dataclass(frozen=True)
class Computed:
    """What a case computes."""

    #: In the model's order.
    outputs: Sequence[Array]
    #: What of the model another runtime computed, in a sentence; empty if nothing.
    tail: str = ""


#: From a model, its file, and inputs by name to what it computes.
Way = Callable[[onnx.ModelProto, Path, Mapping[str, Array]], Computed]

#: Those whose sentences are refusals, not errors.
OURS = (
    *("tvm-ios", "tvm-ios-lanes", "tvm-ios-open", "tvm-ios-guarded", "tvm-ios-arm"),
    "tvm-ios-relay",
)


def _tvm_ios(
    model: onnx.ModelProto,
    path: Path,
    feeds: Mapping[str, Array],
    *,
    dialect: str = "relax",
    lanes: int = 1,
) -> Computed:
    return compiled(path, feeds, _open_shapes(model, feeds), dialect, lanes)


def compiled(
    path: Path,
    feeds: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    dialect: str = "relax",
    lanes: int = 1,
) -> Computed:
    """Return what ``tvm-ios optimize`` makes of a file, without searching or measuring."""
    from relay_passes.checks import require_numpy_types
    from relay_passes.load import load_model
    from relay_passes.pipeline import apply_schedule, prepare
    from runtime_ext.build import build
    from runtime_ext.execution.tailed_session import TailedSession
    from tvm_ios.models.source import ModelSource
    from tvm_ios.policies.sequential import sequential_schedule

    source = ModelSource(str(path), shapes=dict(shapes), dialect=dialect)
    loaded = load_model(source)
    prepared = prepare(loaded.module)
    require_numpy_types(prepared)
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    # Every kernel's tiles are divided among the lanes.
    session = build(module, lanes=lanes).session()
    tail = ""
    if loaded.tail is not None:
        session, tail = TailedSession(session, loaded.tail), loaded.tail.sentence
    with contextlib.closing(session):
        named = (
            feeds
            if path.suffix == ".onnx"
            else dict(zip((port.name for port in session.inputs), feeds.values(), strict=True))
        )
        session.run(**{port.name: named[port.name] for port in session.inputs})
        outputs = [session.get_output(place) for place in range(len(session.outputs))]
    return Computed(outputs, tail)


def _tvm_ios_open(
    model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array], executor: str = "native"
) -> Computed:
    """One program for a range of shapes, drawn by the case's name."""
    from relay_passes.relax.ranges.units import load_open_model
    from relay_passes.search_options import SearchOptions
    from runtime_ext.targets import target_backend
    from runtime_ext.unit_build import build_units

    ranges = opened(model, feeds, Random(path.stem))
    if not ranges:
        return _tvm_ios(model, path, feeds)
    onnx.save(model, path)
    units = load_open_model(str(path), ranges).opened.units
    options = SearchOptions(lanes=2)
    backend = target_backend(options.target_for([]), 2, options.cache / "kernels")
    built = build_units(units, backend.compiler, 2)
    with contextlib.closing(built.session(executor=executor)) as session:
        session.run(**{port.name: feeds[port.name] for port in session.inputs})
        return Computed([session.get_output(place) for place in range(len(session.outputs))])


def _tvm_ios_guarded(model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array]) -> Computed:
    """The same, where a kernel that reads or writes far around a buffer ends the process."""
    with guarded_memory():
        return _tvm_ios_open(model, path, feeds, "poisoning")


def opened(
    model: onnx.ModelProto, feeds: Mapping[str, Array], random: Random
) -> dict[str, tuple[int | Range, ...]]:
    """Open some dimensions of a model's inputs, and return their ranges.

    Equal extents are one dimension, as they mostly are: it ranges from 1 or from just below to just
    above, perhaps in steps.
    """
    extents = sorted({extent for x in feeds.values() for extent in x.shape if extent > 1})
    chosen = {e: _range(e, random) for e in extents if random.random() < 0.7}
    ranges: dict[str, tuple[int | Range, ...]] = {}
    for value in model.graph.input:
        if value.name not in feeds:
            continue
        shape = feeds[value.name].shape
        if not any(extent in chosen for extent in shape):
            continue
        ranges[value.name] = tuple(chosen.get(extent, extent) for extent in shape)
        tensor = value.type.tensor_type.shape
        del tensor.dim[:]
        for extent in shape:
            dimension = tensor.dim.add()
            if extent in chosen:
                dimension.dim_param = f"d{extent}"
            else:
                dimension.dim_value = extent
    if ranges:
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
    return ranges


def _range(extent: int, random: Random) -> Range:
    step = random.choice([s for s in (1, 1, 1, 2, 4, 8) if extent % s == 0])
    least = random.choice([step, max(step, extent - 2 * step)])
    return Range(least, extent + step * random.randint(1, 5), step)


def _tvm_ios_arm(model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array]) -> Computed:
    """Compiled here, and run by an emulated processor of Arm's."""
    from relay_passes.load import load_model
    from tests.arm.executables import run_on_arm
    from tvm_ios.models.source import ModelSource

    loaded = load_model(ModelSource(str(path), shapes=_open_shapes(model, feeds)))
    outputs = run_on_arm(loaded, feeds, path.parent / "executable")
    return Computed(outputs, loaded.tail.sentence if loaded.tail else "")


def _open_shapes(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """What a user says with ``--shape``."""
    return {
        value.name: feeds[value.name].shape
        for value in model.graph.input
        if value.name in feeds
        and any(not extent.HasField("dim_value") for extent in value.type.tensor_type.shape.dim)
    }


def _tvm(model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array]) -> Computed:
    """TVM's own importer, pipeline and virtual machine."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(model, keep_params_in_input=False)
    module = relax.transform.DecomposeOpsForInference()(module)
    executable = tvm.compile(module, target=tvm.target.Target("llvm"))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    # The importer keeps the order of inputs, but not names that are no identifiers.
    result = machine["main"](*(tvm.runtime.tensor(value) for value in feeds.values()))
    parts = [result] if hasattr(result, "numpy") else result
    return Computed([item.numpy() for item in parts])


def _onnxruntime(model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array]) -> Computed:
    """ONNX Runtime on the CPU."""
    import onnxruntime

    # It refuses a newer file format before it looks at what is in the file.
    written, model = model, onnx.ModelProto()
    model.CopyFrom(written)
    model.ir_version = min(model.ir_version, 13)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return Computed(session.run(None, dict(feeds)))


WAYS: Mapping[str, Way] = {
    "tvm-ios": _tvm_ios,
    "tvm-ios-lanes": partial(_tvm_ios, lanes=2),
    "tvm-ios-open": _tvm_ios_open,
    "tvm-ios-guarded": _tvm_ios_guarded,
    "tvm-ios-arm": _tvm_ios_arm,
    "tvm-ios-relay": partial(_tvm_ios, dialect="relay"),
    "tvm": _tvm,
    "onnxruntime": _onnxruntime,
}
