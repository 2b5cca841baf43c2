"""A bundle's programs beside PyTorch and ONNX Runtime, in turn, in one process, on one device.

``run.py --peers NAMES`` runs it after a search; what cannot run here is skipped and says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.bundle.compare import verified
from runtime_ext.bundle.contents import OPERATORS, Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.onnx_peer import OPTIONS, onnx_runner
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.bundle.tvm_peer import tvm_runner
from runtime_ext.contest import Rules, hold_contest
from tvm_ios.contest.verdict import output_errors, ratio_of
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

#: TVM's own build, on its virtual machine.
TVM = "tvm"

_RULES = Rules(rounds=60, seconds=15.0, minimum=6, warm_up=3)


def compare_peers(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Path],
    names: Sequence[str],
    progress: Progress,
) -> dict[str, Any]:
    """Latencies and errors of our schedules and of others' ways to run the same network.

    Parameters
    ----------
    bundle, backend, timer
        Whose.
    schedules
        Files by name, that of the ratios first; of one for another batch the units' numbers count.
    names
        Of :data:`PEERS`, ONNX Runtime's ``onnxruntime`` and ``onnxruntime-graph``, or ``tvm``.
    progress
        Called with (what, done, total).
    """
    runners: dict[str, Callable[[], Any]] = {}
    errors: dict[str, tuple[float, float]] = {}
    skipped: dict[str, str] = {}
    for name, path in schedules.items():
        try:
            schedule = for_this_batch(Schedule.load(path), bundle.graph)
            session = backend.session(bundled_program(bundle, backend, timer, schedule))
            errors[name] = verified(bundle, name, session)
            runners[name] = session.run
        except UserError as error:
            skipped[name] = str(error)
    if not runners:
        raise UserError(f"none of our schedules can run here: {skipped or 'give --schedules'}")
    first = next(iter(runners))
    for done, name in enumerate(names):
        progress("preparing peers", done, len(names))
        try:
            run, outputs = _peer(bundle, name, backend.device.lanes)
            errors[name] = output_errors(outputs(), bundle.reference_outputs)
            runners[name] = run
        except ImportError as error:
            skipped[name] = f"not installed: {error}"
        # Compilers and exporters of others raise anything; the rest is compared all the same.
        except Exception as error:
            skipped[name] = " ".join(str(error).split())[:300]
    samples = hold_contest(runners, _RULES, lambda n: progress("beside peers", n, _RULES.rounds))
    return {
        "latency_ms": {name: statistics.median(s) * 1e3 for name, s in samples.items()},
        "ratio": {name: asdict(ratio_of(samples, first, name)) for name in samples},
        "max_rel_error": {name: relative for name, (_, relative) in errors.items()},
        "skipped": skipped,
    }


def for_this_batch(schedule: Schedule, graph: OpGraph) -> Schedule:
    """A schedule of a graph that differs in its batch only, for this one.

    Raises
    ------
    ScheduleError
        If the units do not fit.
    """
    moved = replace(schedule, fingerprint=graph.fingerprint, latencies=(), batch=graph.batch)
    moved.validate(graph)
    return moved


#: Runs once, and gives the outputs.
_Runner = tuple[Callable[[], Any], Callable[[], list[Any]]]


def _peer(bundle: Bundle, name: str, lanes: int) -> _Runner:
    if name not in (*PEERS, *OPTIONS, TVM):
        raise UserError(f"{name!r} is none of {', '.join((*PEERS, *OPTIONS, TVM))}")
    import torch

    given = [torch.from_numpy(value) for value in bundle.reference_inputs.values()]
    if name == TVM:
        return tvm_runner(bundle, given)
    from runtime_ext.peers.torch_import.graph_network import graph_network

    data = json_object((bundle.folder / OPERATORS).read_bytes())
    constants = {int(t): bundle.weights[key] for t, key in data["constants"]}
    network: Any = graph_network(OpGraph.from_json(data["graph"]), constants)
    device = "cuda" if bundle.about["kind"] == "cuda" else "cpu"
    tf32 = bundle.about["precision"] == "tf32"
    if bundle.about["precision"] == "float16":
        network = network.half()
    if name in OPTIONS:
        return onnx_runner(name, network, given, gpu=device == "cuda", lanes=lanes, tf32=tf32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    network = network.to(device)
    inputs = [value.to(device) for value in given]
    if name.endswith("-nhwc"):
        network = network.to(memory_format=torch.channels_last)
        inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    call = PEERS[name](network, inputs)

    def run() -> Any:
        with torch.inference_mode():
            made = call()
        if device == "cuda":
            torch.cuda.synchronize()
        return made

    for _ in range(3):
        run()
    return run, lambda: [value.cpu().numpy() for value in run()]


def _eager(network: Any, inputs: list[Any]) -> Callable[[], Any]:
    return lambda: network(*inputs)


def _graph(network: Any, inputs: list[Any]) -> Callable[[], Any]:
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            network(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        outputs = network(*inputs)

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def _compiled(mode: str) -> Callable[[Any, list[Any]], Callable[[], Any]]:
    def make(network: Any, inputs: list[Any]) -> Callable[[], Any]:
        import torch

        made = torch.compile(network, mode=mode)
        return lambda: made(*inputs)

    return make


#: PyTorch's ways to run a network; those that end in -nhwc have channels innermost.
PEERS: Mapping[str, Callable[[Any, list[Any]], Callable[[], Any]]] = {
    "torch": _eager,
    "torch-nhwc": _eager,
    "torch-graph": _graph,
    "torch-graph-nhwc": _graph,
    "torch-compile": _compiled("reduce-overhead"),
    "torch-max-autotune": _compiled("max-autotune"),
}
