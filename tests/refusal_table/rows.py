"""All refusals: what is wrong, the command, and what makes the files that the command needs.

Those of options are in ``choices``, those of schedules and logs in ``schedules``.

Commands run in a fresh folder that holds sound files: ``m.onnx``, ``graph.json``,
``schedule.json`` (of ``m.onnx``), the executable ``out`` and the ``deployment``.
"""

from __future__ import annotations

import signal
from pathlib import Path

from tests.refusal_table.choices import CHOICES
from tests.refusal_table.damage import (
    array,
    better_cpu,
    buffer,
    cache,
    circle,
    cut,
    edit,
    flip,
    folder,
    forget_buffer,
    keep_weights_in,
    launch,
    model,
    no_compiler,
    noise,
    overlap,
    pack,
    rename,
    seal,
    text,
    wait,
    without_waits,
)
from tests.refusal_table.running import Row
from tests.refusal_table.schedules import SCHEDULES

DYNAMIC = "(float[batch, 3, 8, 8] x) => (float[batch, 3, 8, 8] y) { y = Relu(x) }"
OPEN = "(float[batch, 3, height, 8] x) => (float[batch, 3, height, 8] y) { y = Relu(x) }"
WIDTH = """(float[batch, length, 4] x) => (float[batch, length, 2] y)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { y = MatMul(x, w) }"""
BFLOAT16 = "(bfloat16[4] x) => (bfloat16[4] y) { y = Relu(x) }"
COMPUTED_WEIGHTS = """(float[2, 1, 3] x, float[1, 16, 3] w, float[1, 16, 4] r)
    => (float[2, 1, 1, 4] y) { y = LSTM <hidden_size = 4> (x, w, r) }"""
CONTROL_FLOW = """(int64 k, float[4] x) => (float[4] y) {
    y = Loop (k, "", x) <body = step (int64 i, bool c, float[4] b) => (bool s, float[4] a)
        { s = Identity(c) a = Neg(b) }>
}"""
SELECTION = """(float[4, 4] x) => (float[n, n] y) {
    z = ReduceMax <axes = [1], keepdims = 0> (x) c = Cast <to = 9> (z)
    r = Compress <axis = 0> (x, c) t = Transpose(r) y = MatMul(r, t)
}"""

OPTIMIZE = "tvm-ios optimize m.onnx --lanes 1"
PROGRAM, MEMORY = "program.json", "memory.json"
#: All refusals by section.
SECTIONS: dict[str, list[Row]] = {
    "Models": [
        Row("no such model", "tvm-ios stats lenet"),
        Row("no such file", "tvm-ios stats nothing.onnx"),
        Row("a text file", "tvm-ios stats t.onnx", text("t.onnx"), library="ONNX model:"),
        Row("an empty file", "tvm-ios stats e.onnx", text("e.onnx", ""), library="ONNX model:"),
        Row("a cut file", "tvm-ios stats m.onnx", cut("m.onnx"), library="ONNX model:"),
        Row("noise", "tvm-ios stats noise.onnx", noise("noise.onnx")),
        Row(
            "an operator of none",
            "tvm-ios stats m.onnx",
            model("(float[4] x) => (float[4] y) { y = Frobnicate(x) }"),
        ),
        Row(
            "an operator that TVM does not import",
            "tvm-ios optimize m.onnx",
            model("(uint8[99] x) => (uint8[8, 8, 3] y) { y = ImageDecoder(x) }", opset=20),
        ),
        Row(
            "random numbers",
            "tvm-ios stats m.onnx",
            model("(float[4] x) => (float[4] y) { y = RandomNormalLike(x) }"),
        ),
        Row(
            "an operator of another library",
            "tvm-ios stats m.onnx",
            model("(float[4] x) => (float[4] y) { y = com.example.Relu(x) }"),
        ),
        Row("control flow", "tvm-ios optimize m.onnx", model(CONTROL_FLOW)),
        Row("data that decide shapes too early", "tvm-ios optimize m.onnx", model(SELECTION)),
        Row("numbers that NumPy has not", "tvm-ios optimize m.onnx", model(BFLOAT16)),
        Row("recurrent layers of inputs", "tvm-ios stats m.onnx", model(COMPUTED_WEIGHTS)),
        Row("a dialect that this TVM has not", "tvm-ios stats m.onnx --dialect relay"),
        Row("a dynamic dimension", "tvm-ios stats m.onnx", model(OPEN)),
        Row(
            "a width that weights do not fit",
            "tvm-ios stats m.onnx --shape x:1,5,4",
            model(WIDTH),
        ),
        Row(
            "a shape of another rank",
            "tvm-ios stats m.onnx --shape x:1,3,8",
            model(DYNAMIC),
        ),
        Row(
            "a shape for an input of none",
            "tvm-ios stats m.onnx --shape image:1,3,8,8",
            model(DYNAMIC),
        ),
        Row(
            "a shape against the model",
            "tvm-ios stats m.onnx --shape x:1,4,8,8",
            model(DYNAMIC),
        ),
        Row("a shape that is none", "tvm-ios stats m.onnx --shape x:1,-3,8,8"),
        Row(
            "missing weights",
            "tvm-ios stats m.onnx",
            keep_weights_in("weights.bin"),
        ),
        Row(
            "weights outside its folder",
            "tvm-ios stats m.onnx",
            keep_weights_in("../weights.bin"),
        ),
        Row("no program of torch", "tvm-ios stats m.pt2", text("m.pt2")),
        Row("no Relax module", "tvm-ios stats r.json", text("r.json", '{"nodes": []}')),
        Row(
            "a module of Relay",
            "tvm-ios stats r.json",
            text("r.json", '{"nodes": [{"type_key": "relay.Function"}]}'),
        ),
        Row("JSON that is no graph", "tvm-ios stats graph.json", text("graph.json", "[]")),
        Row(
            "a graph that names a tensor of none",
            "tvm-ios stats graph.json",
            edit("graph.json", lambda d: d.update(outputs=[99])),
        ),
        Row(
            "blocks with a cycle",
            "tvm-ios stats b.json",
            text("b.json", '{"blocks": [{"operators": 2, "edges": [[0, 1], [1, 0]]}]}'),
        ),
    ],
    **CHOICES,
    "Outputs": [
        Row("a folder of yours in the way", f"{OPTIMIZE} -o mine", folder("mine/thesis.txt")),
        Row("a file of yours in the way", f"{OPTIMIZE} -o notes", text("notes")),
        Row(
            "something of yours in an executable",
            f"{OPTIMIZE} -o out",
            lambda: Path("out/thesis.txt").write_text("years of work"),
        ),
        Row("a path below a file", f"{OPTIMIZE} -o notes/out", text("notes")),
        Row("a folder that nobody can write", f"{OPTIMIZE} -o /proc/out"),
        Row("the same of a schedule", "tvm-ios schedule m.onnx -o notes/s.json", text("notes")),
        Row("a folder where the file should be", "tvm-ios schedule m.onnx -o ."),
        Row("a full disk: a schedule", "tvm-ios schedule m.onnx -o s.json", full=True),
        Row("a full disk: outputs", "tvm-ios run out --output y.npz", full=True),
        Row("a full disk: stdout", "tvm-ios stats m.onnx --json > /dev/full"),
    ],
    "Executables": [
        Row("a model", "tvm-ios run m.onnx"),
        Row("none there", "tvm-ios run nothing"),
        Row("a folder of something else", "tvm-ios run mine", folder("mine/thesis.txt")),
        Row("a file of something else", "tvm-ios run notes", text("notes")),
        *(
            Row(f"a flipped bit in {name}", "tvm-ios run out", flip(f"out/{name}"))
            for name in (PROGRAM, MEMORY, "kernels.so", "params.safetensors", "schedule.json")
        ),
        Row("damaged meta.json", "tvm-ios run out", cut("out/meta.json")),
        Row("a missing file", "tvm-ios run out", lambda: Path("out/kernels.so").unlink()),
        Row("a cut tar", "tvm-ios run out.tar", lambda: (pack(), cut("out.tar")())),
        Row("`../` in a tar", "tvm-ios run out.tar", lambda: pack("../escaped")),
        Row("a link in a tar", "tvm-ios run out.tar", lambda: pack("program.json", link=True)),
        Row("another format", "tvm-ios run out", seal(lambda d: d.update(version=99))),
        Row(
            "another TVM",
            "tvm-ios run out",
            seal(lambda d: d["versions"].update({"apache-tvm-ffi": "0.99.1"})),
        ),
        Row("another architecture", "tvm-ios run out", seal(lambda d: d.update(machine="mips"))),
        Row("a better CPU", "tvm-ios run out", better_cpu),
    ],
    "Programs (their checksums are right)": [
        Row("waits in a circle", "tvm-ios run out", seal(circle, PROGRAM)),
        Row("a wait for a lane of none", "tvm-ios run out", seal(wait(9, 1), PROGRAM)),
        Row("a wait for a launch of none", "tvm-ios run out", seal(wait(1, 999), PROGRAM)),
        Row("a kernel of none", "tvm-ios run out", seal(launch(1, 99), PROGRAM)),
        Row("a kernel that the library lacks", "tvm-ios run out", seal(rename, PROGRAM)),
        Row("a buffer of none", "tvm-ios run out", seal(launch(2, [99]), PROGRAM)),
        Row("too few buffers", "tvm-ios run out", seal(launch(2, [0]), PROGRAM)),
        Row("tiles of none", "tvm-ios run out", seal(launch(4, 999), PROGRAM)),
        Row("a race", "tvm-ios run out", seal(without_waits, PROGRAM)),
        Row("a type of none", "tvm-ios run out", seal(buffer(2, "quaternion"), PROGRAM)),
        Row("a buffer beyond the arena", "tvm-ios run out", seal(buffer(1, [99999]), PROGRAM)),
        Row("buffers that spoil each other", "tvm-ios run out", seal(overlap, MEMORY)),
        Row("a plan of other buffers", "tvm-ios run out", seal(forget_buffer, MEMORY)),
        Row(
            "more memory than there is",
            "tvm-ios run out",
            seal(lambda d: d.update(nbytes=1 << 52), MEMORY),
        ),
    ],
    "Inputs of a run": [
        Row("another name", "tvm-ios run out --input x.npz", array(image=(1, 4, 6, 6))),
        Row("another shape", "tvm-ios run out --input x.npz", array(x=(1, 4, 6, 7))),
        Row("another type", "tvm-ios run out --input x.npz", array("float64", x=(1, 4, 6, 6))),
        Row("none", "tvm-ios run out --input x.npz", array()),
        Row("pickled objects", "tvm-ios run out --input x.npz", array("object", x=(1,))),
        Row("no .npz", "tvm-ios run out --input notes", text("notes")),
    ],
    **SCHEDULES,
    "The cache": [
        Row("a file in its place", f"{OPTIMIZE} -o new", cache("notes", text("notes"))),
        Row("nobody can write it", f"{OPTIMIZE} -o new", cache("/proc/cache")),
        Row("a full disk", f"{OPTIMIZE} -o new", cache("empty"), full=True),
        Row("no C++ compiler", f"{OPTIMIZE} -o new", no_compiler),
    ],
    "Signals": [
        Row("Ctrl-C", "tvm-ios optimize m.onnx -o new", number=signal.SIGINT),
        Row("SIGTERM", "tvm-ios optimize m.onnx -o new", number=signal.SIGTERM),
    ],
}
