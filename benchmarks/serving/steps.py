"""Steps of a streaming model, states bound, beside ONNX Runtime, from pairs of steps.

    tvm-ios optimize model.onnx --lanes 1 --state h_out=h_in -o out/
    python -m benchmarks.serving.steps out/ model.onnx

ONNX Runtime has as many threads as the program has lanes. It is given its states by ``run``, and
by ``io_binding`` in two sets of buffers that change places. All are given the inputs anew and
return the outputs that are no states.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.in_turn import Runner, compared
from runtime_ext.execution.bound_model import onnx_feeds, onnx_session
from runtime_ext.execution.executable import Executable, load
from tvm_ios.cli.options.model import states_of
from tvm_ios.files.array_files import Array

Step = Callable[[], list[Array]]


def our_step(session: Any, inputs: Mapping[str, Array], shown: list[str]) -> Step:
    """A step of ours."""

    def step() -> list[Array]:
        session.run(**inputs)
        return [session.get_output(name) for name in shown]

    return step


def run_step(
    session: Any, inputs: Mapping[str, Array], states: Mapping[str, str], first: dict[str, Array]
) -> Step:
    """A step of ONNX Runtime by ``run``."""
    names = [port.name for port in session.get_outputs()]
    kept = dict(first)

    def step() -> list[Array]:
        outputs = dict(zip(names, session.run(None, {**inputs, **kept}), strict=True))
        kept.update({port: outputs.pop(output) for output, port in states.items()})
        return list(outputs.values())

    return step


def bound_step(
    session: Any, inputs: Mapping[str, Array], states: Mapping[str, str], first: dict[str, Array]
) -> Step:
    """A step of ONNX Runtime by ``io_binding``, in two bindings of the same buffers."""
    import onnxruntime

    def value(array: Array) -> Any:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)

    given = {name: value(array) for name, array in inputs.items()}
    shown = [port.name for port in session.get_outputs() if port.name not in states]
    # A binding reads the states that the other one wrote.
    sides = [{port: value(first[port].copy()) for port in states.values()} for _ in range(2)]
    bindings: list[Any] = []
    for reads, writes in (sides, sides[::-1]):
        binding = session.io_binding()
        for name, content in (given | reads).items():
            binding.bind_ortvalue_input(name, content)
        for output, port in states.items():
            binding.bind_ortvalue_output(output, writes[port])
        for name in shown:
            binding.bind_output(name)
        bindings.append(binding)
    turn = 0

    def step() -> list[Array]:
        nonlocal turn
        binding = bindings[turn % 2]
        turn += 1
        for name, array in inputs.items():
            given[name].update_inplace(array)
        session.run_with_iobinding(binding)
        # Outputs come in the order in which they were bound.
        return [content.numpy() for content in binding.get_outputs()[len(states) :]]

    return step


def runner(step: Step) -> Runner:
    """The mean seconds of so many steps."""

    def run(number: int) -> float:
        begin = time.perf_counter()
        for _ in range(number):
            step()
        return (time.perf_counter() - begin) / number

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("executable", type=Path)
    parser.add_argument("model", type=Path, help="the same as ONNX, of the same shapes")
    parser.add_argument("--state", action="append", help="OUTPUT=INPUT; by default what was saved")
    parser.add_argument("--pairs", type=int, default=201)
    given = parser.parse_args()
    executable = load(given.executable)
    assert isinstance(executable, Executable), "another runtime's build was kept"
    states = states_of(given.state) or executable.states
    session = executable.session(states=states)
    values = session.random_inputs(0)
    first = {name: np.zeros_like(values.pop(name)) for name in states.values()}
    shown = [port.name for port in session.outputs if port.name not in states]
    threads = len(executable.program.lanes)
    sessions = [onnx_session(given.model, threads) for _ in range(2)]
    # Also inputs that a program has not, because nothing but their shape is read.
    feeds = onnx_feeds(sessions[0], values | first)
    fed = {name: value for name, value in feeds.items() if name not in first}
    theirs = {
        "run": run_step(sessions[0], fed, states, first),
        "io_binding": bound_step(sessions[1], fed, states, first),
    }
    ours = our_step(session, values, shown)
    for _ in range(5):
        wanted = ours()
        for name, step in theirs.items():
            for one, other in zip(wanted, step(), strict=True):
                np.testing.assert_allclose(one, other, 1e-3, 1e-5, err_msg=name)
    for name, step in theirs.items():
        ratio, (their_seconds, our_seconds) = compared(runner(step), runner(ours), given.pairs)
        print(
            f"{name}: {ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f}) of its time; "
            f"least {our_seconds * 1e6:.1f} us, its {their_seconds * 1e6:.1f} us"
        )


if __name__ == "__main__":
    main()
