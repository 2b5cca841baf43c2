"""A timer of a contraction's blockings on the machines of a fleet, several at once."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from runtime_ext.cpu.device import Sampling
from runtime_ext.cpu.kernel_timer import ROUNDS, SAMPLE_SECONDS, compiled_programs
from runtime_ext.fleet.connection import TrialError
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.kernel_library import kernel_library
from runtime_ext.fleet.machine import Trial
from runtime_ext.kernels.spec import Contraction
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.program_json import program_to_json

_SAMPLING = Sampling(samples=1, sample_seconds=SAMPLE_SECONDS, tries=1)


class FleetKernelTimer:
    """A :class:`runtime_ext.tuning.tuner.Timer` on a fleet; kernels are compiled here.

    Kernels are dealt to as many machines as there are. Each machine also times the first kernel,
    and its other times are scaled by that: machines are alike, but not equal. ``failed`` counts the
    trials that no machine could time, by the reason.
    """

    def __init__(self, fleet: FleetDevice) -> None:
        self.failed: Counter[str] = Counter()
        self._fleet = fleet

    def measure(self, specs: Sequence[Contraction]) -> list[float]:
        """Return each kernel's seconds in its fastest round; infinite if it could not be timed."""
        reference, *others = self._trials(specs)
        hands = [others[first :: self._fleet.concurrency] for first in range(len(others))]
        hands = hands[: self._fleet.concurrency] or [[]]
        with ThreadPoolExecutor(len(hands)) as threads:
            timed = list(threads.map(lambda hand: self._timed(reference, hand), hands))
        least = min(first for first, _ in timed)
        seconds = [least] + [math.inf] * len(others)
        for place, (first, each) in enumerate(timed):
            # Without the reference's time the others cannot be scaled.
            scale = least / first if first < math.inf else math.inf
            seconds[1 + place :: len(hands)] = [scale * s for s in each]
        return seconds

    def _timed(self, reference: Trial, hand: Sequence[Trial]) -> tuple[float, list[float]]:
        """Return the seconds of the first kernel, and of some others beside it, on one machine."""
        try:
            rounds = self._fleet.time_in_turn([reference, *hand], _SAMPLING, ROUNDS)
        except UntimedError as error:
            if len(hand) < 2:
                self.failed[str(error)] += 1
                return math.inf, [math.inf] * len(hand)
            # One kernel may be to blame: time each by itself.
            alone = [self._timed(reference, [trial]) for trial in hand]
            least = min(first for first, _ in alone)
            return least, [s * least / f if f < math.inf else f for f, (s,) in alone]
        first, *each = map(self._least, rounds)
        return first, each

    def _least(self, samples: list[float] | TrialError) -> float:
        if isinstance(samples, TrialError):
            self.failed[str(samples)] += 1
            return math.inf
        return min(samples)

    def _trials(self, specs: Sequence[Contraction]) -> list[Trial]:
        fleet = self._fleet
        with temporary_folder() as folder:
            programs, objects = compiled_programs(specs, fleet.target, fleet.lanes, folder)
            library = kernel_library(objects, fleet.kind.machine, platform.machine())
        return [Trial(program_to_json(program), (library,)) for program in programs]
