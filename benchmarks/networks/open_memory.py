"""Memory and throughput of one program for all shapes beside ONNX Runtime and OpenVINO.

An encoder with random weights (:mod:`benchmarks.networks.open_models`) is compiled once for its
range. *Memory*: the resident set of a process with one session over random lengths, in a process
for each runtime. *Requests*: a stream of texts whose lengths are log-normal, in batches of 1 to 8,
one request after another on all threads, and several at once, on one thread each. The stream is cut
into pieces, of which all runners take one in turn.
"""

# OpenVINO's stubs lack properties.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.table import Table

from benchmarks.networks.open_models import encoder
from benchmarks.report import read_figures, update_result
from runtime_ext.execution.bound_model import onnx_session
from runtime_ext.execution.request_load import serve
from runtime_ext.fresh_process import end_with_parent
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.outputs import output_errors
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.files.byte_sizes import size_text

NAME = "open_memory"
#: Layers, width and heads.
_SIZE = (2, 256, 4)
_RANGE = ("input_ids:1..8,1..256",)
_WORDS = 30_522
_LEAST, _MOST, _MOST_ROWS = 8, 256, 8
#: Median and spread of the lengths' logarithms.
_MEDIAN, _SPREAD = 40, 0.8
#: Runs between two looks at the resident set, and requests of a piece of the stream.
_LOOK, _PIECE = 50, 100
#: Differences to ONNX Runtime's outputs that are rounding, relative to the largest output.
_ROUNDING = 1e-3

Request = Mapping[str, Array]
Runner = Callable[[Sequence[Request]], tuple[float, list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=1000, help="of which memory is looked at")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        what, *arguments = given.child
        child = resident if what == "memory" else requests
        print(json.dumps(child(*arguments)))
        return
    with temporary_folder() as folder:
        onnx.save(encoder(*_SIZE, words=_WORDS), folder / "model.onnx")
        for threads in given.threads:
            _compile(folder, threads)
            for runtime in ("ours", "ours, reserved", "onnxruntime", "openvino"):
                told = ("memory", runtime, folder, threads, given.runs)
                _keep("memory", [_child(threads, *told)])
            told = ("requests", folder, threads, given.requests)
            _keep("requests", _child(threads, *told))
    print_figures(read_figures(NAME))


def _keep(what: str, rows: Sequence[Mapping[str, Any]]) -> None:
    load = round(os.getloadavg()[1], 1)
    kept = [{"what": what, **row, "load": load} for row in rows]
    update_result(NAME, kept, "what", "runner", "threads")


def _compile(folder: Path, threads: int) -> None:
    command = [sys.executable, "-m", "tvm_ios", "optimize", folder / "model.onnx"]
    command += ["--shape", *_RANGE, "--lanes", threads, "-o", folder / f"ours{threads}"]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def _child(threads: int, *arguments: object) -> Any:
    """Return what a process of its own measures: TVM fixes its threads when it is loaded."""
    command = [sys.executable, "-m", f"benchmarks.networks.{NAME}", "--child"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, "TVM_NUM_THREADS": str(threads)},
        preexec_fn=partial(end_with_parent, os.getpid()),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def resident(runtime: str, folder: str, threads: str, runs: str) -> dict[str, Any]:
    """Return by how much a process grows with a session, and over random lengths."""
    run, before, loaded = _loaded(runtime, Path(folder), int(threads))
    generator = np.random.default_rng(0)
    seen: list[int] = []
    for number in range(int(runs)):
        length = int(generator.integers(1, _MOST + 1))
        run(_request(generator, int(generator.integers(1, _MOST_ROWS + 1)), length))
        if (number + 1) % _LOOK == 0:
            seen.append(_resident() - before)
    return {
        **{"runner": runtime, "threads": int(threads), "runs": int(runs)},
        **{"loaded": loaded, "seen": seen},
    }


def _loaded(runtime: str, folder: Path, threads: int) -> tuple[Callable[[Request], Any], int, int]:
    """Return a runtime's run of one request, and the resident set before its session and after."""
    # Packages do not count.
    if runtime.startswith("ours"):
        from runtime_ext.execution.executable import load
        from runtime_ext.native_library import load_native_library

        load_native_library()
        before = _resident()
        session = load(folder / f"ours{threads}").session()
        if runtime.endswith("reserved"):
            session.reserve()
        return partial(_run_ours, session), before, _resident() - before
    import_module(runtime)
    before = _resident()
    run = {"onnxruntime": _onnxruntime, "openvino": _openvino}[runtime](folder, threads)
    return run, before, _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _request(generator: np.random.Generator, rows: int, length: int) -> dict[str, Array]:
    words = generator.integers(0, _WORDS, (rows, length))
    return {"input_ids": words, "attention_mask": np.ones_like(words)}


def stream(count: int) -> list[dict[str, Array]]:
    """Return requests: log-normal lengths, batches of 1 to 8 texts of one length."""
    generator = np.random.default_rng(1)
    lengths = generator.lognormal(np.log(_MEDIAN), _SPREAD, count)
    return [
        _request(generator, int(generator.integers(1, _MOST_ROWS + 1)), int(length))
        for length in np.clip(np.round(lengths), _LEAST, _MOST)
    ]


def requests(folder: str, threads: str, count: str) -> list[dict[str, Any]]:
    """Return requests a second and latencies of each runner."""
    from tvm_ios.api import load

    place, number, asked = Path(folder), int(threads), stream(int(count))
    session = load(place / f"ours{number}").session()
    reference, openvino = _onnxruntime(place, number), _openvino(place, number)
    for request in asked[:: max(1, len(asked) // 20)]:
        error = output_errors([_run_ours(session, request)], [reference(request)])[1]
        if error > _ROUNDING:
            raise SystemExit(f"ours differs from ONNX Runtime by {error:.1e}")
    runners: dict[str, Runner] = {
        "ours": partial(_one_by_one, partial(_run_ours, session)),
        "onnxruntime": partial(_one_by_one, reference),
        "openvino": partial(_one_by_one, openvino),
    }
    if number > 1:
        pool = ThreadPoolExecutor(number)
        alone = _onnxruntime(place, 1)
        runners |= {
            "ours, run_many": partial(_at_once, session.pool(number).submit, number),
            "onnxruntime at once": partial(_at_once, partial(pool.submit, alone), number),
            "openvino at once": partial(_at_once, _openvino_streams(place, number), number),
        }
    seconds = dict.fromkeys(runners, 0.0)
    latencies: dict[str, list[float]] = {name: [] for name in runners}
    for run in runners.values():
        run(asked[:: max(1, len(asked) // 50)])
    for turn, first in enumerate(range(0, len(asked), _PIECE)):
        # Nobody is always the first one.
        for name in [*runners][turn % len(runners) :] + [*runners][: turn % len(runners)]:
            took, each = runners[name](asked[first : first + _PIECE])
            seconds[name] += took
            latencies[name] += each
    return [
        {
            **{"runner": name, "threads": number, "requests": len(asked)},
            "requests_a_second": len(asked) / seconds[name],
            "p50": float(np.percentile(latencies[name], 50)),
            "p99": float(np.percentile(latencies[name], 99)),
        }
        for name in runners
    ]


def _one_by_one(run: Callable[[Request], Any], asked: Sequence[Request]) -> Any:
    latencies: list[float] = []
    begin = time.perf_counter()
    for request in asked:
        began = time.perf_counter()
        run(request)
        latencies.append(time.perf_counter() - began)
    return time.perf_counter() - begin, latencies


def _at_once(
    submit: Callable[[Request], Future[Any]], threads: int, asked: Sequence[Request]
) -> tuple[float, list[float]]:
    """Serve requests with two in flight for each thread; latencies have the wait for one."""
    served = serve(submit, asked, len(asked), 2 * threads)
    return served.seconds, list(served.latencies)


def _run_ours(session: Any, request: Request) -> Array:
    session.run(**request)
    return session.get_output(0)


def _onnxruntime(folder: Path, threads: int) -> Callable[[Request], Array]:
    session = onnx_session(folder / "model.onnx", threads)
    return lambda request: session.run(None, dict(request))[0]


def _openvino_model(path: Path, threads: int, *, streams: int = 1) -> Any:
    """Return a model compiled by OpenVINO for one request on all threads, or one on each stream."""
    import openvino
    from openvino import properties
    from openvino.properties import hint

    settings = {
        hint.performance_mode: hint.PerformanceMode.LATENCY,
        hint.inference_precision: openvino.Type.f32,
        properties.inference_num_threads: threads,
    }
    if streams > 1:
        settings[hint.performance_mode] = hint.PerformanceMode.THROUGHPUT
        settings[properties.num_streams] = streams
    return openvino.Core().compile_model(str(path), "CPU", settings)


def _openvino(folder: Path, threads: int) -> Callable[[Request], Array]:
    request = _openvino_model(folder / "model.onnx", threads).create_infer_request()
    return lambda asked: request.infer(dict(asked))[0].copy()


def _openvino_streams(folder: Path, streams: int) -> Callable[[Request], Future[Array]]:
    """Return a function that queues a request on one of several streams of a thread each."""
    import openvino

    model = _openvino_model(folder / "model.onnx", streams, streams=streams)
    queue = openvino.AsyncInferQueue(model, streams)

    def done(request: Any, future: Future[Array]) -> None:
        future.set_result(request.get_output_tensor(0).data.copy())

    queue.set_callback(done)

    def submit(asked: Request) -> Future[Array]:
        future: Future[Array] = Future()
        queue.start_async(dict(asked), future)
        return future

    return submit


def print_figures(figures: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables of memory and of requests."""
    memory = Table("runner", "threads", "session", "after 50 runs", "largest", "at the end")
    served = Table("runner", "threads", "requests a second", "p50 ms", "p99 ms", "load")
    for row in figures:
        if row["what"] == "memory":
            seen = [row["seen"][0], max(row["seen"]), row["seen"][-1]]
            memory.add_row(
                row["runner"], str(row["threads"]), *map(size_text, [row["loaded"], *seen])
            )
        else:
            served.add_row(
                row["runner"],
                str(row["threads"]),
                f"{row['requests_a_second']:.1f}",
                *(f"{row[key] * 1e3:.1f}" for key in ("p50", "p99")),
                str(row["load"]),
            )
    console().print(memory)
    console().print(served)


if __name__ == "__main__":
    main()
