"""Compare the latency of one program for a range of shapes with others, at some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api import optimize, optimize_range
from tvm_ios.api.options import Options
from tvm_ios.bench.bench import OURS, NetworkResult, result_of, time_in_processes
from tvm_ios.bench.material import Material
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.rules import BENCH_PROCESSES, Rules
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object
from tvm_ios.models.source import Form, ModelSource
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.ranges import Ranges, shapes_at

if TYPE_CHECKING:
    from runtime_ext.peers.peer import Peer

#: Our sequential program of one shape, among others that a program for a range is compared with.
EXACT = "exact"


def peers_of_ranges(names: Sequence[str]) -> tuple[Peer, ...]:
    """Return the peers of these names but ``exact``, which all run models of open dimensions.

    Raise UserError if one does not, or is not installed.
    """
    from runtime_ext.peers.registry import available_peers

    peers = available_peers(name for name in names if name != EXACT)
    if unfit := next((peer.name for peer in peers if not peer.runs_open), None):
        raise UserError(f"the peer {unfit} runs no models of open dimensions: leave it out")
    return peers


def bench_range(
    source: ModelSource,
    ranges: Ranges,
    points: Sequence[Sequence[int]],
    against: Sequence[str],
    folder: Path,
    *,
    rules: Rules,
    processes: int = BENCH_PROCESSES,
    options: Options | None = None,
    progress: Progress = silent,
) -> Iterator[NetworkResult]:
    """Compile a model once for a range, and time it at some shapes beside others.

    Set ``TVM_NUM_THREADS`` as for :func:`tvm_ios.bench.bench.bench`; rules are those of a shape.

    Parameters
    ----------
    source
        An ONNX file with open dimensions.
    ranges
        For each input its extents: numbers, or a range.
    points
        Shapes, each as the extents of the open dimensions, in order.
    against
        Peers that run models of open dimensions, and ``exact``: our sequential program of just the
        shape.
    folder
        Where the executables go.
    rules, processes, options, progress
        As of :func:`tvm_ios.bench.bench.bench`.

    Yields
    ------
    NetworkResult
        The result at each shape.

    Raises
    ------
    UserError
        If a peer is missing, the model has no one program for the range, a shape is not in it, or
        results differ.
    """
    peers, options = peers_of_ranges(against), options or Options()
    from relay_passes.relax.ranges.units import load_open_model
    from runtime_ext.execution.packages.package import META
    from runtime_ext.peers.side_by_side import SideBySide

    if source.form is not Form.ONNX:
        raise UserError(f"{source.model} is no ONNX file, which peers read: export it to .onnx")
    read = load_open_model(source, ranges, options.search, progress)
    inputs = [shapes_at(read.shapes, point) for point in points]
    ours = OURS[0]
    made = optimize_range(read, ranges, folder / ours, options, progress)
    kept = json_object((folder / ours / META).read_bytes())["notes"]["kept"]
    alone = replace(
        options, policies=("sequential",), verify=Verify.off, fallback=(), beside_tvm=False
    )
    for point, shapes in zip(points, inputs, strict=True):
        at = "x".join(map(str, point))
        executables = {ours: folder / ours}
        if EXACT in against:
            executables[EXACT] = folder / f"{EXACT}_{at}"
            optimize(replace(source, shapes=shapes), executables[EXACT], alone, progress)
        runners = SideBySide(
            executables,
            options.search.lanes,
            rules.shared_by(processes),
            tuple(peer.name for peer in peers),
            onnx=source.path,
            verified=options.verify is not Verify.off,
            shapes=shapes,
        )
        material = Material(made.model, kept, next(iter(shapes.values()))[0], made.reference)
        outcomes = time_in_processes(runners, processes, progress)
        yield result_of(outcomes, material, at=at, shapes=shapes)
