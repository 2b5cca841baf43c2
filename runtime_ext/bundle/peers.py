"""Time a bundle's programs beside peers, in turn, in one process, on one device.

``run.py --peers NAMES`` runs it after a search; schedules and peers that cannot run here are
skipped with the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.bundle.compare import reference_of
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.network import BundledNetwork
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.bundle.saved_schedules import saved_schedule
from runtime_ext.peers.registry import start_peers
from tvm_ios.contest import rules
from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import output_errors
from tvm_ios.contest.rounds import Runner, run_in_turn
from tvm_ios.contest.verdict import ratio_of
from tvm_ios.errors import UserError
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress


def compare_peers(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Path],
    names: Sequence[str],
    progress: Progress,
) -> dict[str, Any]:
    """Return latencies, ratios and errors of saved schedules and of peers on the bundle's network.

    Schedules are files by name, of ours or of IOS's published implementation, also for another
    batch; ratios are to the first one. Peers are names of :mod:`runtime_ext.peers.registry`. Raise
    UserError if none of the schedules can run here.
    """
    runners: dict[str, Runner] = {}
    errors: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for name, path in schedules.items():
        try:
            schedule = saved_schedule(path, bundle.graph)
            session = backend.session(bundled_program(bundle, backend, timer, schedule))
            if (error := verified(name, session, reference_of(bundle))) is not None:
                errors[name] = error[1]
            runners[name] = session.run
        except UserError as error:
            skipped[name] = str(error)
    if not runners:
        raise UserError(f"none of our schedules can run here: {skipped or 'give --schedules'}")
    first = next(iter(runners))
    network = BundledNetwork(bundle, backend.device.lanes)
    peers, outputs, failed = start_peers(names, network, progress)
    runners |= {name: peer.run for name, peer in peers.items()}
    if expected := bundle.reference_outputs:
        errors |= {name: output_errors(o, expected)[1] for name, o in outputs.items()}
    limits = rules.BUNDLE_PEERS
    samples = run_in_turn(runners, limits, lambda n: progress("beside peers", n, limits.rounds))
    return {
        "latency_ms": {name: statistics.median(s) * 1e3 for name, s in samples.items()},
        "ratio": {name: asdict(ratio_of(samples, first, name)) for name in samples},
        "max_rel_error": errors,
        "skipped": skipped | failed,
    }
