"""An estimate of how long a grid of blocks takes on a GPU, by which cuts of kernels are chosen.

It is in cycles. Blocks go to the multiprocessors in turn; one holds as many at once as their
threads, registers and shared memory allow, and begins the next when those have ended. A block goes
through steps, each of which waits for what it reads. Few warps wait for their own instructions,
many for the multiprocessor, which issues a limited number per cycle.

The fitted figures are from the cycles of two thirds of the simulated kernels, with the published
ones held fixed, and rounded with all kernels in view (the fit: 705, 53 and 1.27);
``python -m benchmarks.predicted.described_devices`` prints all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.devices.occupancy import WARP, Footprint

#: Schedulers of a multiprocessor; a warp belongs to one (CUDA C++ Programming Guide).
_SCHEDULERS = 4
#: Cycles from one instruction of a warp to its next while no other warp is ready: the latency of
#: arithmetic (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking");
#: and if the next does not depend on the last, assumed.
_ALONE, _INDEPENDENT = 4.0, 2.0
#: Instructions that are issued for each one counted. Fitted.
_ISSUED = 1.5
#: Cycles from asking for something to having it from the second-level cache. Published: 193 (Jia
#: et al.); 187 in the simulator.
_LATENCY = 193.0
#: Cycles of a block that belong to none of its instructions, and to wait for shared memory. Fitted.
_BLOCK, _TURN = 600.0, 50.0
#: Bytes a cycle that a multiprocessor gets from the second-level cache while all of them ask.
#: Published: 2155 GB/s of a V100 (Jia et al., "Dissecting the NVidia Turing T4 GPU").
CACHE_BYTES = 20.0
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
    #: How often a warp waits for shared memory per step.
    turns: int = 0


def grid_cycles(work: BlockWork, blocks: int, gpu: TargetGpu) -> float:
    """Return the estimated cycles until the last of ``blocks`` equal blocks has ended."""
    on_one = ceil(blocks / gpu.processors)
    together = max(1, gpu.blocks_per_processor(work.footprint))
    rounds, last_round = divmod(on_one, together)
    cycles = rounds * round_cycles(work, together, gpu)
    return cycles + (round_cycles(work, last_round, gpu) if last_round else 0.0)


def round_cycles(work: BlockWork, together: int, gpu: TargetGpu) -> float:
    """Return the cycles of ``together`` blocks that share a multiprocessor."""
    # Cycles that a scheduler takes for an instruction of all its warps.
    warps = together * ceil(work.footprint.threads / WARP) / _SCHEDULERS
    issue = warps * WARP * _SCHEDULERS / gpu.multiply_adds * _ISSUED
    pace = max(_ALONE, issue)
    beside = work.beside * pace + work.products * max(_INDEPENDENT, issue) + work.turns * _TURN
    waiting = max(_LATENCY, beside) + work.after * pace
    bandwidth = together * max(work.nbytes / CACHE_BYTES, work.shared)
    return _BLOCK + work.once * pace + work.steps * max(waiting, bandwidth)
