"""Requests a second: ours, as `optimize --objective throughput` keeps it, beside other runtimes.

ONNX Runtime runs a session of one thread for each lane, and one session of all threads; OpenVINO
runs its PERFORMANCE_HINT=THROUGHPUT with an asynchronous queue. So many requests are always in
flight. All serve in turn, in one process, the same inputs; a sample is many requests.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import update_result
from runtime_ext.execution.executable import load
from runtime_ext.execution.request_load import serve
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.contest.outputs import output_errors
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import ratio_of
from tvm_ios.models.load import load_onnx

NETWORKS = ("squeezenet", "shufflenet_v2", "mobilenet_v2", "densenet121", "resnet50")
OURS = "ours"

#: Takes a request, inputs by name, and promises the outputs in the model's order.
Submit = Callable[[dict[str, Any]], Future[Any]]


def onnxruntime_sessions(model: bytes, sessions: int, threads: int, opened: ExitStack) -> Submit:
    """A queue before so many sessions; each is run by a thread of its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if sessions > 1:
        # Spinning threads would take the CPU of another session.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]
    free = [onnxruntime.InferenceSession(model, options, providers) for _ in range(sessions)]
    pool = opened.enter_context(ThreadPoolExecutor(sessions))

    def run(request: dict[str, Any]) -> list[Any]:
        session = free.pop()
        try:
            return session.run(None, request)
        finally:
            free.append(session)

    return lambda request: pool.submit(run, request)


def openvino_queue(path: Path, requests: int, lanes: int) -> Submit:
    """An asynchronous queue of the requests that the hint is told of, in float32."""
    import openvino
    from openvino import properties
    from openvino.properties import hint

    core = openvino.Core()
    settings = {
        hint.performance_mode: hint.PerformanceMode.THROUGHPUT,
        hint.num_requests: requests,
        hint.inference_precision: openvino.Type.f32,
        properties.inference_num_threads: lanes,
    }
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    queue = openvino.AsyncInferQueue(compiled, requests)

    def done(request: Any, future: Future[Any]) -> None:
        future.set_result([request.get_tensor(port).data.copy() for port in compiled.outputs])

    queue.set_callback(done)

    def submit(request: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        queue.start_async(request, future)
        return future

    return submit


def kept(network: str, folder: Path, policies: str | None, again: bool) -> Path:
    """Our executable, made where it is not there yet."""
    path = folder / network
    if again or not path.exists():
        words = [*("optimize", network, "--objective", "throughput"), "-o", str(path)]
        words += [] if policies is None else ["--policy", policies]
        subprocess.run([sys.executable, "-m", "tvm_ios", *words], check=True)
    return path


def measure(network: str, path: Path, seconds: float, in_flight: int, folder: Path) -> list[Any]:
    """A row a way to serve requests."""
    lanes, model = available_lanes(), load_onnx(network)
    file = folder / f"{network}.onnx"
    file.write_bytes(model.SerializeToString())
    executable = load(path)
    with ExitStack() as opened:
        session = opened.enter_context(closing(executable.session()))
        requests = [session.random_inputs(seed) for seed in range(4)]
        one_each = partial(onnxruntime_sessions, file.read_bytes(), opened=opened)
        ways: dict[str, Submit] = {
            OURS: session.pool().submit,
            f"onnxruntime {lanes} x 1": one_each(lanes, 1),
            f"onnxruntime 1 x {lanes}": one_each(1, lanes),
        }
        if find_spec("openvino") is None:
            print("openvino is not installed, and left out", file=sys.stderr)
        else:
            ways["openvino"] = openvino_queue(file, in_flight, lanes)
        names = [port.name for port in session.outputs]
        expected: Sequence[Any] = ways[f"onnxruntime 1 x {lanes}"](requests[0]).result()
        errors: dict[str, float] = {}
        for way, submit in ways.items():
            outputs = submit(requests[0]).result()
            arrays = [outputs[n] for n in names] if isinstance(outputs, dict) else outputs
            errors[way] = output_errors(arrays, expected)[1]
            if not errors[way] < 1e-3:
                raise SystemExit(f"{way} differs from ONNX Runtime by {errors[way]:.1e}: {network}")
        slowest = max(serve(s, requests, in_flight, in_flight).seconds for s in ways.values())
        count = max(2 * in_flight, in_flight * math.ceil(0.3 / slowest))
        latencies: dict[str, list[Any]] = {way: [] for way in ways}

        def runner(way: str) -> Callable[[], float]:
            def run() -> float:
                served = serve(ways[way], requests, count, in_flight)
                latencies[way].append(served.latencies)
                return served.seconds

            return run

        rules = Rules(rounds=1000, seconds=seconds, hopeless_seconds=seconds)
        samples = run_in_turn({way: runner(way) for way in ways}, rules)
    rows: list[Any] = []
    for way, times in samples.items():
        # The first runs are not counted.
        each = np.concatenate(latencies[way][-len(times) :]) * 1e3
        ratio = ratio_of(samples, OURS, way)
        rows.append(
            {
                **{"network": network, "way": way, "lanes": lanes, "in_flight": in_flight},
                "requests_a_second": count / float(np.median(times)),
                **{f"p{q}_ms": float(np.percentile(each, q)) for q in (50, 99)},
                **{"requests": len(each), "max_rel_error": errors[way]},
                "ours_to_it": {
                    **{"median": ratio.median, "low": ratio.low, "high": ratio.high},
                    "pairs": ratio.pairs,
                },
            }
        )
    rows[0] |= {"kept": executable.notes["throughput"]["kept"], "workers": executable.workers}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo")
    parser.add_argument("--folder", type=Path, default=Path("out/throughput"), help="executables")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each network")
    parser.add_argument("--in-flight", type=int, help="requests, by default two a lane")
    parser.add_argument("--policy", help="what `optimize` tries, by default all")
    parser.add_argument("--again", action="store_true", help="optimize again")
    given = parser.parse_args()
    in_flight = given.in_flight or 2 * available_lanes()
    given.folder.mkdir(parents=True, exist_ok=True)
    for network in given.networks:
        path = kept(network, given.folder, given.policy, given.again)
        rows = measure(network, path, given.seconds, in_flight, given.folder)
        for row in rows:
            print(json.dumps(row), flush=True)
        update_result("throughput", rows, "network", "way")


if __name__ == "__main__":
    main()
