"""Launch graphs: what waits for what, what a time depends on, and the same as files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime_ext.cuda.launch_graphs import launch_graph
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.plugged_device import PluggedDevice
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.measuring.launch_files import read_launches, write_launches
from tvm_ios.measuring.launch_graph import LaunchGraph
from tvm_ios.measuring.timing_device import Timed, Timing
from tvm_ios.program.program import Buffer, BufferType, Launch, Part, Program, Role, Wait

VECTOR = BufferType((4, 2))
KERNELS = {
    "plain": Launchable("f", (7, 1, 1), (64, 1, 1), 0, b".version 8\0"),
    "persistent": Launchable("g", (3, 2, 1), (32, 1, 1), 48, b"\x7fELF\0", cleared=(1,)),
}
STEPS = np.arange(8, dtype=np.int32).reshape(4, 2)


def two_lanes() -> Program:
    """Two launches side by side, and one that waits for both."""
    buffers = (
        Buffer("x", VECTOR, Role.INPUT),
        Buffer("whole", VECTOR, Role.INTERMEDIATE),
        Buffer("left", VECTOR, Role.INTERMEDIATE, Part(1, 1, 0, 1)),
        Buffer("right", VECTOR, Role.INTERMEDIATE, Part(1, 1, 1, 2)),
        Buffer("steps", BufferType((4, 2), "int32"), Role.CONSTANT),
        Buffer("weight", VECTOR, Role.CONSTANT),
        Buffer("y", VECTOR, Role.OUTPUT),
    )
    first = (Launch(0, (0, 2, 5), 0, 1, 0), Wait(1, 1), Launch(1, (1, 6, 4), 0, 1, 2))
    return Program(
        (first, (Launch(0, (0, 3, 5), 0, 1, 1),)), tuple(KERNELS), buffers, ("a", "b", "c")
    )


def graph(program: Program | None = None, **constants: np.ndarray) -> LaunchGraph:
    contents = {"steps": STEPS, "weight": np.ones((4, 2), np.float32), **constants}
    program = program or two_lanes()
    return launch_graph(program, KERNELS.__getitem__, "compute_75", contents, model="m", policy="p")


def test_launches_wait_as_streams_and_events_do() -> None:
    made = graph()
    assert [launch.unit for launch in made.launches] == ["a", "b", "c"]
    assert [launch.waits for launch in made.launches] == [(), (), (0, 1)]
    names = [buffer.name for buffer in made.buffers]
    assert names == ["x", "whole", "steps", "weight", "y"], "parts lie in their whole"
    arguments = [[names[a] for a in launch.arguments] for launch in made.launches]
    assert arguments[:2] == [["x", "whole", "weight"]] * 2
    assert arguments[2] == ["whole", "y", "steps"]
    assert [launch.persistent for launch in made.launches] == [False, False, True]
    assert (made.launches[2].blocks, made.launches[2].threads) == (6, 32)
    # The zero byte after PTX is for drivers.
    codes = [made.code[launch.code] for launch in made.launches]
    assert codes == [b".version 8", b".version 8", b"\x7fELF\0"]
    assert made.launches[0].code == hashlib.sha256(b".version 8").hexdigest()


def test_a_stage_takes_the_edge_to_the_next_one_as_well() -> None:
    # Of a lone launch's seconds one microsecond is its launch; an edge takes three.
    timing = Timing(launch_overhead=1e-6, edge=3e-6, concurrency=2)
    asked: list[LaunchGraph] = []

    def time(graph: LaunchGraph) -> Timed:
        asked.append(graph)
        return Timed((5e-6,))

    device: Any = SimpleNamespace(name="d", version="1", arch="sm_75", timing=timing, time=time)
    plugged = PluggedDevice(device, 2)
    assert plugged.concurrency == 2
    assert plugged.time_program(two_lanes(), KERNELS.__getitem__) == [pytest.approx(7e-6)]
    lone = replace(two_lanes(), lanes=((Launch(0, (0, 2, 5), 0, 1, 0),),))
    assert plugged.profile_phases(lone, KERNELS.__getitem__) == [[5e-6]]
    assert len(asked) == 2


def test_equal_graphs_have_one_digest() -> None:
    made = graph()
    assert graph(weight=np.zeros((4, 2), np.float32)).digest == made.digest
    assert replace(made, model="other", policy="other").digest == made.digest
    different = [
        graph(steps=STEPS + 1),
        replace(made, arch="sm_75"),
        replace(made, launches=(*made.launches[:2], replace(made.launches[2], waits=(0,)))),
        replace(made, launches=(replace(made.launches[0], grid=(8, 1, 1)), *made.launches[1:])),
    ]
    assert len({made.digest, *(other.digest for other in different)}) == 5
    first, second, _ = made.launches
    assert first.key == second.key != replace(first, code="0" * 64).key


def test_files_hold_a_graph(tmp_path: Path) -> None:
    made, path = graph(), tmp_path / "launches" / "p.json"
    write_launches(made, path)
    write_launches(replace(made, policy="q"), path.with_name("q.json"))
    read = read_launches(path)
    assert read == made
    np.testing.assert_array_equal(read.buffers[2].content, STEPS)
    assert {p.suffix for p in (path.parent / "code").iterdir()} == {".ptx"}
    assert len(list((path.parent / "data").iterdir())) == 2, "equal data of both lies there once"
    assert json.loads(path.read_text())["launches"][2]["waits"] == [0, 1]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with refused(UserError, "p.json"):
        read_launches(path)
    write_launches(graph(), path)
    whole = json.loads(path.read_text())
    for change in ({"format": "other"}, {"arch": "sm_90"}, {"launches": None}):
        path.write_text(json.dumps(whole | change))
        with refused(UserError, "p.json"):
            read_launches(path)
    path.write_text(json.dumps(whole))
    (code, _) = sorted((tmp_path / "code").iterdir())
    code.write_bytes(code.read_bytes() + b"!")
    with refused(UserError, "p.json", "damaged"):
        read_launches(path)
    code.unlink()
    with refused(UserError, code.name):
        read_launches(path)


def test_calls_of_a_library_are_refused() -> None:
    with pytest.raises(UserError, match="cuDNN"):
        launch_graph(two_lanes(), lambda _: object(), "sm_75")  # pyright: ignore
