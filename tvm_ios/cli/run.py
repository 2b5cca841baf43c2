"""``tvm-ios run``: run a saved executable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.executables import refuse_models
from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors
from tvm_ios.cli.options.model import States, input_shapes, states_of
from tvm_ios.cli.options.search_options import Objective
from tvm_ios.cli.options.values import refuse
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array, read_arrays, read_named_arrays, write_arrays
from tvm_ios.files.atomic import require_writable

if TYPE_CHECKING:
    from runtime_ext.execution.model_session import ModelSession
    from runtime_ext.execution.session_pool import SessionPool
    from runtime_ext.execution.tailed_session import TailedSession

#: The part of the runs that took no longer, for each latency that is told.
_QUANTILES = {"median": 50, "min": 0, "max": 100, "p90": 90, "p99": 99}

PAGE = HelpPage(
    (
        "tvm-ios run out/ --input x.npz --output y.npz",
        "tvm-ios run out/ --input image=x.npy --compare expected.npz --rtol 1e-3",
        "tvm-ios run out/ --warm-up 20 --repeat 1000",
        "tvm-ios run out/ --state h_out=h_in --repeat 100",
        "tvm-ios run out/ --objective throughput --repeat 200",
        "tvm-ios run app/ --shape image:5,3,224,224 --lanes 2",
    ),
    "`tvm-ios explain` says where the time goes.",
)


@reports_errors
def run(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    reporting: Reporting,
    inputs: Annotated[
        list[str] | None,
        panels.model(
            "--input",
            metavar="FILE",
            help="An .npz with one array an input, or NAME=FILE.npy, once for each.",
        ),
    ] = None,
    seed: Annotated[
        int, panels.model(min=0, help="Of random inputs, where --input is not given.")
    ] = 0,
    shape: Annotated[
        list[str] | None,
        panels.model(
            "--shape",
            metavar="NAME:1,3,224,224",
            help="Of random inputs of a deployment; once for each.  [the smallest batch]",
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        panels.running(min=1, help="Lanes that a deployment may use.  [CPUs of this process]"),
    ] = None,
    state: States = None,
    output: Annotated[Path | None, panels.output(help="Write the outputs to this .npz.")] = None,
    compare: Annotated[
        Path | None,
        panels.running(metavar="FILE", help="Fail unless the outputs are those of this .npz."),
    ] = None,
    rtol: Annotated[
        float,
        panels.running(min=0, help="Difference that --compare allows, relative to each number."),
    ] = 1e-3,
    atol: Annotated[float, panels.running(min=0, help="Difference that it allows besides.")] = 1e-5,
    warm_up: Annotated[int, panels.running(min=0, help="Runs before those timed.")] = 1,
    repeat: Annotated[int, panels.running(min=1, help="Runs to time.")] = 10,
    objective: Annotated[
        Objective,
        panels.search(help="throughput: also time so many requests, several of them at once."),
    ] = Objective.latency,
    workers: Annotated[
        int | None,
        panels.running(
            min=1, help="Requests at once.  [what `optimize --objective throughput` kept; lanes]"
        ),
    ] = None,
) -> None:
    """Run an executable on given or random inputs, and time it.

    It runs where the processor, TVM's version and every checksum fit what it was made for. What
    `optimize` saved in the place of one, because it was faster, runs too. Of a deployment the
    program runs that fits this machine and the inputs' shapes. With states, of --state or of
    `optimize`, the runs timed are steps, each with the states of the one before, from the first on;
    the outputs are those of the last one.
    """
    from runtime_ext.deployment.deployment import Deployment, load_program
    from runtime_ext.deployment.session import DeploymentSession
    from runtime_ext.execution.foreign_build import ForeignBuild

    if objective is Objective.latency:
        refuse("it is for --objective throughput", {"--workers": workers})
    refuse_models(executable)
    if output is not None:
        require_writable(output)
    states = states_of(state) or None
    expected = None if compare is None else read_arrays(compare)
    shapes = input_shapes(shape)
    loaded = load_program(executable, lanes=lanes)
    build, tail = None, None
    stepping: ModelSession | TailedSession | None = None
    if isinstance(loaded, Deployment):
        refuse("a deployment keeps no states: run one of its entries", {"--state": states})
        session = loaded.session()
        names = [port.name for port in loaded.registry.entries[0].inputs]
        random_inputs = partial(session.random_inputs, shapes=shapes or None)
    else:
        refuse("it is for deployments", {"--shape": shapes, "--lanes": lanes})
        session = loaded.session(states=states)
        names, random_inputs = [info.name for info in session.inputs], session.random_inputs
        stepping = session if session.state_inputs else None
        if isinstance(loaded, ForeignBuild):
            build = loaded
        elif loaded.tail is not None:
            tail = loaded.tail.sentence
    kept = frozenset[str]() if stepping is None else stepping.state_inputs
    if inputs:
        arrays = read_named_arrays(inputs, names)
    else:
        arrays = {k: value for k, value in random_inputs(seed).items() if k not in kept}
    session.set_input(**arrays)
    session.run()
    if warm_up:
        session.benchmark(number=1, repeat=warm_up)
    if stepping is None:
        seconds = session.benchmark(number=1, repeat=repeat)
    else:
        stepping.reset_states()
        stepping.set_input(**arrays)
        seconds = _steps(stepping, repeat)
    milliseconds = np.array(seconds) * 1e3
    results: dict[str, Any] = {info.name: session.get_output(info.name) for info in session.outputs}
    if output is not None:
        write_arrays(output, results)
    difference = None if expected is None else _require_equal(results, expected, rtol, atol)
    served = None
    if objective is Objective.throughput:
        # Requests are no steps of one another: each has all inputs.
        whole = {**random_inputs(seed), **arrays} if kept else arrays
        served = _serve(session.pool(workers), whole, warm_up, repeat)
        session.close()
    latency = {name: float(np.percentile(milliseconds, q)) for name, q in _QUANTILES.items()}
    if reporting.as_json:
        digests = {
            name: {
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            }
            for name, array in results.items()
        }
        runtime = None if build is None else build.runtime
        data: dict[str, Any] = {
            "latency_ms": latency,
            "outputs": digests,
            "tail": tail,
            "runtime": runtime,
        }
        if kept:
            data["states"] = sorted(kept)
        if isinstance(session, DeploymentSession):
            data["entry"] = session.entry.id
        if served is not None:
            data["throughput"] = served
        print_json(data | ({} if difference is None else {"max_abs_difference": difference}))
        return
    table = Table("output", "shape", "type", "smallest", "largest", title=escape(str(executable)))
    for name, array in results.items():
        extents = "x".join(map(str, array.shape))
        table.add_row(escape(name), extents, str(array.dtype), *_range(array))
    console().print(table)
    if isinstance(session, DeploymentSession):
        console().print(escape(f"entry {session.entry.id} was taken"))
    if build is not None:
        console().print(f"[yellow]this is {build.sentence}[/yellow]")
    if tail is not None:
        console().print(f"[yellow]{escape(tail)}[/yellow]")
    if difference is not None:
        console().print(
            f"the outputs are those of {compare}; they differ by {difference:.3g} at most"
        )
    console().print(
        f"latency of {repeat} runs: median {latency['median']:.3f} ms, 90 % within "
        f"{latency['p90']:.3f}, 99 % within {latency['p99']:.3f}; min {latency['min']:.3f}, "
        f"max {latency['max']:.3f}"
    )
    if served is not None:
        console().print(
            f"{served['requests_a_second']:.1f} requests a second with {served['workers']} at once "
            f"and {served['in_flight']} in flight: half within {served['p50_ms']:.3f} ms, 99 % "
            f"within {served['p99_ms']:.3f}, waiting included"
        )


def _steps(session: ModelSession | TailedSession, count: int) -> list[float]:
    """The seconds of each of so many steps."""
    seconds: list[float] = []
    for _ in range(count):
        begin = time.perf_counter()
        session.run()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _serve(
    pool: SessionPool, request: Mapping[str, Array], warm_up: int, repeat: int
) -> dict[str, float]:
    """Requests a second, and the milliseconds of each, with two in flight for each worker."""
    from runtime_ext.execution.request_load import serve

    in_flight = 2 * pool.workers
    if warm_up:
        serve(pool.submit, [request], warm_up * pool.workers, in_flight)
    served = serve(pool.submit, [request], repeat, in_flight)
    p50, p99 = (float(q) * 1e3 for q in np.percentile(served.latencies, [50, 99]))
    return {
        "requests_a_second": repeat / served.seconds,
        "workers": pool.workers,
        "in_flight": in_flight,
        "p50_ms": p50,
        "p99_ms": p99,
    }


def _require_equal(
    results: Mapping[str, Array], expected: Mapping[str, Array], rtol: float, atol: float
) -> float:
    """The largest difference of outputs to those that are expected.

    Raises
    ------
    UserError
        If one is missing or differs by more than is allowed.
    """
    if missing := sorted(expected.keys() - results.keys()):
        raise UserError(
            f"--compare has {', '.join(map(repr, missing))}, and the outputs are "
            f"{', '.join(map(repr, results))}"
        )
    largest = 0.0
    for name, wanted in expected.items():
        result = results[name]
        if (result.shape, result.dtype) != (wanted.shape, wanted.dtype):
            raise UserError(
                f"{name!r} is {result.dtype} of {list(result.shape)} and expected are "
                f"{wanted.dtype} of {list(wanted.shape)}"
            )
        wrong = ~np.isclose(result, wanted, rtol, atol, equal_nan=True)
        with np.errstate(invalid="ignore"):
            differences = np.abs(np.subtract(result, wanted, dtype=np.float64))
        largest = max(largest, float(np.nanmax(differences, initial=0.0)))
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            raise UserError(
                f"{name!r} differs from what is expected in {int(wrong.sum())} of {wrong.size} "
                f"numbers: at {list(place)} it is {result[place]:.9g} and expected are "
                f"{wanted[place]:.9g} (--rtol {rtol:g} --atol {atol:g})"
            )
    return largest


def _range(array: Array) -> tuple[str, str]:
    if not array.size:
        return "", ""
    return f"{float(array.min()):.6g}", f"{float(array.max()):.6g}"
