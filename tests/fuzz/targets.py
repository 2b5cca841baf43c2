"""What a damaged file goes through: every way from a user's file to a result."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from runtime_ext.execution.executable import load
from runtime_ext.execution.packages.package import seal
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import read_header
from tvm_ios.devices.device import load_device
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.network import search_graph
from tvm_ios.models.bare_graph import load_bare_graph
from tvm_ios.models.load import load_graph
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

from .deployments import deployment
from .mutators import (
    Random,
    damage_bytes,
    damage_json,
    damage_json_text,
    damage_message,
    disarrange_json,
)
from .networks import network

#: The part of models that can be read which are compiled and run.
BUILT = 0.04

#: Damages a sound file of the first folder into the second and uses it there.
Target = Callable[[Path, Path, Random], None]


def onnx_file(sound: Path, room: Path, random: Random) -> None:
    """A model without TVM; every fourth that can be read also through TVM, some to the end."""
    path = room / "model.onnx"
    path.write_bytes(_damaged_onnx(sound / "model.onnx", random))
    graph = load_graph(str(path))
    depth = random.random()
    if depth < BUILT:
        _build_and_run(path)
    elif depth < 0.25:
        from relay_passes.load import load_model
        from relay_passes.pipeline import prepare

        prepare(load_model(str(path)).module)
    _search(graph, room)


def graph_file(sound: Path, room: Path, random: Random) -> None:
    """A graph of units, scheduled for a device description."""
    path = room / "graph.json"
    path.write_bytes(damage_json_text(json.loads((sound / "graph.json").read_text()), random))
    _search(load_graph(str(path)), room)


def schedule_file(sound: Path, room: Path, random: Random) -> None:
    """A schedule of a graph that is sound."""
    path = room / "schedule.json"
    path.write_bytes(damage_json_text(json.loads((sound / "schedule.json").read_text()), random))
    schedule = Schedule.load(path)
    graph = OpGraph.from_json(json.loads((sound / "graph.json").read_text()))
    schedule.validate(graph)
    schedule.save(room / "result", graph)


def executable(sound: Path, room: Path, random: Random) -> None:
    """A folder or a tar whose checksums are right again, or the bytes of a tar."""
    folder, path = room / "folder", room / "executable"
    shutil.copytree(sound / "executable", folder)
    kind = int(random.integers(10))
    if kind < 8:
        others = ["memory.json", "schedule.json", "meta.json", "params.safetensors"]
        names = ["program.json"] * 5 + others
        _damage_and_seal(folder, str(random.choice(names)), random)
    if kind % 3:
        folder.rename(path)
    else:
        path = room / "executable.tar"
        with tarfile.open(path, "w") as tar:
            for file in sorted(folder.iterdir()):
                tar.add(file, arcname=file.name)
        shutil.rmtree(folder)
        if kind >= 8:
            path.write_bytes(damage_bytes(path.read_bytes(), random))
    loaded = load(path)
    session = loaded.session()
    try:
        session.run(**session.random_inputs(0))
        for port in session.outputs:
            session.get_output(port.name)
    finally:
        session.close()
    loaded.save(room / "result")


def module(sound: Path, room: Path, random: Random) -> None:
    """A folder whose checksums are right again, read by the C++ loader."""
    from runtime_ext.execution.runtime_module import load_module

    folder = room / "executable"
    shutil.copytree(sound / "executable", folder)
    names = ["program.json"] * 5 + ["meta.json", "params.safetensors"]
    if random.integers(10):
        _damage_and_seal(folder, str(random.choice(names)), random)
    loaded = load_module(folder)
    try:
        for number in range(loaded.get_num_inputs()):
            loaded.set_input(number, np.zeros(*loaded.input_info(number)))
        loaded.run()
        for number in range(loaded.get_num_outputs()):
            loaded.get_output(number)
    finally:
        loaded.close()


def log_file(sound: Path, room: Path, random: Random) -> None:
    """A measurement log, read and appended to."""
    from tvm_ios.costs.log_lines import LogHeader

    path = room / "log.jsonl"
    log = MeasurementLog(path, LogHeader("device", "target", "tvm"))
    for number in range(3):
        log.append(f"key {number}", [1e-3] * 4, "label")
    lines = path.read_bytes().splitlines(keepends=True)
    at = int(random.integers(len(lines)))
    lines[at] = damage_json_text(json.loads(lines[at]), random) + b"\n" * int(random.integers(2))
    path.write_bytes(b"".join(lines))
    MeasurementLog(path, read_header(path)).append("result", [1.0])


def device_file(sound: Path, room: Path, random: Random) -> None:
    """A device description."""
    from importlib import resources

    path = room / "device.json"
    text = (resources.files("tvm_ios.devices") / "device_data" / "v100.json").read_text()
    path.write_bytes(damage_json_text(json.loads(text), random))
    graph = OpGraph.from_json(json.loads((sound / "graph.json").read_text()))
    _search(graph, room, str(path))


def block_file(sound: Path, room: Path, random: Random) -> None:
    """A bare block graph."""
    path = room / "blocks.json"
    block = {"operators": 4, "kinds": ["conv"] * 4, "edges": [[0, 1], [1, 2], [0, 3]]}
    path.write_bytes(damage_json_text({"name": "bare", "blocks": [block, block]}, random))
    load_bare_graph(path)


TARGETS: dict[str, Target] = {
    "onnx": onnx_file,
    "executable": executable,
    "module": module,
    "deployment": deployment,
    "schedule": schedule_file,
    "graph": graph_file,
    "log": log_file,
    "device": device_file,
    "blocks": block_file,
}

#: Also those whose files are sound, and whose results are compared.
EVERY_TARGET: dict[str, Target] = {**TARGETS, "network": network}


def _damaged_onnx(path: Path, random: Random) -> bytes:
    data = path.read_bytes()
    if random.integers(4) == 0:
        return damage_bytes(data, random)
    model = onnx.load_from_string(data)
    damage_message(model, random)
    return model.SerializeToString()


def _damage_and_seal(folder: Path, name: str, random: Random) -> None:
    file = folder / name
    if name == "params.safetensors":
        file.write_bytes(damage_bytes(file.read_bytes(), random))
    else:
        damage = damage_json if random.integers(3) == 0 else disarrange_json
        file.write_text(json.dumps(damage(json.loads(file.read_text()), random)))
    seal(folder)


def _build_and_run(path: Path) -> None:
    from relay_passes.load import load_model
    from relay_passes.pipeline import apply_schedule, prepare
    from runtime_ext.build import build
    from tvm_ios.policies.greedy import greedy_schedule

    prepared = prepare(load_model(str(path)).module)
    schedule = greedy_schedule(prepared.units)
    session = build(apply_schedule(prepared, schedule), lanes=2).session()
    try:
        session.run(**session.random_inputs(0))
    finally:
        session.close()


def _search(graph: OpGraph, room: Path, device: str = "v100") -> None:
    cost = AnalyticCost(load_device(device))
    blocks = cut_blocks(graph, 20)
    strategies = frozenset({Strategy.CONCURRENT, Strategy.MERGE})
    schedule, _ = search_graph(graph, blocks, cost, strategies, Pruning(2, 3), mergeable)
    schedule.validate(graph)
    schedule.save(room / "result", graph)


def generator(target: str, number: int) -> Random:
    """The randomness of a case."""
    return np.random.default_rng([*target.encode(), number])
