"""Random programs with many waits, whose every launch depends on the whole history before it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role, Wait

#: As in tests/native/random_program.h.
LENGTH = 24
TILES = 6
VECTOR = BufferType((LENGTH,), "int64")


def random_program(random: Random) -> Program:
    """A program of one to five lanes with every wait that it needs and some that it does not.

    Kernel ``mix<n>`` reads n buffers and changes the last of its arguments.
    """
    lanes: list[list[Launch | Wait]] = [[] for _ in range(random.randint(1, 5))]
    buffers = random.randint(3, 8)
    launches = [0] * len(lanes)
    # Of each buffer and lane, how many launches have to end before the next write, or read.
    used = [[0] * len(lanes) for _ in range(buffers)]
    written = [[0] * len(lanes) for _ in range(buffers)]
    units = random.randint(5, 45)
    for unit in range(units):
        target, *sources = random.sample(range(buffers), random.randint(1, 3))
        earlier = (used[target], *(written[source] for source in sources))
        needed = [max(counts) for counts in zip(*earlier, strict=True)]
        other = random.randrange(len(lanes))
        needed[other] = max(needed[other], random.randint(0, launches[other]))
        cuts = sorted({0, TILES, *random.sample(range(1, TILES), random.randint(0, 2))})
        pieces: list[int] = []
        for begin, end in pairwise(cuts):
            lane = random.randrange(len(lanes))
            lanes[lane] += [Wait(n, count) for n, count in enumerate(needed) if count]
            lanes[lane].append(Launch(len(sources), (*sources, target), begin, end, unit))
            pieces.append(lane)
        # Counted after all pieces: they do not depend on each other.
        for lane in pieces:
            launches[lane] += 1
            used[target][lane] = written[target][lane] = launches[lane]
            for source in sources:
                used[source][lane] = launches[lane]
    return Program(
        lanes=tuple(map(tuple, lanes)),
        kernels=("mix0", "mix1", "mix2"),
        buffers=tuple(Buffer(f"b{n}", VECTOR, Role.OUTPUT) for n in range(buffers)),
        units=tuple(f"u{n}" for n in range(units)),
        uses=tuple(KernelUse(TILES, sources + 1, (sources,)) for sources in range(3)),
    )
