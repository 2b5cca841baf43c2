"""An estimate of how long a grid of blocks takes on a GPU, by which cuts of kernels are chosen.

It is in cycles. Blocks go to the multiprocessors in turn; one holds as many at once as their
threads, registers and shared memory allow, and begins the next when those have ended. A block goes
through steps, each of which waits for what it reads. Few warps wait for their own instructions,
many for the multiprocessor, which issues a limited number per cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from runtime_ext.cuda.machine_code.target_gpu import TargetGpu
from tvm_ios.devices.occupancy import WARP, Footprint, resident_blocks

#: Schedulers of a multiprocessor; a warp belongs to one (CUDA C++ Programming Guide).
_SCHEDULERS = 4
#: Cycles from one instruction of a warp to its next while no other warp is ready: the latency of
#: arithmetic (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking");
#: and if the next does not depend on the last, assumed.
_ALONE, _INDEPENDENT = 4.0, 2.0
#: Cycles from asking for something to having it from the second-level cache or memory, assumed
#: between the latencies of both; from a block's begin to its first instruction that counts, and
#: from its last to its end; and of a barrier. Assumed.
_LATENCY, _BLOCK, _BARRIER = 400.0, 800.0, 40.0
#: Bytes a cycle that a multiprocessor gets from the second-level cache. Assumed: all of them ask.
CACHE_BYTES = 32.0
#: Loads of a thread that are under way at once.
IN_FLIGHT = 8


@dataclass(frozen=True, slots=True)
class BlockWork:
    """The work of one block of threads, for estimates."""

    #: The resources of a multiprocessor that it occupies.
    footprint: Footprint
    #: How often it waits for data that it has requested.
    steps: int
    #: Instructions of a warp per step: those issued while the requested data travels; independent
    #: multiplications beside them; and those issued once the data is there.
    beside: float
    products: float
    after: float
    #: Instructions of a warp before and after all steps.
    once: float
    #: Bytes that the block reads from memory per step.
    nbytes: float
    #: Cycles of the multiprocessor's shared memory that the block takes per step.
    shared: float


def grid_cycles(work: BlockWork, blocks: int, gpu: TargetGpu) -> float:
    """Return the estimated cycles until the last of ``blocks`` equal blocks has ended."""
    on_one = ceil(blocks / gpu.processors)
    together = max(1, resident_blocks(work.footprint, gpu.multiprocessor))
    rounds, last_round = divmod(on_one, together)
    cycles = rounds * _round(work, together, gpu)
    return cycles + (_round(work, last_round, gpu) if last_round else 0.0)


def _round(work: BlockWork, together: int, gpu: TargetGpu) -> float:
    """Return the cycles of ``together`` blocks that share a multiprocessor."""
    # Cycles that a scheduler takes for an instruction of all its warps.
    warps = together * ceil(work.footprint.threads / WARP) / _SCHEDULERS
    issue = warps * WARP * _SCHEDULERS / gpu.multiply_adds
    pace = max(_ALONE, issue)
    beside = work.beside * pace + work.products * max(_INDEPENDENT, issue)
    waiting = max(_LATENCY, beside) + work.after * pace + _BARRIER
    bandwidth = together * max(work.nbytes / CACHE_BYTES, work.shared)
    return _BLOCK + work.once * pace + work.steps * max(waiting, bandwidth)
