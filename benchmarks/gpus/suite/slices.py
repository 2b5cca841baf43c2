"""What the suite measures: slices, each of a few parts that are measured and kept by themselves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

NETWORKS = ("squeezenet", "inception_v3", "randwire", "nasnet_a", "resnet50")
#: In the order of worth: the first matters most, the last takes longest.
BATCHES = (1, 32, 16, 128)
#: Of seconds, in which a fault of anything shows; both were simulated, too, and the second one's
#: time is that of depthwise convolutions and pooling.
SMALL = ("inception_block", "nasnet_cell")
#: On which our lanes are compared on a CPU.
CPU_NETWORKS = ("squeezenet", "randwire")
LANES = (1, 2, 4, 8, 16)

POLICIES = "sequential,greedy,ios-merge,ios-parallel,ios-both,rammer,ios-holistic"
_CPU_POLICIES = "sequential,greedy,ios-both,rammer,ios-holistic"
_PEERS = "tvm,torch,torch-nhwc,torch-graph,torch-graph-nhwc,onnxruntime,onnxruntime-graph"
_CPU_PEERS = "tvm,torch,torch-nhwc,onnxruntime"
#: Autotuning takes minutes: on these it is done.
_AUTOTUNED = (("inception_v3", 1), ("squeezenet", 1))
#: Of a slice's time, for the search of one policy: five of them search.
_SEARCH_SHARE = 0.07


class Kind(StrEnum):
    """What a slice is."""

    checks = "checks"
    gpu = "gpu"
    lanes = "lanes"
    crossed = "crossed"


@dataclass(frozen=True)
class Part:
    """A command whose result is kept: ``run.py`` of a bundle."""

    #: In the slice's results.
    name: str
    #: Of ``run.py``.
    options: tuple[str, ...]
    #: Variables besides those that there are.
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Slice:
    """A network and a batch, or something like it."""

    #: Of the zoo; empty for checks.
    network: str
    #: The leading extent of its inputs.
    batch: int
    #: What is measured.
    kind: Kind

    @property
    def key(self) -> str:
        """What ``--only`` and the results call it."""
        if self.kind is Kind.checks:
            return "checks"
        name = {Kind.lanes: "-cpu", Kind.crossed: "-crossed"}.get(self.kind, "")
        return f"{self.network}{name},{self.batch}"

    @property
    def bundle(self) -> str:
        """The name of its bundle; checks have none."""
        return f"{self.network}{'-cpu' if self.kind is Kind.lanes else ''}-{self.batch}"

    @property
    def comes_first(self) -> bool:
        """Whether a fault of it ends the suite."""
        return self.kind is Kind.checks or self.network in SMALL


def every_slice() -> list[Slice]:
    """Faults show first, then what matters most: batch 1, many cores, larger batches."""
    single, *larger = ([Slice(name, batch, Kind.gpu) for name in NETWORKS] for batch in BATCHES)
    return [
        Slice("", 1, Kind.checks),
        *(Slice(name, 1, Kind.gpu) for name in SMALL),
        *single,
        *(Slice(name, 1, Kind.lanes) for name in CPU_NETWORKS),
        *(which for of_batch in larger for which in of_batch),
        *(Slice(name, batch, Kind.crossed) for name in NETWORKS for batch in BATCHES),
    ]


def chosen_slices(only: str | None) -> list[Slice]:
    """All, or one network's, or one; ends the process if there is no such."""
    every = every_slice()
    chosen = [s for s in every if only in (None, s.key, s.key.partition(",")[0])]
    if not chosen:
        names = dict.fromkeys(s.key.partition(",")[0] for s in every)
        sys.exit(f"gpu.py: there is no slice {only!r}; there are {', '.join(names)}")
    return chosen


def parts_of(which: Slice, work: Path, seconds: float, policies: str = POLICIES) -> list[Part]:
    """The parts of a slice that can be measured now; later ones need the schedules of the first.

    Parameters
    ----------
    which
        Not the checks.
    work
        The folder of the unpacked bundles.
    seconds
        That the slice may take.
    policies
        To search on a GPU, between commas.
    """
    search = ("--time-limit", str(round(seconds * _SEARCH_SHARE)), "--json")
    results = work / which.bundle / "results"
    if which.kind is Kind.lanes:
        return _lane_parts(results, search)
    if which.kind is Kind.crossed:
        return _crossed_parts(which, work)
    compiled = "torch-compile"
    if (which.network, which.batch) in _AUTOTUNED:
        compiled += ",torch-max-autotune"
    first = Part("search", ("--policy", policies, *search))
    ours = _ours(results)
    if not ours:
        return [first]
    return [
        first,
        Part("peers", ("--peers", _PEERS, *ours)),
        Part("warps", ("--warps", *ours)),
        # Last: compiling may take longer than all the rest.
        Part("compiled", ("--peers", compiled, *ours)),
    ]


def _lane_parts(results: Path, search: tuple[str, ...]) -> list[Part]:
    """The policies on 1, 2, 4, ... lanes, as many as there are CPUs; on most beside others."""
    counts = [count for count in LANES if count <= len(os.sched_getaffinity(0))]

    def part(name: str, count: int, *options: str) -> Part:
        lanes = ("--lanes", str(count), "-o", str(results / str(count)))
        return Part(name, (*options, *lanes), {"TVM_NUM_THREADS": str(count)})

    parts = [part(f"{n} lanes", n, "--policy", _CPU_POLICIES, *search) for n in counts]
    ours = _ours(results / str(counts[-1]))
    return [*parts, part("peers", counts[-1], "--peers", _CPU_PEERS, *ours)] if ours else parts


def _crossed_parts(which: Slice, work: Path) -> list[Part]:
    """What was found for each batch, run at this one, its own first."""
    schedules = [
        f"optimised for {batch}={kept}"
        for batch in dict.fromkeys((which.batch, *BATCHES))
        if (kept := _kept(work / f"{which.network}-{batch}" / "results"))
    ]
    if len(schedules) < 2:
        return []
    return [Part("batches", ("--peers", "torch-graph", "--schedules", *schedules))]


def _ours(results: Path) -> tuple[str, ...]:
    """The kept schedule and the sequential one as an option; nothing before the search."""
    kept = _kept(results)
    if kept is None:
        return ()
    return ("--schedules", f"kept={kept}", f"sequential={results / 'schedule-sequential.json'}")


def _kept(results: Path) -> Path | None:
    path = results / "results.json"
    if not path.exists():
        return None
    return results / f"schedule-{json.loads(path.read_text())['kept']}.json"
