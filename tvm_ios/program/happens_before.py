"""The happens-before order of a program's launches, and the check that it has no races.

A launch *happens before* another if the lanes' own order and the waits say so in every run. Two
launches conflict if both use a region of memory and one of them writes it; tiles of one kernel on
the same buffers do not conflict, for a kernel's tiles are independent. A program is free of races
if every two conflicting launches are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_ios.errors import UserError
from tvm_ios.program.program import Launch, Program, Role, Wait
from tvm_ios.program.regions import regions_of
from tvm_ios.program.tile_ranges import at_most


class RaceError(UserError):
    """Raised when two launches that need an order have none; names them and the buffer."""


@dataclass(frozen=True, slots=True)
class _Access:
    lane: int
    #: Number of launches that its lane has finished when this one has.
    finished: int
    #: For each lane the launches that have surely finished when this one begins.
    finished_before: tuple[int, ...]
    launch: Launch
    writes: bool


def check_races(program: Program) -> None:
    """Check that every data dependence between lanes is ordered, or raise RaceError.

    Of an open program that is so in every shape, also with its alternatives' lanes. Arguments of a
    kernel that ``program.uses`` does not list as written are only read. The error
    names the first two conflicting launches that may run at the same time, or the first that reads
    a buffer which nothing has surely written before. It is raised too if the program lacks
    ``uses``.
    """
    if len(program.uses) != len(program.kernels):
        raise RaceError("the program does not say which arguments its kernels write")
    for choice in program.choices:
        _check(choice)


def _check(program: Program) -> None:
    regions = regions_of(program.buffers)
    initialised = {
        region
        for buffer, buffer_regions in zip(program.buffers, regions, strict=True)
        if buffer.role in (Role.INPUT, Role.CONSTANT)
        for region in buffer_regions
    }
    accesses: dict[int, list[_Access]] = {}
    for lane, finished, finished_before, launch in ordered_launches(program):
        writes = program.uses[launch.kernel].writes
        written = {b for p, b in enumerate(launch.buffers) if p in writes}
        for buffer in dict.fromkeys(launch.buffers):
            access = _Access(lane, finished, finished_before, launch, buffer in written)
            for region in regions[buffer]:
                earlier = accesses.setdefault(region, [])
                for other in earlier:
                    if _conflict(program, other, access) and not _before(other, access):
                        raise RaceError(
                            f"{_describe(program, other)} and {_describe(program, access)} both "
                            f"use buffer {program.buffers[buffer].name!r}, one writes it, and no "
                            "wait orders them"
                        )
                if not (region in initialised or access.writes or any(o.writes for o in earlier)):
                    raise RaceError(
                        f"{_describe(program, access)} reads buffer "
                        f"{program.buffers[buffer].name!r}, which nothing has written before"
                    )
                earlier.append(access)


def ordered_launches(
    program: Program,
) -> Iterator[tuple[int, int, tuple[int, ...], Launch]]:
    """Yield (lane, finished, finished_before, launch) in an order that the waits allow.

    ``finished`` is the launch's place in its lane, from 1; ``finished_before[l]`` is how many
    launches of lane ``l`` have finished in every run when this launch begins.
    """
    lanes = program.lanes
    position = [0] * len(lanes)
    finished_launches = [[0] * len(lanes) for _ in lanes]
    #: For each lane the vector clock when its k-th launch has finished.
    history: list[list[tuple[int, ...]]] = [[(0,) * len(lanes)] for _ in lanes]
    moved = True
    while moved:
        moved = False
        for number, lane in enumerate(lanes):
            while position[number] < len(lane):
                item = lane[position[number]]
                if isinstance(item, Wait):
                    if item.launches >= len(history[item.lane]):
                        break
                    then = history[item.lane][item.launches]
                    finished_launches[number] = [
                        max(pair) for pair in zip(finished_launches[number], then, strict=True)
                    ]
                else:
                    yield number, len(history[number]), tuple(finished_launches[number]), item
                    finished_launches[number][number] += 1
                    history[number].append(tuple(finished_launches[number]))
                position[number] += 1
                moved = True


def _conflict(program: Program, one: _Access, other: _Access) -> bool:
    if not (one.writes or other.writes):
        return False
    if (one.lane, one.finished) == (other.lane, other.finished):
        # A kernel that is given a buffer and its parts orders its own accesses.
        return False
    a, b = one.launch, other.launch
    same_work = (a.unit, a.kernel, a.buffers) == (b.unit, b.kernel, b.buffers)
    tiles = program.uses[a.kernel].tiles
    apart = at_most(a.end, b.begin, tiles) or at_most(b.end, a.begin, tiles)
    return not (same_work and apart)


def _before(earlier: _Access, later: _Access) -> bool:
    # The launches come in an order that the waits allow, so never the other way round.
    return later.finished_before[earlier.lane] >= earlier.finished


def _describe(program: Program, access: _Access) -> str:
    return (
        f"launch {access.finished} of lane {access.lane} "
        f"(unit {program.units[access.launch.unit]!r})"
    )
