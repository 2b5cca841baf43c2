"""Refusals of options, and of options that do not go together: what is said before long work."""

from __future__ import annotations

from tests.refusal_table.damage import cut, edit, folder, model, wider
from tests.refusal_table.running import Row

OPTIMIZE = "tvm-ios optimize m.onnx --lanes 1"
THROUGHPUT = "tvm-ios optimize m.onnx --objective throughput"
FLEET = "tvm-ios optimize m.onnx --tracker 127.0.0.1:1 --key lab"
TWO_LANES = "tvm-ios optimize m.onnx --lanes 1,2"
#: The end of this model has as many elements as the data say.
ENDS_LATE = "(float[4] x) => (int64[1, n] y) { y = NonZero(x) }"
#: By section; each is said at once.
CHOICES: dict[str, list[Row]] = {
    "Options": [
        Row("no command of ours", "tvm-ios alchemy"),
        Row("a number out of range", "tvm-ios optimize m.onnx --lanes 0"),
        Row(
            "many more lanes than CPUs",
            "tvm-ios optimize m.onnx --lanes 100000",
            library="of this process (",
        ),
        Row("an unknown policy", "tvm-ios schedule m.onnx --policy magic"),
        Row("a policy to be measured", "tvm-ios schedule m.onnx --policy holistic"),
        Row("an unknown device", "tvm-ios schedule m.onnx --cost abacus"),
        Row("a picture of no known kind", "tvm-ios schedule m.onnx --plot s.jpeg"),
        Row(
            "a schedule and policies where nothing is measured",
            f"{OPTIMIZE} --cost cpu --schedule schedule.json --policy greedy",
        ),
        Row(
            "less memory than any order needs",
            "tvm-ios memory m.onnx --scheduler optimal --budget 64",
        ),
        Row(
            "less memory than any schedule needs",
            "tvm-ios schedule m.onnx --cost cpu --memory-budget 64",
        ),
        *(
            Row(
                f"a value that --{option} has not",
                f"tvm-ios optimize m.onnx --{option} on",
                library="':",
            )
            for option in ("objective", "winograd", "precision")
        ),
        Row("batches that are none", "tvm-ios optimize m.onnx --batch 1,two"),
        Row("a level that no CPU has", "tvm-ios optimize m.onnx --arch x86-64-v9", library="use"),
        Row("all trades, and one of them", "tvm-ios schedule m.onnx --pareto -o s.json"),
        Row("all trades by a log", "tvm-ios schedule m.onnx --pareto --cost log.jsonl"),
        Row("launches of no device", "tvm-ios optimize m.onnx --launches code"),
        Row("a device that nobody added", "tvm-ios optimize m.onnx --device board"),
        Row("peers that nobody has", "tvm-ios bench m.onnx --against abacus", library="none of"),
        Row("nothing to resume", "tvm-ios bench m.onnx --resume"),
        Row("two models of one name", "tvm-ios bench m.onnx old/m.onnx"),
        Row("workers of one request", "tvm-ios run out --workers 2"),
        Row("a page of another name", "tvm-ios report out -o page.pdf"),
        Row("a trace of another name", "tvm-ios trace out -o trace.txt"),
    ],
    "Models that run together": [
        Row("only one", "tvm-ios optimize m.onnx --together"),
        Row("several, apart", "tvm-ios optimize m.onnx n.onnx", wider),
        Row("two of one name", "tvm-ios schedule m.onnx old/m.onnx --together"),
        Row("a graph", "tvm-ios schedule m.onnx graph.json --together"),
        Row(
            "one whose end has shapes that depend on the data",
            "tvm-ios schedule m.onnx n.onnx --together",
            model(ENDS_LATE, "n.onnx"),
        ),
    ],
    "Precisions": [
        Row("a GPU's, on a CPU", f"{OPTIMIZE} --precision tf32"),
        Row("a CPU's, on a GPU", "tvm-ios optimize m.onnx --target cuda --precision bfloat16"),
        Row("of a described device", "tvm-ios schedule m.onnx --precision bfloat16"),
        Row(
            "that an accelerator has not",
            "tvm-ios schedule m.onnx --policy graphturbo --cost stcp920 --precision bfloat16",
        ),
        Row("where nothing is measured", f"{OPTIMIZE} --cost cpu --precision bfloat16"),
        Row("tuning it", "tvm-ios tune m.onnx --log new --precision bfloat16"),
        Row("in a bundle", "tvm-ios bundle m.onnx --precision bfloat16"),
        Row(
            "a schedule of another one",
            f"{OPTIMIZE} --schedule schedule.json",
            edit("schedule.json", lambda d: d.update(kernels={"0": "bfloat16"})),
        ),
    ],
    "Throughput": [
        Row("of a GPU", f"{THROUGHPUT} --target cuda"),
        Row("by a description", f"{THROUGHPUT} --cost cpu"),
        Row("of several batches", f"{THROUGHPUT} --batch 1,8"),
        Row("beside ONNX Runtime", f"{THROUGHPUT} --fallback onnxruntime"),
        Row("in a deployment", f"{THROUGHPUT} -o deployment"),
        Row("no workers", 'load("out").session().run_many([], workers=0)'),
        Row("a request without an input", 'load("out").session().run_many([{}])'),
        Row("an input of none", 'load("out").session().run(image=0)'),
    ],
    "Deployments": [
        Row("another runtime in one", f"{TWO_LANES} --fallback onnxruntime"),
        Row("one in a tar", f"{TWO_LANES} -o app.tar"),
        Row("a folder of yours in the way", f"{TWO_LANES} -o mine", folder("mine/thesis.txt")),
        Row("of another model", "tvm-ios optimize n.onnx -o deployment", wider),
        Row("of logs that are not there", "tvm-ios optimize m.onnx --from-logs results"),
        Row(
            "of a folder without logs",
            "tvm-ios optimize m.onnx --from-logs mine",
            folder("mine/thesis.txt"),
        ),
        Row("none there", "tvm-ios pick out"),
        Row("one damaged", "tvm-ios run deployment", cut("deployment/deployment.json")),
        Row("a shape that it has not", "tvm-ios run deployment --shape x:1,4,9,9"),
        Row("an architecture of none", "tvm-ios pick deployment --arch z80", library="use"),
        Row(
            "an entry that it has not",
            "tvm-ios prune deployment lanes-99",
            library="there are:",
        ),
        Row("lanes of an executable", "tvm-ios run out --lanes 2"),
    ],
    "Fleets": [
        Row("a key without a tracker", "tvm-ios optimize m.onnx --key lab"),
        Row("a tracker without a key", "tvm-ios optimize m.onnx --tracker 127.0.0.1:9190"),
        Row("machines of none", "tvm-ios optimize m.onnx --devices 2"),
        Row("an address of none", "tvm-ios optimize m.onnx --tracker here --key lab"),
        Row("nobody there", FLEET),
        Row("and a description", f"{FLEET} --cost v100"),
        Row("and a device", f"{FLEET} --device board"),
        Row("and GPUs", f"{FLEET} --target cuda"),
        Row("and another runtime", f"{FLEET} --fallback onnxruntime"),
        Row("and throughput", f"{FLEET} --objective throughput"),
        Row("and a deployment", f"{FLEET} --lanes 1,2"),
    ],
}
