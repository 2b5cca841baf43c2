"""Simulation of instructions of different layers that overlap (section 4.4, figure 13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_ios.graphturbo.cluster.engines import Engine, StepWork, TileWork


def across_layers(
    steps: Sequence[StepWork], global_rooms: Sequence[int], local_room: int
) -> list[tuple[float, float]]:
    """Return the begin and end of each step if instructions of different layers overlap.

    Each engine does its part of the tasks in their order, as soon as its inputs are there. Weights
    are fetched over as many layers ahead as the buffers have room for. Two tiles of a run are under
    way at once: one is loaded while another is computed, and the matrix engine has one while the
    vector engine has another.

    ``global_rooms`` are for each step the bytes of the global buffer that weights may take, and
    ``local_room`` those of the local buffers.
    """
    overlap = _Overlap(steps, global_rooms, local_room)
    for place in range(len(overlap.tasks)):
        overlap.run(place)
    overlap.write(overlap.unwritten[:])
    return list(zip(overlap.begins, overlap.done, strict=True))


#: The most tasks of a layer in a run; of more tiles, several are simulated as one task.
_TASKS_A_LAYER = 16


@dataclass(frozen=True, slots=True)
class _Task:
    """A tile of a layer; tasks are in the order in which engines take them."""

    step: int
    tile: int
    work: TileWork


def _tasks(steps: Sequence[StepWork]) -> Iterator[_Task]:
    """Yield tasks tile by tile; those of several layers in pairs of tiles under way at once."""
    for number, step in enumerate(steps):
        together = -(-step.tiles // _TASKS_A_LAYER)
        tasks = -(-step.tiles // together)
        stride = 2 if len(step.first) > 1 else 1
        works = [step.several(place * together, together) for place in range(tasks)]
        for begin in range(0, tasks, stride):
            pair = range(begin, min(begin + stride, tasks))
            for layer in range(len(step.first)):
                for tile in pair:
                    yield _Task(number, tile, works[tile][layer])


class _Overlap:
    """The state of the simulation: busy times of engines, and the data in each buffer."""

    def __init__(
        self, steps: Sequence[StepWork], global_rooms: Sequence[int], local_room: int
    ) -> None:
        self.tasks = list(_tasks(steps))
        self.begins = [0.0] * len(steps)
        self.done = [0.0] * len(steps)
        self.unwritten: list[tuple[int, float, tuple[float, float]]] = []
        self._steps = steps
        self._free = [0.0] * len(Engine)
        self._starts: dict[int, float] = {}
        self._begun: set[int] = set()
        self._ends: dict[tuple[int, int], float] = {}
        self._loaded: dict[int, float] = {}
        self._global_rooms, self._local_room = global_rooms, local_room
        self._next, self._held = [0, 0], [0, 0]
        self._arrived: tuple[list[float], list[float]] = ([], [])
        self._released = 0.0

    def run(self, place: int) -> None:
        """Run one task, and meanwhile the loads, stores and fetches of the tasks around it."""
        task = self.tasks[place]
        key = (task.step, task.tile)
        self._fetch(place, through=place)
        arrived, brought = self._arrived[1][place], task.work.weights[1]
        first_slice = arrived - brought * (1 - 1 / task.work.slices)
        loaded, seconds = self._load(place), sum(task.work.loads)
        ready = max(loaded, first_slice, self._ends.get(key, 0.0))
        if task.step not in self._begun:
            self._begun.add(task.step)
            unit = Engine.MATRIX if task.work.matrix else Engine.VECTOR
            computes = max(ready, self._free[unit]) if task.work.on(unit) else ready
            self.begins[task.step] = max(0.0, loaded - seconds) if seconds else computes
        if place + 1 < len(self.tasks) and self.tasks[place + 1].step == task.step:
            self._load(place + 1)
        last_slice = arrived + task.work.matrix / task.work.slices
        ready = max(self._work(Engine.MATRIX, ready, task.work.matrix), last_slice)
        ready = self._work(Engine.VECTOR, ready, task.work.vector)
        self._ends[key] = ready
        self.done[task.step] = max(self.done[task.step], ready)
        # Earlier results are written by now; this one is written when the next one is computed.
        self.write(self.unwritten[:])
        if any(task.work.stores):
            self.unwritten.append((task.step, ready, task.work.stores))
        self._fetch(place, horizon=ready)
        self._released = ready
        for level in (0, 1):
            self._held[level] -= task.work.weight_bytes[level]

    def write(self, stores: Sequence[tuple[int, float, tuple[float, float]]]) -> None:
        """Write results of tiles to the global buffer, or to memory."""
        for store in stores:
            step, ready, (memory, shared) = store
            ready = self._work(Engine.GLOBAL, ready, shared)
            ready = self._work(Engine.MEMORY, ready, memory)
            self.done[step] = max(self.done[step], ready)
            self.unwritten.remove(store)

    def _load(self, place: int) -> float:
        """Return the time at which the inputs of a task are in the local buffer."""
        if place not in self._loaded:
            task = self.tasks[place]
            start = self._start(task.step)
            # Loading waits until the tile two before has freed its room in the buffer.
            ready = max(start, self._ends.get((task.step, task.tile - 2), 0.0))
            for engine, seconds in zip(
                (Engine.MEMORY, Engine.GLOBAL), task.work.loads, strict=True
            ):
                ready = self._work(engine, ready, seconds)
            self._loaded[place] = ready
        return self._loaded[place]

    def _start(self, number: int) -> float:
        """Return the time at which a step starts: its inputs are written, its overhead is over."""
        if number not in self._starts:
            step = self._steps[number]
            self.write([store for store in self.unwritten if store[0] in step.sources])
            begin = max((self.done[source] for source in step.sources), default=0.0)
            self._starts[number] = begin + step.overhead
        return self._starts[number]

    def _fetch(self, place: int, through: int = -1, horizon: float = 0.0) -> None:
        """Fetch the weights up to a task, and further ones until a time while there is room."""
        rooms = self._global_rooms[self.tasks[place].step], self._local_room
        for level, engine in enumerate((Engine.MEMORY, Engine.GLOBAL)):
            while (ahead := self._next[level]) < len(self.tasks):
                work = self.tasks[ahead].work
                in_global = self._arrived[0][ahead] if level and ahead < self._next[0] else 0.0
                if ahead > through and (
                    self._held[level] + work.weight_bytes[level] > rooms[level]
                    or max(self._free[engine], in_global) >= horizon
                    or (level and ahead >= self._next[0])
                ):
                    break
                ready = max(in_global, self._released if ahead > place else 0.0)
                self._arrived[level].append(self._work(engine, ready, work.weights[level]))
                self._held[level] += work.weight_bytes[level]
                self._next[level] += 1

    def _work(self, engine: Engine, ready: float, seconds: float) -> float:
        if not seconds:
            return ready
        self._free[engine] = max(self._free[engine], ready) + seconds
        return self._free[engine]
