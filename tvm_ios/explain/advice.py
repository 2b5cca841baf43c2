"""Advice on how to make a block faster: one sentence, chosen by the measured numbers."""

from __future__ import annotations

from collections.abc import Collection

from tvm_ios.explain.bounds import Bound, Peaks, Region

#: Shares of the lanes' time from which launching, or waiting, is worth a sentence.
_MUCH = 0.15
#: Shares of a bound from which there is little left to gain.
_NEAR = 0.85
_FULL = 0.7
#: A rate above so many measured arithmetic peaks shows that the peak was measured too low.
_POSSIBLE = 1.1
#: Seconds of a launch; where one seems to take longer, its lane was not running.
_LONGEST_LAUNCH = 100e-6
#: Floating-point operations a byte below which a kernel only moves data.
_MOVES_DATA = 1.0


def advise(
    region: Region,
    names: tuple[str, ...],
    peaks: Peaks,
    lanes: int,
    searched: bool,
    tunable: Collection[int],
) -> str:
    """Return one sentence on what limits the speed of a region, and on how to make it faster.

    A region is a block or the whole program. ``searched`` says that a search has looked for
    concurrent groups, and ``tunable`` has the units whose kernels can be tuned.
    """
    if not region.seconds:
        return "it runs no kernels"
    if region.launching >= max(_MUCH, region.waiting):
        return _about_launches(region, lanes)
    if region.waiting >= _MUCH:
        return _about_waits(region, names, lanes, searched, tunable)
    return _about_kernels(region, peaks, lanes, tunable)


def _about_launches(region: Region, lanes: int) -> str:
    each = region.launching * region.seconds * lanes / max(region.launches, 1)
    if each > _LONGEST_LAUNCH:
        return (
            f"lanes were not running {region.launching:.0%} of the time: {each * 1e6:.0f} µs "
            "before each launch are not its own, other work had the CPUs: ask again on a quiet "
            "machine"
        )
    return (
        f"launch overhead: {region.launches} launches at {each * 1e6:.1f} µs take "
        f"{region.launching:.0%} of the time: fewer and larger units help (merged convolutions: "
        "ios-merge; a unit rule that fuses more)" + ("; or fewer lanes" if lanes > 1 else "")
    )


def _about_waits(
    region: Region, names: tuple[str, ...], lanes: int, searched: bool, tunable: Collection[int]
) -> str:
    idle = f"{_lanes(lanes)} wait{'s' if lanes == 1 else ''} {region.waiting:.0%} of the time"
    if region.bounds[Bound.CRITICAL_PATH] < _NEAR * region.seconds:
        more = (
            "the search found no better groups; a wider one may (--measure full, larger -r and -s)"
            if searched
            else "groups side by side may fill them (ios-parallel)"
        )
        share = region.bounds[Bound.CRITICAL_PATH] / region.seconds
        return f"{idle}, though the longest chain of kernels takes only {share:.0%}: {more}"
    ends = [names[region.path[0]], names[region.path[-1]]]
    chain = " → ".join(dict.fromkeys((ends[0], *(["…"] if len(region.path) > 2 else []), ends[1])))
    return (
        f"critical path: {idle} for the chain {chain}, whose kernels have too few tiles for all "
        f"lanes: only faster kernels on it help{_how(region.path, tunable)}"
    )


def _about_kernels(region: Region, peaks: Peaks, lanes: int, tunable: Collection[int]) -> str:
    moved = f"{region.nbytes / 1e6:.1f} MB at {region.nbytes / region.seconds / 1e9:.0f} GB/s"
    lost = f"{region.memory_bytes / 1e6:.1f} MB"
    memory = region.bounds.get(Bound.MEMORY, 0.0) / region.seconds
    reached = (region.flops or 0) / peaks.flops / region.seconds
    if memory >= max(_FULL, reached):
        return (
            f"memory-bound: {lost} do not stay in the caches, and reading and writing them takes "
            f"{memory:.0%} of the time: only fewer bytes help (larger units, sub-graph instances)"
        )
    if reached > _POSSIBLE:
        return (
            f"at {reached:.0%} of the arithmetic peak that was measured, so other work slowed that "
            "measurement: ask again on a quiet machine"
        )
    if reached >= _FULL:
        return (
            f"at {reached:.0%} of the machine's arithmetic peak: neither schedules nor kernels "
            "have much left; more lanes or a smaller model help"
        )
    busy = f"{_lanes(lanes)} {'is' if lanes == 1 else 'are'} busy {region.busy:.0%}"
    if region.flops is None:
        return f"{busy}: only faster kernels help{_how(region.units, tunable)}"
    if region.flops < _MOVES_DATA * region.nbytes:
        return f"{busy} moving data ({moved}): only fewer bytes help (units that fuse more)"
    return (
        f"{busy} with kernels at {reached:.0%} of the arithmetic peak: only faster kernels help"
        + _how(region.units, tunable)
    )


def _how(units: Collection[int], tunable: Collection[int]) -> str:
    """Return the end of a sentence: tune some units' kernels, or that none of them can be tuned."""
    if any(unit in tunable for unit in units):
        return ": `tvm-ios tune`"
    return ", and of these units none can be tuned"


def _lanes(lanes: int) -> str:
    return {1: "the lane", 2: "both lanes"}.get(lanes, f"all {lanes} lanes")
