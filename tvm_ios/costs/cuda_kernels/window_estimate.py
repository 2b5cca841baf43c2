"""An estimate of how long a pooling or depthwise convolution takes, and its best cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod

from tvm_ios.costs.cuda_kernels.block_work import BlockWork, grid_cycles
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import THREADS, WIDE
from tvm_ios.devices.occupancy import Footprint

#: Neighbouring pixels of a row that a thread may have, and teams that may share a window's taps.
_PIXELS, _TEAMS = (4, 2, 1), (1, 2, 4, 8)
#: The most values that a thread has under way at once.
_UNDER_WAY = 32
# Instructions, counted in the code: to find what a thread computes, and to store a result; to find
# a tap's row or weights, to address what it reads there, and to test it against the borders.
_BEGIN, _STORE, _TAP, _ADDRESS, _TEST = 40, 8, 4, 4, 6
#: Registers of a thread beside its sums and what it has read.
_REGISTERS = 24


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A pooling or depthwise convolution: all that the time of its kernel depends on."""

    #: Output rows of all images, pixels of a row, and channels.
    lines: int
    across: int
    channels: int
    #: Rows and columns of the window.
    taps: tuple[int, int]
    #: Whether it has weights, and whether it reaches beyond the input anywhere.
    weighted: bool
    bordered: bool
    #: Whether a thread can read and write four channels of a pixel at once.
    wide: bool


@dataclass(frozen=True, slots=True)
class WindowCut:
    """The cut of a pooling or depthwise convolution."""

    #: Neighbouring channels and pixels of a thread.
    width: int
    pixels: int
    #: Teams of threads of a block that share the taps of the same results, and add up.
    teams: int
    #: Taps that a thread reads before it uses the first.
    together: int


@lru_cache(maxsize=1024)
def best_cut(window: SlidingWindow, gpu: TargetGpu, least_blocks: int = 1) -> WindowCut:
    """Return the cut of the least estimated time of those with so many blocks.

    If none has as many, it is one of those with the most.
    """
    cuts = list(cuts_of(window))
    least = min(least_blocks, max(window_blocks(window, cut) for cut in cuts))
    enough = [cut for cut in cuts if window_blocks(window, cut) >= least]
    return min(enough, key=lambda cut: window_cycles(window, cut, gpu))


def window_cycles(window: SlidingWindow, cut: WindowCut, gpu: TargetGpu) -> float:
    """Return the cycles from the first block to the last."""
    return grid_cycles(window_work(window, cut), window_blocks(window, cut), gpu)


def window_items(window: SlidingWindow, cut: WindowCut) -> int:
    """Return the number of strips of pixels and channels, one for a thread of each team."""
    return window.lines * ceil(window.across / cut.pixels) * (window.channels // cut.width)


def window_blocks(window: SlidingWindow, cut: WindowCut) -> int:
    """Return the number of blocks."""
    return ceil(window_items(window, cut) / (THREADS // cut.teams))


def window_work(window: SlidingWindow, cut: WindowCut) -> BlockWork:
    """Return the work of a block."""
    held = cut.width * cut.pixels
    tests = _TEST if window.bordered else 0
    each = _TAP + cut.pixels * (_ADDRESS + tests + 1) + held * (2 if window.weighted else 1)
    if window.weighted:
        each += _ADDRESS + 1
    read = cut.together * (held + (cut.width if window.weighted else 0))
    once = _BEGIN + _STORE * held
    if cut.teams > 1:
        once += held * (2 + 2 * cut.teams)
    return BlockWork(
        Footprint(THREADS, _REGISTERS + held + read, 4 * THREADS * held if cut.teams > 1 else 0),
        steps=ceil(prod(window.taps) / cut.teams / cut.together),
        beside=0.0,
        products=0.0,
        after=float(cut.together * each),
        once=float(once),
        # Neighbouring pixels of a thread read the same elements.
        nbytes=4.0 * THREADS * cut.together * cut.width,
        shared=0.0,
    )


def cuts_of(window: SlidingWindow) -> Iterator[WindowCut]:
    """Yield every sensible cut."""
    taps = prod(window.taps)
    for width in (WIDE, 1) if window.wide else (1,):
        for teams in _TEAMS:
            for pixels in _PIXELS if teams == 1 else (1,):
                own = ceil(taps / teams)
                row = window.taps[1] if teams == 1 else own
                for together in {1, row}:
                    if taps >= teams and together * width * pixels <= _UNDER_WAY:
                        yield WindowCut(width, pixels, teams, together)
