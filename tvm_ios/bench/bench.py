"""Where a model stands: our programs beside peers, in one run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.bench.material import ONNX, SIMPLIFIED, TVM_BUILD, prepare_material
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import ratio_of
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions

#: Our own runners: what ``optimize`` keeps, and one unit after another.
OURS = ("ours", "sequential")


@dataclass(frozen=True)
class NetworkResult:
    """Runners of one model side by side.

    Attributes
    ----------
    model
        The model's name.
    batch
        The model's batch size.
    kept
        The policy that is ``ours``.
    latency
        For each runner median seconds.
    ratio
        For each runner but ``ours``, ours to it, run by run: below 1 ours is faster.
    max_rel_error
        For each runner the largest difference to ``reference``, relative to the largest output.
    reference
        The runner whose outputs the others were compared with.
    verified
        Whose outputs those of our programs were compared with before; None if they were not.
    failed
        Peers that could not run the model, with a sentence each.
    """

    model: str
    batch: int
    kept: str
    latency: Mapping[str, float]
    ratio: Mapping[str, PairedRatio]
    max_rel_error: Mapping[str, float]
    reference: str
    verified: str | None
    failed: Mapping[str, str]


def bench(
    model: AnyModel,
    against: Sequence[str],
    folder: Path,
    *,
    rules: Rules,
    options: SearchOptions | None = None,
    policies: Sequence[str] | None = None,
    verify: Verify = Verify.onnx,
    progress: Progress | None = None,
) -> NetworkResult:
    """Optimise a model and time it beside peers on as many threads.

    Set ``TVM_NUM_THREADS`` to the number of lanes before importing TVM, as the command line does.

    Parameters
    ----------
    model
        A zoo name or an ONNX file.
    against
        Names of peers in :mod:`runtime_ext.peers.registry`.
    folder
        Where executables go; what it holds of an equal earlier call is used again.
    rules
        How long to time.
    options, policies, verify, progress
        As for :func:`tvm_ios.api.optimize`.

    Raises
    ------
    UserError
        If a peer is not there, the model cannot be scheduled, or results differ.
    """
    from relay_passes.search_options import SearchOptions
    from runtime_ext.peers.registry import available_peers
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side

    peers = available_peers(against)
    options = options or SearchOptions()
    material = prepare_material(
        ModelSource.of(model),
        folder,
        options,
        policies=policies,
        verify=verify,
        progress=progress,
    )
    outcome = run_side_by_side(
        SideBySide(
            {name: folder / name for name in OURS},
            options.lanes,
            rules,
            tuple(peer.name for peer in peers),
            onnx=folder / ONNX,
            simplified=folder / SIMPLIFIED,
            tvm=folder / TVM_BUILD,
            precision=None if verify is Verify.off else "float32",
        ),
        progress or silent,
    )
    return NetworkResult(
        model=material.model,
        batch=material.batch,
        kept=material.kept,
        latency={name: statistics.median(seconds) for name, seconds in outcome.samples.items()},
        ratio={
            name: ratio_of(outcome.samples, "ours", name)
            for name in outcome.samples
            if name != "ours"
        },
        max_rel_error=outcome.errors,
        reference=outcome.reference,
        verified=material.verified,
        failed=outcome.failed,
    )


def geometric_means(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """For each runner the geometric mean of ours to it, over the models that it ran."""
    runners = dict.fromkeys(name for ratios in results for name in ratios)
    return {
        runner: math.exp(
            statistics.fmean(math.log(ratios[runner]) for ratios in results if runner in ratios)
        )
        for runner in runners
    }
