"""What makes the files that are refused: each changes the sound files of the current folder."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def text(name: str, content: str = "text") -> Callable[[], object]:
    """A file with some text."""
    return lambda: Path(name).write_text(content)


def model(graph: str, name: str = "m.onnx", opset: int = 17) -> Callable[[], object]:
    """An ONNX model in the text form of ``onnx.parser``, unchecked."""

    def make() -> None:
        import onnx

        opsets = f'"": {opset}, "com.example": 1'
        text = f"<ir_version: 8, opset_import: [{opsets}]> g {graph}"
        onnx.save(onnx.parser.parse_model(text), name)

    return make


def published(kernel: int = 3, stage: str = "1") -> Callable[[], object]:
    """A schedule in the form of IOS's implementation, of the sound model's first convolution."""
    node = {
        "type": "conv",
        "name": "1",
        "hint_name": "1",
        "inputs": [[["0", 0, 4]]],
        "out_channels": 4,
        "kernel": [kernel, kernel],
        "stride": [1, 1],
        "groups": 1,
        "output_shape": [4, 6, 6],
    }
    block = {"inner_nodes": [], "exit_node": node, "stages": [[[stage]]]}
    source = {"name": "0", "output_shape": [4, 6, 6]}
    data = {"name": "small", "input": source, "blocks": [block]}
    return text("published.json", json.dumps(data))


def noise(name: str) -> Callable[[], object]:
    """A file of random bytes, the same each time."""
    return lambda: Path(name).write_bytes(random.Random(0).randbytes(4096))


def wider() -> None:
    """The sound model, but with more channels, as ``n.onnx``."""
    import onnx

    from tests.fuzz.models import small_network

    onnx.save(small_network(channels=8), "n.onnx")


def keep_weights_in(name: str) -> Callable[[], object]:
    """A model that keeps its weight in another file, which is not there."""

    def make() -> None:
        import onnx

        model("(float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }")()
        changed = onnx.load("m.onnx")
        weight = changed.graph.initializer[0]
        weight.ClearField("float_data")
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=name)
        onnx.save(changed, "m.onnx")

    return make


def folder(name: str) -> Callable[[], object]:
    """A file in a folder of its own."""

    def make() -> None:
        Path(name).parent.mkdir()
        Path(name).write_text("years of work")

    return make


def cut(name: str) -> Callable[[], object]:
    """Leave the first third of a file."""
    return lambda: os.truncate(name, Path(name).stat().st_size // 3)


def flip(name: str) -> Callable[[], object]:
    """Change one bit in the middle of a file."""

    def damage() -> None:
        content = bytearray(Path(name).read_bytes())
        content[len(content) // 2] ^= 1
        Path(name).write_bytes(content)

    return damage


def edit(name: str, change: Callable[[Any], object]) -> Callable[[], object]:
    """Change parsed JSON."""

    def damage() -> None:
        data = json.loads(Path(name).read_text())
        change(data)
        Path(name).write_text(json.dumps(data))

    return damage


def place(schedule: Any, lane: int = 0, rtasks: int = 1) -> None:
    """Co-schedule the first stage of a schedule."""
    units = [unit for group in schedule["stages"][0]["groups"] for unit in group]
    schedule["stages"][0] = {"strategy": "co_schedule", "groups": [units]}
    schedule["placements"] = [[0, [[unit, 0, lane, 0, rtasks] for unit in units]]]


def split(
    schedule: Any, factor: int = 2, axis: int = 2, lane: int | None = None, backwards: bool = False
) -> None:
    """Run the first three units in instances, and the one that reads from them."""
    units = range(len(schedule["units"]))
    schedule["stages"] = [{"strategy": "concurrent", "groups": [[unit]]} for unit in units]
    schedule["latencies"] = []
    instances = [[number, part, lane] for number in (0, 1) for part in range(factor)]
    schedule["instances"] = {
        "subgraphs": [
            {"units": list(members), "factor": factor, "axes": [axis] * len(members)}
            for members in (units[:3], units[3:4])
        ],
        "order": instances[::-1] if backwards else instances,
    }


def merge_unevenly() -> None:
    """A model, and a schedule that merges two units of which instances need different rows."""
    from tvm_ios.api import load_units
    from tvm_ios.schedule.instance_plan import InstancePlan, PlacedInstance, SplitSubGraph
    from tvm_ios.schedule.schedule import Schedule
    from tvm_ios.schedule.stage import Stage, Strategy

    model(
        "(float[1, 1, 8, 8] x) => (float[1, 1, 8, 8] y)"
        "<float[1, 1, 1, 1] v = {1}, float[1, 1, 1, 1] w = {2}, float[1, 1, 3, 1] u = {1, 2, 3}>"
        "{ a = Conv(x, v)  b = Conv(x, w)  c = Conv<pads = [1, 0, 1, 0]>(a, u)  y = Add(c, b) }"
    )()
    units = load_units("m.onnx")
    stages = (Stage(Strategy.MERGE, ((0,), (1,))), Stage(Strategy.CONCURRENT, ((2,),)))
    order = (PlacedInstance(0, 0, 0), PlacedInstance(0, 1, 0))
    plan = InstancePlan((SplitSubGraph((0, 1, 2), 2, (2,)),), order)
    schedule = Schedule(units.fingerprint, stages, "by hand", instances=plan)
    schedule.save(Path("schedule.json"), units)


def seal(change: Callable[[Any], object], name: str = "meta.json") -> Callable[[], object]:
    """Change a file of the executable, and make its checksums right again."""

    def damage() -> None:
        from runtime_ext.execution.packages import package

        edit(f"out/{name}", change)()
        package.seal(Path("out"))

    return damage


def circle(data: Any) -> None:
    """Each lane first waits for the other."""
    for number, lane in enumerate(data["lanes"]):
        lane.insert(0, ["wait", 1 - number, 1])


def wait(lane: int, launches: int) -> Callable[[Any], object]:
    """Begin with a wait."""
    return lambda data: data["lanes"][0].insert(0, ["wait", lane, launches])


def launch(place: int, value: Any) -> Callable[[Any], object]:
    """Change the first launch."""
    return lambda data: data["lanes"][0][0].__setitem__(place, value)


def buffer(place: int, value: Any) -> Callable[[Any], object]:
    """Change the first buffer that holds something in between."""

    def change(data: Any) -> None:
        next(b for b in data["buffers"] if b[3] == "intermediate")[place] = value

    return change


def rename(data: Any) -> None:
    """Call a kernel by another name."""
    data["kernels"][0] = "kernel_of_none"


def without_waits(data: Any) -> None:
    """Let nobody wait for anybody."""
    data["lanes"] = [[item for item in lane if item[0] != "wait"] for lane in data["lanes"]]


def overlap(plan: Any) -> None:
    """Let all buffers of the arena begin at its first byte."""
    plan["offsets"] = [min(byte, 0) for byte in plan["offsets"]]


def forget_buffer(plan: Any) -> None:
    """Give a buffer no bytes."""
    plan["offsets"][next(n for n, byte in enumerate(plan["offsets"]) if byte >= 0)] = -1


def better_cpu() -> None:
    """An executable for what the loader knows of no CPU."""
    seal(lambda d: d.update(features=["amx-fp16"], target="llvm -mcpu=graniterapids"))()


def pack(name: str = "", link: bool = False) -> None:
    """The executable as a tar, with one more member."""
    with tarfile.open("out.tar", "w") as tar:
        if name:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
        for file in sorted(Path("out").iterdir()):
            tar.add(file, arcname=file.name)


def array(dtype: str = "float32", **shapes: tuple[int, ...]) -> Callable[[], object]:
    """``x.npz`` with arrays of zeros."""
    import numpy as np

    return lambda: np.savez("x.npz", **{k: np.zeros(s, dtype) for k, s in shapes.items()})


def log(**changes: str) -> Callable[[], object]:
    """A measurement log of one measurement."""

    def write() -> None:
        import tvm

        from runtime_ext.machine.this_machine import device_name, host_target
        from tvm_ios.costs.log import MeasurementLog
        from tvm_ios.costs.log_lines import LogHeader

        header = LogHeader(device_name(2), str(host_target(2)), tvm.__version__)
        path = Path("log.jsonl").absolute()
        MeasurementLog(path, dataclasses.replace(header, **changes)).append("key", [1e-3])

    return write


def damage_log() -> None:
    """Another line, and half of one before it."""
    with Path("log.jsonl").open("a") as stream:
        stream.write('{"key": "a", "sam\n{"key": "b", "samples": [1.0]}\n')


def tuning_log() -> None:
    """A MetaSchedule database of one function, for a machine with 64 cores."""
    import tvm
    from tvm import s_tir, te
    from tvm.s_tir import meta_schedule

    Path("db").mkdir()
    x = te.placeholder((8,), name="x")
    function = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + 1, name="y")])
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    base = meta_schedule.database
    database = base.JSONDatabase("db/database_workload.json", "db/database_tuning_record.json")
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 64})
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    workload = database.commit_workload(module)
    trace = s_tir.Schedule(module).trace
    database.commit_tuning_record(base.TuningRecord(trace, workload, [1e-3], target, arguments))


def cache(name: str, prepare: Callable[[], object] = lambda: None) -> Callable[[], object]:
    """Use another cache folder."""

    def change() -> None:
        prepare()
        os.environ["TVM_IOS_CACHE"] = str(Path(name).absolute())

    return change


def by_cudnn() -> None:
    """An executable for a GPU, one of whose units cuDNN computes, in the place of the sound one."""
    from tests.cuda.convolutions import buffers_of, convolution
    from tests.cuda.cuda_executables import executable
    from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, Role

    call = convolution((1, 4, 6, 6), 8)
    image, weight, result = buffers_of(call)
    buffers = (
        Buffer("x", image, Role.INPUT),
        Buffer("w", weight, Role.INPUT),
        Buffer("y", result, Role.OUTPUT),
    )
    program = Program(
        ((Launch(0, (0, 1, 2), 0, 1, 0),),),
        ("convolution",),
        buffers,
        ("unit",),
        (KernelUse(1, 3, (2,)),),
    )
    shutil.rmtree("out")
    executable(Path(), program, {"convolution": call}, {}).save(Path("out"))


def no_toolkit() -> None:
    """Let no program be found, CUDA's neither."""
    os.environ["PATH"] = os.environ["CUDA_HOME"] = "/nowhere"


def no_compiler() -> None:
    """Let no program be found, nor the package with a linker, and no kernel be there already."""
    cache("empty")()
    os.environ["PATH"] = "/nowhere"
    sys.modules["ziglang"] = None  # type: ignore[assignment]
