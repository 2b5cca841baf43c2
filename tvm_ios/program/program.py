"""A program: lanes of launches and waits, to which every schedule is compiled (plain data).

A *lane* is an ordered list of :class:`Launch` and :class:`Wait`. On a CPU a lane is a thread and a
launch calls a kernel on a range of its tiles; on CUDA a lane is a stream and a wait an event.
Sequential, concurrent, merged and co-scheduled stages differ only in the program.

In an *open* program shapes of buffers, tiles, ranges and borders of parts may be expressions of
symbols (:class:`tvm_ios.shapes.extent.Extent`), whose values each run chooses. Lanes, launches and
waits do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import prod

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.program.tile_ranges import at_most, same
from tvm_ios.shapes.extent import OpenExtentError, Symbol, at_values, evaluate, is_open, symbols_in

#: Kernels are compiled for vectors of this many bytes; it is a cache line too.
ALIGNMENT = 64
#: Words of 32 bits in a cache line.
LINE = ALIGNMENT // 4


class ProgramError(UserError):
    """Raised for a program that cannot run; the message names the first fault."""


@dataclass(frozen=True, slots=True)
class BufferType:
    """The physical shape and type of a buffer, for which kernels were compiled."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def is_same(self, other: BufferType) -> bool:
        """Return whether another type is this one for every shape."""
        ours, theirs = self.shape, other.shape
        return (self.dtype, len(ours)) == (other.dtype, len(theirs)) and all(
            map(same, ours, theirs)
        )


@dataclass(frozen=True, slots=True)
class PhaseCall:
    """One call of a unit's code: a kernel function and its tiles.

    Attributes
    ----------
    symbol
        Name of the function in the kernel library. It is called with its buffers and a tile
        range ``[begin, end)``; any partition of ``[0, tiles)`` gives the same bits.
    tiles
        Extent of the outer parallel loop.
    arguments
        Indices into the unit's parameters followed by its scratch buffers.
    scalars
        Names of the symbols whose values it takes, as int64, between the buffers and the range.
    values
        These values, in code for one shape.
    """

    symbol: str
    tiles: int
    arguments: tuple[int, ...]
    scalars: tuple[str, ...] = ()
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitCode:
    """The code of a unit: phases that run one after another, with a barrier between.

    Attributes
    ----------
    parameters
        Inputs (weights included, as the kernels want them) and then outputs.
    outputs
        How many of the parameters, the last ones, are outputs.
    scratch
        Buffers that live only while the unit runs.
    calls
        The phases.
    """

    parameters: tuple[BufferType, ...]
    outputs: int
    scratch: tuple[BufferType, ...]
    calls: tuple[PhaseCall, ...]

    def at(self, values: Mapping[str, int]) -> UnitCode:
        """Return the code for these values of the symbols, by name."""
        code = at_values(self, values)
        calls = (replace(c, values=tuple(values[name] for name in c.scalars)) for c in code.calls)
        return replace(code, calls=tuple(calls))


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The launches that a kernel allows; any other accesses memory that is not its own.

    Attributes
    ----------
    tiles
        Tile ranges lie in ``[0, tiles)``.
    arguments
        The number of buffers that it takes.
    writes
        Positions of those that it may write.
    scalars
        Names of the symbols whose values it takes, as of :class:`PhaseCall`.
    """

    tiles: int
    arguments: int
    writes: tuple[int, ...]
    scalars: tuple[str, ...] = ()


class Role(StrEnum):
    """The purpose of a buffer."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    INTERMEDIATE = "intermediate"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Part:
    """The part of another buffer that a buffer is: a range of one axis.

    Attributes
    ----------
    of
        The other buffer, which is no part itself.
    axis
        An axis of its physical shape; the same for all parts of a buffer.
    begin, end
        The range.
    """

    of: int
    axis: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of a program.

    Attributes
    ----------
    name
        Unique; the name of the parameter, for a constant.
    type
        The type for which kernels were compiled. For a part it is the type of the whole: kernels
        get the memory of the whole, and find the part by themselves.
    role
        Its purpose.
    part
        Set if it lies in another buffer: kernels then touch these elements only.
    """

    name: str
    type: BufferType
    role: Role
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of the tiles ``[begin, end)`` of a kernel on some buffers.

    ``unit`` is an index into :attr:`Program.units`, for errors and traces. ``scalars`` are the
    values that the kernel takes between the buffers and the range; in an open program there are
    none, because the values of the symbols are not known.
    """

    kernel: int
    buffers: tuple[int, ...]
    begin: int
    end: int
    unit: int
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait until ``lane`` has finished its first ``launches`` launches of this run."""

    lane: int
    launches: int


def in_box(box: Mapping[str, tuple[int, int]], values: Mapping[str, int]) -> bool:
    """Return whether a box of shapes has the one with these values of the symbols."""
    return all(least <= values[name] <= most for name, (least, most) in box.items())


@dataclass(frozen=True, slots=True)
class Alternative:
    """Lanes that an open program has instead of its own in a box of its shapes.

    Attributes
    ----------
    box
        For each symbol, by name, the least and the most values in the box.
    lanes
        As of :class:`Program`; other launches of the same kernels on the same buffers.
    """

    box: Mapping[str, tuple[int, int]]
    lanes: tuple[tuple[Launch | Wait, ...], ...]


@dataclass(frozen=True)
class Program:
    """A program that an executor runs.

    Attributes
    ----------
    lanes
        One list of instructions a lane.
    kernels
        Symbols in the kernel library.
    buffers
        All buffers.
    units
        Names of the units, for errors and traces.
    uses
        How each kernel may be launched. Empty in a program written by hand, whose launches are
        then not checked against the kernels. The scalars of an open program's kernels are known by
        them alone.
    alternatives
        Of an open program: other lanes for boxes of its shapes. The first whose box has the shape
        is taken.
    """

    lanes: tuple[tuple[Launch | Wait, ...], ...]
    kernels: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    units: tuple[str, ...]
    uses: tuple[KernelUse, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    def __post_init__(self) -> None:
        if not self.lanes:
            raise ProgramError("the program has no lane")
        self._reject_alternatives()
        if self.uses and len(self.uses) != len(self.kernels):
            raise ProgramError("the program does not say of every kernel how it may be launched")
        if any(place >= use.arguments for use in self.uses for place in use.writes):
            raise ProgramError("a kernel of the program writes an argument that it does not take")
        self._reject_open_constants()
        self._reject_parts()
        launches = [sum(isinstance(i, Launch) for i in lane) for lane in self.lanes]
        for number, lane in enumerate(self.lanes):
            for item in lane:
                if isinstance(item, Wait):
                    if not 0 <= item.lane < len(self.lanes):
                        raise ProgramError(
                            f"lane {number} waits for lane {item.lane}, which does not exist"
                        )
                    if not 0 <= item.launches <= launches[item.lane]:
                        raise ProgramError(
                            f"lane {number} waits for launch {item.launches} of lane {item.lane}, "
                            f"which has {launches[item.lane]}"
                        )
                    continue
                if not 0 <= item.kernel < len(self.kernels):
                    raise ProgramError(
                        f"lane {number} launches kernel {item.kernel}, which does not exist"
                    )
                if not all(0 <= b < len(self.buffers) for b in item.buffers):
                    raise ProgramError(f"lane {number} uses a buffer that does not exist")
                tiles = self.uses[item.kernel].tiles if self.uses else None
                if self.symbols:
                    valid = at_most(0, item.begin, tiles) and at_most(item.begin, item.end, tiles)
                else:
                    # As open ones, but fast: searches make many programs.
                    valid = 0 <= item.begin <= item.end
                if not valid:
                    raise ProgramError(f"lane {number} has the tile range {item.begin}, {item.end}")
                if not 0 <= item.unit < len(self.units):
                    raise ProgramError(
                        f"lane {number} launches for unit {item.unit}, which does not exist"
                    )
                if self.uses:
                    self._reject_misuse(number, item)
        self._reject_deadlock()

    def _reject_parts(self) -> None:
        axes: dict[int, int] = {}
        for buffer in self.buffers:
            part = buffer.part
            if part is None:
                continue
            if not 0 <= part.of < len(self.buffers) or self.buffers[part.of].part is not None:
                raise ProgramError(f"buffer {buffer.name!r} is part of no whole buffer")
            whole = self.buffers[part.of]
            if not buffer.type.is_same(whole.type) or Role.CONSTANT in (buffer.role, whole.role):
                raise ProgramError(f"buffer {buffer.name!r} cannot be part of {whole.name!r}")
            if axes.setdefault(part.of, part.axis) != part.axis or not (
                0 <= part.axis < len(whole.type.shape)
                and _is_range(part.begin, part.end, whole.type.shape[part.axis])
            ):
                raise ProgramError(
                    f"buffer {buffer.name!r} is {part.begin} to {part.end} of axis {part.axis} of "
                    f"{whole.name!r}, which has no such part"
                )

    def _reject_open_constants(self) -> None:
        for buffer in self.buffers:
            if buffer.role is Role.CONSTANT and any(map(is_open, buffer.type.shape)):
                raise ProgramError(f"the shape of constant {buffer.name!r} is open")
        known = {symbol.name for symbol in self.symbols}
        for use, kernel in zip(self.uses, self.kernels, strict=False):
            if known and not known.issuperset(use.scalars):
                raise ProgramError(f"kernel {kernel!r} takes a symbol that no shape depends on")

    def _reject_alternatives(self) -> None:
        names = {symbol.name for symbol in self.symbols} if self.alternatives else set[str]()
        for alternative in self.alternatives:
            if len(alternative.lanes) != len(self.lanes):
                raise ProgramError("the lanes of the program are not as many for every shape")
            if set(alternative.box) != names:
                raise ProgramError("a box of the program's shapes does not name its symbols")
        # Its constructor checks each.
        _ = self.choices if self.alternatives else ()

    def _reject_misuse(self, lane: int, launch: Launch) -> None:
        use, kernel = self.uses[launch.kernel], self.kernels[launch.kernel]
        if launch.end is not use.tiles and not at_most(launch.end, use.tiles, use.tiles):
            raise ProgramError(
                f"lane {lane} launches the tiles {launch.begin} to {launch.end} of kernel "
                f"{kernel!r}, which has {use.tiles}"
            )
        if len(launch.buffers) != use.arguments:
            raise ProgramError(
                f"lane {lane} gives {len(launch.buffers)} buffers to kernel {kernel!r}, "
                f"which takes {use.arguments}"
            )
        scalars = 0 if self.symbols else len(use.scalars)
        if len(launch.scalars) != scalars:
            raise ProgramError(
                f"lane {lane} gives {len(launch.scalars)} scalars to kernel {kernel!r}, "
                f"which takes {scalars}"
            )
        for place in use.writes:
            buffer = self.buffers[launch.buffers[place]]
            if buffer.role in (Role.INPUT, Role.CONSTANT):
                raise ProgramError(f"lane {lane} writes the {buffer.role.value} {buffer.name!r}")

    def _reject_deadlock(self) -> None:
        """Simulate the lanes, and raise ProgramError if one of them would wait for ever."""
        done = [0] * len(self.lanes)
        position = [0] * len(self.lanes)
        moved = True
        while moved:
            moved = False
            for number, lane in enumerate(self.lanes):
                while position[number] < len(lane):
                    item = lane[position[number]]
                    if isinstance(item, Wait) and done[item.lane] < item.launches:
                        break
                    done[number] += isinstance(item, Launch)
                    position[number] += 1
                    moved = True
        for number, lane in enumerate(self.lanes):
            if position[number] < len(lane):
                raise ProgramError(f"lane {number} would wait for ever: the waits form a cycle")

    @cached_property
    def choices(self) -> tuple[Program, ...]:
        """The program with its own lanes for every shape, and with those of each alternative."""
        if not self.alternatives:
            return (self,)
        lanes = (self.lanes, *(alternative.lanes for alternative in self.alternatives))
        return tuple(replace(self, lanes=each, alternatives=()) for each in lanes)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of an open program, in order; none if all numbers are known."""
        numbers = [n for buffer in self.buffers for n in (*buffer.type.shape, *_borders(buffer))]
        numbers += [use.tiles for use in self.uses]
        launches = [i for lane in self.lanes for i in lane if isinstance(i, Launch)]
        numbers += [n for item in launches for n in (item.begin, item.end)]
        return symbols_in(tuple(dict.fromkeys(filter(is_open, numbers))))

    def at(self, values: Mapping[str, int]) -> Program:
        """Return the program for these values of its symbols, by name: all its numbers are known.

        Raises
        ------
        ProgramError
            If a symbol has no value, or one that is not in its range.
        """
        if not self.symbols:
            return self
        for symbol in self.symbols:
            value = values.get(symbol.name)
            if value is None or not symbol.least <= value <= symbol.most:
                raise ProgramError(
                    f"{symbol.name} is {value}, and the program is for {symbol.least} to "
                    f"{symbol.most}"
                )
        scalars = [tuple(values[name] for name in use.scalars) for use in self.uses]
        lanes = next((a.lanes for a in self.alternatives if in_box(a.box, values)), self.lanes)

        def concrete(item: Launch | Wait) -> Launch | Wait:
            if isinstance(item, Wait):
                return item
            return replace(
                item,
                begin=evaluate(item.begin, values),
                end=evaluate(item.end, values),
                scalars=scalars[item.kernel] if scalars else (),
            )

        return Program(
            tuple(tuple(map(concrete, lane)) for lane in lanes),
            self.kernels,
            at_values(self.buffers, values),
            self.units,
            at_values(self.uses, values),
        )

    def at_hint(self) -> Program:
        """Return the program at the hints of its symbols."""
        return self.at({symbol.name: symbol.hint for symbol in self.symbols})

    def whole_of(self, buffer: int) -> int:
        """Return the buffer whose memory a buffer lies in: a part's whole, else itself."""
        part = self.buffers[buffer].part
        return buffer if part is None else part.of


def _borders(buffer: Buffer) -> tuple[int, ...]:
    return () if buffer.part is None else (buffer.part.begin, buffer.part.end)


def _is_range(begin: int, end: int, extent: int) -> bool:
    """Return whether ``[begin, end)`` has elements and lies in ``[0, extent)``, in every shape."""
    try:
        return 0 <= begin < end <= extent
    except OpenExtentError:
        return False
