"""The tasks of a program, and the data dependences between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Launch, Program, Role
from tvm_ios.program.regions import region_bytes, regions_of

_READ_ONLY = (Role.INPUT, Role.CONSTANT)


@dataclass(frozen=True, slots=True)
class Task:
    """One phase of a unit: the launches that share the tiles of one kernel.

    ``unit`` is an index into :attr:`Program.units`, ``kernel`` a symbol of the kernel library.
    ``launches`` has the lane, and the place among the lane's launches, of each; ``arguments`` the
    kernel's buffers in order; ``needs`` the numbers of the earlier tasks whose data it reads or
    whose scratch buffers it continues to use.
    """

    unit: int
    kernel: str
    launches: tuple[tuple[int, int], ...]
    arguments: tuple[int, ...]
    needs: frozenset[int]

    @property
    def buffers(self) -> tuple[int, ...]:
        """The distinct buffers that the task reads or writes."""
        return tuple(dict.fromkeys(self.arguments))


@dataclass(frozen=True)
class Work:
    """A program and its tasks, each task after those that it needs."""

    program: Program
    tasks: tuple[Task, ...]

    @cached_property
    def buffer_bytes(self) -> tuple[int, ...]:
        """The bytes of each buffer of the program; of a part, only its own."""
        sizes = region_bytes(self.program.buffers)
        return tuple(sum(sizes[r] for r in regions) for regions in regions_of(self.program.buffers))

    def nbytes(self, task: int) -> int:
        """Return the bytes of the buffers that a task reads or writes, each counted once."""
        return sum(self.buffer_bytes[buffer] for buffer in self.tasks[task].buffers)

    @cached_property
    def unit_graph(self) -> OpGraph:
        """The units and the tensors between them, numbered as in the program."""
        program = self.program
        reads: list[dict[int, None]] = [{} for _ in program.units]
        writes: list[dict[int, None]] = [{} for _ in program.units]
        regions = regions_of(program.buffers)
        #: For each region the buffer as which a unit has written it, and the unit.
        written: dict[int, tuple[int, int]] = {}
        written_tensors: set[int] = set()
        joined: list[_Joined] = []

        def join(buffer: int, reader: int) -> None:
            written_tensors.add(buffer)
            parts = [written[region] for region in regions[buffer]]
            inputs = dict.fromkeys(part for part, _ in parts)
            joined.append(_Joined(buffer, inputs, max(unit for _, unit in parts), reader))

        for task in self.tasks:
            for buffer in task.buffers:
                role = program.buffers[buffer].role
                if role is Role.SCRATCH or buffer in writes[task.unit]:
                    continue
                if role in _READ_ONLY or buffer in written_tensors:
                    reads[task.unit][buffer] = None
                elif all(written.get(r, (0, -1))[1] == task.unit for r in regions[buffer]):
                    # Parts of one kernel that computes several units, which reads them joined.
                    writes[task.unit][buffer] = None
                    written_tensors.add(buffer)
                elif all(region in written for region in regions[buffer]):
                    join(buffer, task.unit)
                    reads[task.unit][buffer] = None
                else:
                    writers = {written[r][0]: None for r in regions[buffer] if r in written}
                    reads[task.unit] |= writers
                    writes[task.unit][buffer] = None
                    written_tensors.add(buffer)
                    for region in regions[buffer]:
                        written.setdefault(region, (buffer, task.unit))
        for number, buffer in enumerate(program.buffers):
            written_by_parts = all(region in written for region in regions[number])
            if buffer.role is Role.OUTPUT and number not in written_tensors and written_by_parts:
                join(number, len(program.units))
        running = {task.unit for task in self.tasks}
        for unit in range(len(program.units)):
            if unit not in running and (joint := _joined_by(unit, joined)) is not None:
                joined.remove(joint)
                reads[unit], writes[unit] = joint.parts, {joint.buffer: None}
        return OpGraph(
            "program",
            tuple(
                Operator(name, "unit", tuple(reads[unit]), tuple(writes[unit]))
                for unit, name in enumerate(program.units)
            ),
            tuple(
                Tensor(b.name, b.type.shape, b.type.dtype, b.role is Role.CONSTANT)
                for b in program.buffers
            ),
            tuple(n for n, b in enumerate(program.buffers) if b.role is Role.INPUT),
            tuple(
                n
                for n, b in enumerate(program.buffers)
                if b.role is Role.OUTPUT and n in written_tensors
            ),
        )


@dataclass(frozen=True, slots=True)
class _Joined:
    """A buffer that was written part by part and is read as a whole.

    ``last`` is the last unit that wrote a part, ``reader`` the first unit that reads the buffer.
    """

    buffer: int
    parts: dict[int, None]
    last: int
    reader: int


def _joined_by(unit: int, joined: Sequence[_Joined]) -> _Joined | None:
    """Return the joined buffer that a unit without launches stands for, or None.

    The program does not say it. Of several candidates it is the one that is read first: units are
    numbered in the order in which data flows, so that in this way all units get one.
    """
    candidates = [join for join in joined if join.last < unit < join.reader]
    return min(candidates, key=lambda join: join.reader, default=None)


def find_work(program: Program) -> Work:
    """Group a program's launches into tasks, and find their dependences.

    A program does not say which arguments a kernel writes. But every tensor has one producer,
    so the first unit that uses its buffer writes it and all others read it; and the phases of a
    unit run one after another where they share a buffer that the unit writes.
    """
    numbers: dict[tuple[object, ...], int] = {}
    drafts: list[_Draft] = []
    regions = regions_of(program.buffers)
    writer_of: dict[int, int] = {}
    #: For each region the tasks of the unit that writes it, or that has it as scratch.
    writers: dict[int, set[int]] = defaultdict(set)
    tiles: dict[tuple[object, ...], list[range]] = defaultdict(list)
    for lane, finished, _, launch in ordered_launches(program):
        key = (launch.unit, launch.kernel, launch.buffers)
        # A unit may run a kernel several times on the same buffers: each tile as often.
        times = sum(launch.begin in earlier for earlier in tiles[key])
        tiles[key].append(range(launch.begin, launch.end))
        number = numbers.setdefault((key, times), len(numbers))
        if number == len(drafts):
            drafts.append(_Draft(launch))
            for buffer in drafts[number].buffers:
                role = program.buffers[buffer].role
                if role in _READ_ONLY:
                    continue
                for region in regions[buffer]:
                    drafts[number].needs |= writers[region]
                    if writer_of.setdefault(region, launch.unit) == launch.unit:
                        writers[region].add(number)
        drafts[number].places.append((lane, finished - 1))
    return Work(program, tuple(draft.task(program) for draft in drafts))


class _Draft:
    """A task under construction, to which launches are still added."""

    def __init__(self, first: Launch) -> None:
        self.first = first
        self.buffers = tuple(dict.fromkeys(first.buffers))
        self.places: list[tuple[int, int]] = []
        self.needs: set[int] = set()

    def task(self, program: Program) -> Task:
        kernel = program.kernels[self.first.kernel]
        needs = frozenset(self.needs)
        return Task(self.first.unit, kernel, tuple(self.places), self.first.buffers, needs)
