"""Compare executables and peers of one model, then time them in turn, in a fresh process.

``python -m runtime_ext.peers.side_by_side PARENT`` is the fresh process; see
:mod:`runtime_ext.fresh_process` for how it gets its task and reports its result.

All runners live in one process, so that their runs can be taken in pairs. They do not disturb
each other as long as only one is busy: threads of ONNX Runtime, OpenMP and TVM spin for a while
after a run, so each run waits until the process is quiet.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from runtime_ext.execution.bound_model import BoundModel, Taken
from runtime_ext.fresh_process import end_with_parent, report, run_fresh_process
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.registry import start_peers
from runtime_ext.torch_later import import_torch_later
from tvm_ios.contest.outputs import difference, output_errors
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.tolerance import rounds, tolerance, widened
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.plain_data import read_as
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.first_difference import kinds

#: The fields of files that peers read.
_FILES = ("onnx", "simplified", "tvm")


@dataclass(frozen=True)
class SideBySide:
    """The executables and peers that run side by side, and the rules of the contest."""

    #: Folders or ``.tar`` files by name, at least one, which have to run; they are loaded in this
    #: order, and the first one names the inputs.
    executables: Mapping[str, Path]
    #: Threads of each peer; executables have their lanes.
    lanes: int
    #: How many runs to time, and for how long.
    rules: Rules
    #: Names in :mod:`runtime_ext.peers.registry`.
    peers: Sequence[str] = ()
    #: The files that the peers read, as of :class:`runtime_ext.peers.model_files.ModelFiles`.
    onnx: Path | None = None
    simplified: Path | None = None
    tvm: Path | None = None
    #: The precision of the programs, and of peers that have it; outputs may differ accordingly.
    precision: str = "float32"
    #: Whether nothing is timed if outputs differ by more.
    verified: bool = True
    #: Shapes of inputs, by name, of executables for a range; peers then leave the dimensions open
    #: that the model has. None if the shapes are those of the executables and the model.
    shapes: Mapping[str, Sequence[int]] | None = None
    #: Error of the outputs by rounding alone, relative to the largest; 0 unless it was measured.
    own_error: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The times and the errors of runners."""

    #: For each runner the seconds of its runs; the i-th ones of all were taken in turn.
    samples: Samples
    #: For each runner the largest difference to the reference over all outputs, relative to the
    #: output's largest value.
    errors: Mapping[str, float]
    #: The runner whose outputs the others were compared with: the first peer that runs, or else the
    #: first executable.
    reference: str
    #: Peers that could not run the model, with a sentence each.
    failed: Mapping[str, str]
    #: For each peer that ran it, how much of the model its backend took.
    taken: Mapping[str, Taken]


#: Environment variables that the peers' libraries read when they start.
_THREAD_COUNTS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run_side_by_side(runners: SideBySide, progress: Progress = silent) -> Outcome:
    """Compare and time runners in a fresh process.

    Raise UserError if their outputs differ (then nothing was timed), or the process fails.
    """
    result = run_fresh_process(
        [sys.executable, "-m", "runtime_ext.peers.side_by_side", str(os.getpid())],
        asdict(runners),
        dict.fromkeys(_THREAD_COUNTS, str(runners.lanes)),
        progress,
    )
    if "error" in result:
        raise UserError(result["error"])
    return read_as(Outcome, result)


def _main(parent: int) -> None:
    end_with_parent(parent)
    import_torch_later()
    runners = read_as(SideBySide, json.loads(sys.stdin.readline()))
    try:
        result = asdict(_compete(runners))
    except UserError as error:
        result = {"error": str(error)}
    print(json.dumps(result))


def _compete(runners: SideBySide) -> Outcome:
    started, inputs, quantised = _start_executables(runners.executables, runners.shapes)
    outputs = {name: ready.outputs(ready.run()) for name, ready in started.items()}
    files = {name: getattr(runners, name) for name in _FILES}
    network = ModelFiles(
        inputs,
        runners.lanes,
        **files,
        precision=runners.precision,
        is_open=runners.shapes is not None,
    )
    peers, outputs_of_peers, failed = start_peers(runners.peers, network, report)
    started |= peers
    outputs |= outputs_of_peers
    reference = next(iter(peers), next(iter(started)))
    errors = {name: output_errors(o, outputs[reference])[1] for name, o in outputs.items()}
    if runners.verified:
        limit = tolerance(runners.precision, outputs[reference], quantised=quantised)
        limit = widened(limit, runners.own_error)
        for name, arrays in outputs.items():
            if how := difference(arrays, outputs[reference], limit):
                raise UserError(
                    f"{name} and {reference} differ {how}, so nothing was timed; "
                    "find out which of them is wrong with --against one peer at a time"
                )
    samples = run_in_turn(
        {name: ready.run for name, ready in started.items()},
        runners.rules,
        lambda done: report("timing runners", done, runners.rules.rounds),
    )
    taken = {name: peer.taken for name, peer in peers.items()}
    return Outcome(samples, errors, reference, failed, taken)


def _start_executables(
    paths: Mapping[str, Path], shapes: Mapping[str, Sequence[int]] | None
) -> tuple[dict[str, BoundModel], dict[str, Array], bool]:
    """Start executables; return them, the inputs of all runners, and whether one quantises."""
    from runtime_ext.execution.executable import Executable, load

    started: dict[str, BoundModel] = {}
    inputs: dict[str, Array] = {}
    quantised = False
    for name, path in paths.items():
        try:
            executable = load(path)
            assert isinstance(executable, Executable), "others' builds are peers"
            quantised = quantised or rounds(kinds(executable.schedule.get("graph", {})))
            session = executable.program_session()
            inputs = inputs or session.random_inputs(0, shapes)
            session.set_input(**inputs)
        except Exception as error:
            raise UserError(f"{name} cannot run: {error}") from error
        started[name] = BoundModel(session.run, partial(_outputs, session))
    return started, inputs, quantised


def _outputs(session: Any, _result: Any) -> list[Array]:
    return [session.get_output(place) for place in range(len(session.outputs))]


if __name__ == "__main__":
    _main(int(sys.argv[1]))
