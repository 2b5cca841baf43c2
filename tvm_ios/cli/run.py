"""``tvm-ios run``: run a saved executable."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, print_json, reports_errors
from tvm_ios.cli.options.executables import refuse_models
from tvm_ios.cli.options.model import States, input_shapes, states_of
from tvm_ios.cli.options.search_options import Objective
from tvm_ios.cli.options.values import refuse
from tvm_ios.cli.tables.run import QUANTILES, Run, print_run
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array, read_arrays, read_named_arrays, write_arrays
from tvm_ios.files.atomic import require_writable

if TYPE_CHECKING:
    from runtime_ext.execution.model_session import ModelSession
    from runtime_ext.execution.session_pool import SessionPool
    from runtime_ext.execution.tailed_session import TailedSession

PAGE = HelpPage(
    (
        "tvm-ios run out/ --input x.npz --output y.npz",
        "tvm-ios run out/ --input image=x.npy --compare expected.npz --rtol 1e-3",
        "tvm-ios run out/ --warm-up 20 --repeat 1000",
        "tvm-ios run out/ --state h_out=h_in --repeat 100",
        "tvm-ios run out/ --objective throughput --repeat 200",
        "tvm-ios run app/ --shape image:5,3,224,224 --lanes 2",
        "tvm-ios run out/ --shape input_ids:8,31 --reserve",
    ),
    "`tvm-ios explain` says where the time goes.",
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Options: the expected outputs, and by how much outputs may differ."""

    compare: Annotated[
        Path | None,
        panels.running(metavar="FILE", help="Fail unless the outputs are those of this .npz."),
    ] = None
    rtol: Annotated[
        float,
        panels.running(min=0, help="Difference that --compare allows, relative to each number."),
    ] = 1e-3
    atol: Annotated[float, panels.running(min=0, help="Difference that it allows besides.")] = 1e-5


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Options: the inputs of the run."""

    inputs: Annotated[
        list[str] | None,
        panels.model(
            "--input",
            metavar="FILE",
            help="An .npz with one array an input, or NAME=FILE.npy, once for each.",
        ),
    ] = None
    seed: Annotated[
        int, panels.model(min=0, help="Of random inputs, where --input is not given.")
    ] = 0
    shape: Annotated[
        list[str] | None,
        panels.model(
            metavar="NAME:1,3,224,224",
            help="Of random inputs of a deployment or a range; once for each.  "
            "[the smallest batch, a middle]",
        ),
    ] = None


@reports_errors
def run(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    reporting: Reporting,
    given: Inputs,
    comparison: Comparison,
    lanes: Annotated[
        int | None,
        panels.running(min=1, help="Lanes that a deployment may use.  [CPUs of this process]"),
    ] = None,
    reserve: Annotated[
        bool,
        panels.running(
            "--reserve", help="Take the memory of a range's largest shape before the first run."
        ),
    ] = False,
    state: States = None,
    output: Annotated[Path | None, panels.output(help="Write the outputs to this .npz.")] = None,
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
    from runtime_ext.execution.session import Session

    if objective is Objective.latency:
        refuse("it is for --objective throughput", {"--workers": workers})
    refuse_models(executable)
    if output is not None:
        require_writable(output)
    states = states_of(state) or None
    compare = comparison.compare
    expected = None if compare is None else read_arrays(compare)
    shapes = input_shapes(given.shape)
    loaded = load_program(executable, lanes=lanes)
    build, tail = None, None
    stepping: ModelSession | TailedSession | None = None
    if isinstance(loaded, Deployment):
        refuse("a deployment keeps no states: run one of its entries", {"--state": states})
        session = loaded.session()
        names = [port.name for port in loaded.registry.entries[0].inputs]
        random_inputs = partial(session.random_inputs, shapes=shapes or None)
    else:
        refuse("it is for deployments", {"--lanes": lanes})
        session = loaded.session(states=states)
        names, random_inputs = [info.name for info in session.inputs], session.random_inputs
        if shapes:
            is_open = isinstance(session, Session) and any(p.is_open for p in session.inputs)
            refuse("it is for deployments and ranges of shapes", {"--shape": not is_open})
            random_inputs = partial(session.random_inputs, shapes=shapes)
        stepping = session if session.state_inputs else None
        if isinstance(loaded, ForeignBuild):
            build = loaded
        elif loaded.tail is not None:
            tail = loaded.tail.sentence
    kept = frozenset[str]() if stepping is None else stepping.state_inputs
    if given.inputs:
        arrays = read_named_arrays(given.inputs, names)
    else:
        arrays = {k: value for k, value in random_inputs(given.seed).items() if k not in kept}
    if reserve:
        session.reserve()
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
    difference = None if expected is None else _require_equal(results, expected, comparison)
    served = None
    if objective is Objective.throughput:
        # Requests are independent, no steps with states: each needs all inputs.
        whole = {**random_inputs(given.seed), **arrays} if kept else arrays
        served = _serve(session.pool(workers), whole, warm_up, repeat)
        session.close()
    ran = Run(
        executable,
        results,
        {name: float(np.percentile(milliseconds, q)) for name, q in QUANTILES.items()},
        repeat,
        tail=tail,
        build=build,
        states=tuple(sorted(kept)),
        entry=session.entry.id if isinstance(session, DeploymentSession) else None,
        compared_with=compare,
        difference=difference,
        served=served,
    )
    if reporting.as_json:
        print_json(ran.to_json())
    else:
        print_run(ran)


def _steps(session: ModelSession | TailedSession, count: int) -> list[float]:
    """Return the seconds of each of ``count`` runs, each with the states of the one before."""
    seconds: list[float] = []
    for _ in range(count):
        begin = time.perf_counter()
        session.run()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _serve(
    pool: SessionPool, request: Mapping[str, Array], warm_up: int, repeat: int
) -> dict[str, float]:
    """Return requests a second and latencies in milliseconds, with two in flight per worker."""
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
    results: Mapping[str, Array], expected: Mapping[str, Array], allowed: Comparison
) -> float:
    """Return the largest difference of outputs to the expected ones.

    Raise UserError if an output is missing or differs by more than is allowed.
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
        wrong = ~np.isclose(result, wanted, allowed.rtol, allowed.atol, equal_nan=True)
        with np.errstate(invalid="ignore"):
            differences = np.abs(np.subtract(result, wanted, dtype=np.float64))
        largest = max(largest, float(np.nanmax(differences, initial=0.0)))
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            raise UserError(
                f"{name!r} differs from what is expected in {int(wrong.sum())} of {wrong.size} "
                f"numbers: at {list(place)} it is {result[place]:.9g} and expected are "
                f"{wanted[place]:.9g} (--rtol {allowed.rtol:g} --atol {allowed.atol:g})"
            )
    return largest
