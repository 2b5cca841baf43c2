"""Compare the latency of a model's programs with that of peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tvm_ios.api.options import Options
from tvm_ios.bench.material import ONNX, SIMPLIFIED, TVM_BUILD, Material, prepare_material
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.pairs import PairedRatio, ratio_over_processes
from tvm_ios.contest.rules import BENCH_PROCESSES, Rules
from tvm_ios.contest.verdict import pooled, ratio_of
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.input_shapes import Shapes

if TYPE_CHECKING:
    from runtime_ext.execution.bound_model import Taken
    from runtime_ext.peers.side_by_side import Outcome, SideBySide

#: Our own runners: what ``optimize`` keeps, and one unit after another.
OURS = ("ours", "sequential")


@dataclass(frozen=True)
class NetworkResult:
    """Latencies and errors of our programs and of peers on one model."""

    model: str
    batch: int
    #: The policy of the program ``ours``.
    kept: str
    #: For each runner median seconds.
    latency: Mapping[str, float]
    #: For each runner but ``ours`` the time of ours divided by its time, run by run: below 1 ours
    #: is faster. If the sequential program was kept, it is not timed against itself: the ratio is
    #: 1, of no pairs.
    ratio: Mapping[str, PairedRatio]
    #: For each runner the largest difference to ``reference``, relative to the largest output.
    max_rel_error: Mapping[str, float]
    #: The runner whose outputs the others were compared with.
    reference: str
    #: The framework whose outputs our programs matched before; None if they were not compared.
    verified: str | None
    #: For each peer that could not run the model the reason, a sentence.
    failed: Mapping[str, str]
    #: For each peer how much of the model its backend took.
    taken: Mapping[str, Taken]
    #: For a program for a range the extents of its open dimensions, such as ``1x32``.
    at: str = ""
    #: The shapes of inputs, by name; None if they are those that the user gave.
    shapes: Shapes | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with milliseconds and without ``failed``."""
        return {
            "model": self.model,
            **({"at": self.at} if self.at else {}),
            "batch": self.batch,
            "kept": self.kept,
            "latency_ms": {name: seconds * 1e3 for name, seconds in self.latency.items()},
            "ratio": {name: asdict(ratio) for name, ratio in self.ratio.items()},
            "max_rel_error": dict(self.max_rel_error),
            "reference": self.reference,
            "verified": self.verified,
            "taken": {name: asdict(part) for name, part in self.taken.items()},
            **({} if self.shapes is None else {"shapes": dict(self.shapes)}),
        }


def bench(
    model: AnyModel,
    against: Sequence[str],
    folder: Path,
    *,
    rules: Rules,
    processes: int = BENCH_PROCESSES,
    options: Options | None = None,
    progress: Progress = silent,
) -> NetworkResult:
    """Optimise a model and time it beside peers on as many threads.

    Set ``TVM_NUM_THREADS`` to the number of lanes before importing TVM, as the command line does.
    Peers in ``against`` are names of :mod:`runtime_ext.peers.registry`. Executables in ``folder``
    from an equal earlier call are used again. All runners run in each of ``processes`` fresh
    processes (an interval of 95 % takes six), whose time together ``rules`` limit. The other
    options are those of :func:`tvm_ios.api.optimize`. Raise UserError if a peer is missing, the
    model cannot be scheduled, or results differ.
    """
    from runtime_ext.peers.registry import available_peers, require_log
    from runtime_ext.peers.side_by_side import SideBySide

    peers = available_peers(against)
    options = options or Options()
    search = options.search
    require_log(peers, search.database)
    tvm_build = any(peer.reads_tvm_build for peer in peers)
    source = ModelSource.of(model)
    material = prepare_material(source, folder, options, tvm_build=tvm_build, progress=progress)
    sequential = OURS[1]
    is_sequential = material.kept == sequential
    outcomes = time_in_processes(
        SideBySide(
            {name: folder / name for name in (OURS[:1] if is_sequential else OURS)},
            search.lanes,
            rules.shared_by(processes),
            tuple(peer.name for peer in peers),
            onnx=folder / ONNX,
            simplified=folder / SIMPLIFIED,
            tvm=folder / TVM_BUILD,
            precision=search.precision or "float32",
            verified=options.verify is not Verify.off,
        ),
        processes,
        progress,
    )
    itself = {sequential: PairedRatio(1.0, 1.0, 1.0, 0)} if is_sequential else {}
    return result_of(outcomes, material, itself)


def result_of(
    outcomes: Sequence[Outcome],
    material: Material,
    ratio: Mapping[str, PairedRatio] = MappingProxyType({}),
    *,
    at: str = "",
    shapes: Shapes | None = None,
) -> NetworkResult:
    """Return the result of several processes, with ratios that are known besides."""
    failed = {name: error for outcome in outcomes for name, error in outcome.failed.items()}
    runners = [name for name in outcomes[0].samples if name not in failed]
    samples = pooled([outcome.samples for outcome in outcomes])
    ours, *others = runners
    measured = {
        name: ratio_over_processes([ratio_of(o.samples, ours, name) for o in outcomes])
        for name in others
    }
    return NetworkResult(
        model=material.model,
        batch=material.batch,
        kept=material.kept,
        latency={name: statistics.median(samples[name]) for name in runners},
        ratio={**ratio, **measured},
        max_rel_error={name: max(o.errors[name] for o in outcomes) for name in runners},
        reference=outcomes[0].reference,
        verified=material.verified,
        failed=failed,
        taken=outcomes[0].taken,
        at=at,
        shapes=shapes,
    )


def time_in_processes(runners: SideBySide, processes: int, progress: Progress) -> list[Outcome]:
    """Run all runners in each of several fresh processes, and return their outcomes."""
    from runtime_ext.peers.side_by_side import run_side_by_side

    def of_all(what: str, done: int, total: int) -> None:
        progress(what, len(outcomes) * total + done, processes * total)

    outcomes: list[Outcome] = []
    for _ in range(processes):
        outcomes.append(run_side_by_side(runners, of_all))
    return outcomes


def geometric_means(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return, for each runner, the geometric mean of its ratios over the models that it ran."""
    runners = dict.fromkeys(name for ratios in results for name in ratios)
    return {
        runner: math.exp(
            statistics.fmean(math.log(ratios[runner]) for ratios in results if runner in ratios)
        )
        for runner in runners
    }
