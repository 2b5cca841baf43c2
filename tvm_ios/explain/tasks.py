"""What a program does, as tasks and the data that they need of each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph import Operator, OpGraph, Tensor
from tvm_ios.happens_before import ordered_launches
from tvm_ios.program import Launch, Program, Role
from tvm_ios.regions import regions_of

_GIVEN = (Role.INPUT, Role.CONSTANT)


@dataclass(frozen=True, slots=True)
class Task:
    """One phase of a unit: the launches that share out the tiles of one kernel.

    Attributes
    ----------
    unit
        Index into :attr:`Program.units`.
    kernel
        Symbol in the kernel library.
    launches
        Lane and place (among the lane's launches) of each.
    buffers
        The distinct buffers that it reads or writes.
    needs
        The earlier tasks (by number) whose data it reads, or whose scratch it goes on with.
    """

    unit: int
    kernel: str
    launches: tuple[tuple[int, int], ...]
    buffers: tuple[int, ...]
    needs: frozenset[int]


@dataclass(frozen=True)
class Work:
    """A program's tasks, in an order that the waits allow.

    Attributes
    ----------
    program
        Whose tasks they are.
    tasks
        Each after those that it needs.
    """

    program: Program
    tasks: tuple[Task, ...]

    @cached_property
    def buffer_bytes(self) -> tuple[int, ...]:
        """The size of each buffer of the program."""
        types = [buffer.type for buffer in self.program.buffers]
        return tuple(Tensor("", kind.shape, kind.dtype).nbytes for kind in types)

    def nbytes(self, task: int) -> int:
        """Bytes of the buffers that a task reads or writes, each once."""
        return sum(self.buffer_bytes[buffer] for buffer in self.tasks[task].buffers)

    @cached_property
    def unit_graph(self) -> OpGraph:
        """The units and the tensors between them, numbered as in the program."""
        program = self.program
        reads: list[dict[int, None]] = [{} for _ in program.units]
        writes: list[dict[int, None]] = [{} for _ in program.units]
        regions = regions_of(program.buffers)
        #: For each region the buffer as which it was written.
        made: dict[int, int] = {}
        for task in self.tasks:
            for buffer in task.buffers:
                role = program.buffers[buffer].role
                if role is Role.SCRATCH or buffer in writes[task.unit]:
                    continue
                if role in _GIVEN:
                    reads[task.unit][buffer] = None
                elif found := {made[r]: None for r in regions[buffer] if r in made}:
                    reads[task.unit] |= found
                else:
                    writes[task.unit][buffer] = None
                    made |= dict.fromkeys(regions[buffer], buffer)
        outputs = {
            made[r]: None
            for own, b in zip(regions, program.buffers, strict=True)
            if b.role is Role.OUTPUT
            for r in own
            if r in made
        }
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
                n for n, b in enumerate(program.buffers) if b.role is Role.OUTPUT and n in outputs
            ),
        )


def find_work(program: Program) -> Work:
    """Group a program's launches into tasks.

    A program does not say which arguments a kernel writes. But every tensor has one producer,
    so the first unit that uses its buffer writes it and all others read it; and the phases of a
    unit run one after another where they share a buffer that the unit writes.
    """
    numbers: dict[tuple[object, ...], int] = {}
    drafts: list[_Draft] = []
    regions = regions_of(program.buffers)
    maker: dict[int, int] = {}
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
                if role in _GIVEN:
                    continue
                for region in regions[buffer]:
                    if role is Role.SCRATCH and maker.get(region) != launch.unit:
                        maker[region] = launch.unit
                        writers[region].clear()
                    drafts[number].needs |= writers[region]
                    if maker.setdefault(region, launch.unit) == launch.unit:
                        writers[region].add(number)
        drafts[number].places.append((lane, finished - 1))
    return Work(program, tuple(draft.task(program) for draft in drafts))


class _Draft:
    """A task whose launches are being found."""

    def __init__(self, first: Launch) -> None:
        self.first = first
        self.buffers = tuple(dict.fromkeys(first.buffers))
        self.places: list[tuple[int, int]] = []
        self.needs: set[int] = set()

    def task(self, program: Program) -> Task:
        kernel = program.kernels[self.first.kernel]
        needs = frozenset(self.needs)
        return Task(self.first.unit, kernel, tuple(self.places), self.buffers, needs)
