"""Refusals of schedules, logs and what is for GPUs."""

from __future__ import annotations

from tests.refusal_table.damage import (
    by_cudnn,
    damage_log,
    edit,
    folder,
    log,
    merge_unevenly,
    no_toolkit,
    place,
    published,
    split,
    text,
    tuning_log,
    wider,
)
from tests.refusal_table.running import Row

OPTIMIZE = "tvm-ios optimize m.onnx --lanes 1"
MEASURED = "tvm-ios schedule m.onnx --lanes 2 --cost log.jsonl"
SCHEDULES: dict[str, list[Row]] = {
    "Schedules": [
        Row("of another graph", "tvm-ios optimize n.onnx --schedule schedule.json", wider),
        Row("of another network", "tvm-ios optimize two_inputs --schedule schedule.json"),
        Row("no schedule", f"{OPTIMIZE} --schedule graph.json"),
        Row(
            "a published schedule of another network",
            "tvm-ios schedule m.onnx --schedule published.json",
            published(kernel=7),
        ),
        Row(
            "a published schedule with a stage of nothing",
            "tvm-ios schedule m.onnx --schedule published.json",
            published(stage="2"),
        ),
        Row(
            "a unit twice",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: d["stages"].append(d["stages"][0])),
        ),
        Row(
            "a kernel that a unit has not",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: d.update(kernels={"0": "finest"})),
        ),
        Row(
            "rTasks on a lane too many",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: place(d, lane=1)),
        ),
        Row(
            "rTasks of other kernels",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: place(d, rtasks=999)),
        ),
        Row(
            "instances of another batch",
            f"{OPTIMIZE} --batch 2 --schedule schedule.json",
            edit("schedule.json", split),
        ),
        Row(
            "unequal parts of a batch",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: split(d, axis=0)),
        ),
        Row(
            "more instances than rows",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: split(d, factor=99)),
        ),
        Row(
            "instances along channels",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: split(d, axis=1)),
        ),
        Row(
            "an instance before what it reads",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: split(d, backwards=True)),
        ),
        Row(
            "an instance left out",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: (split(d), d["instances"]["order"].pop())),
        ),
        Row(
            "instances on a lane too many",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: split(d, lane=1)),
        ),
        Row(
            "a merge of different rows",
            f"{OPTIMIZE} --schedule schedule.json",
            merge_unevenly,
        ),
    ],
    "Logs": [
        Row("none there", MEASURED),
        Row("no log", MEASURED, text("log.jsonl")),
        Row("of another machine", MEASURED, log(device="an abacus, 2 lanes")),
        Row("of another target", MEASURED, log(target="llvm -mcpu=z80")),
        Row("of another TVM", MEASURED, log(tvm="0.99.1")),
        Row("a damaged line", MEASURED, lambda: (log()(), damage_log())),
        Row("without this model's units", MEASURED, log()),
        Row("no tuning log", f"{OPTIMIZE} --log mine", folder("mine/thesis.txt")),
        Row("a tuning log of another target", f"{OPTIMIZE} --log db", tuning_log),
        Row(
            "a CPU's tuning log for a GPU",
            "tvm-ios bundle m.onnx --target cuda --log db",
            tuning_log,
        ),
        Row("blocks to try without Relay", "tvm-ios tune m.onnx --log new --all-blocks"),
        Row(
            "tuning for a GPU that is not here",
            "tvm-ios tune m.onnx --target cuda --log new",
            library="and here is none (",
        ),
    ],
    "GPUs": [
        Row("no such architecture", "tvm-ios bundle m.onnx --target cuda --arch sm_10"),
        Row("nothing to schedule by", "tvm-ios optimize m.onnx --target cuda --arch sm_10"),
        Row(
            "no tensor cores",
            "tvm-ios bundle m.onnx --target cuda --arch sm_70 --precision float16",
        ),
        Row(
            "TVM's own build in half precision",
            "tvm-ios bundle m.onnx --target cuda --precision float16 --with-tvm",
        ),
        Row("half precision on a CPU", "tvm-ios bundle m.onnx --precision float16"),
        Row(
            "TVM's own build without CUDA's toolkit",
            "tvm-ios bundle m.onnx --target cuda --with-tvm",
            no_toolkit,
        ),
        Row("units by cuDNN, which is not here", "tvm-ios run out", by_cudnn, gpu=True),
        Row("cuDNN on a CPU", "tvm-ios optimize m.onnx --lanes 1 --cudnn"),
    ],
}
