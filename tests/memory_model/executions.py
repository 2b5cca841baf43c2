"""All executions of a program that a memory model allows.

Every way through each thread, with every value that its reads may have, is combined with the
others'; then each read is given a write, writes to a place and fences an order. A model says of
each choice, as soon as it is made, whether its axioms are broken: they are of the kind that further
choices cannot mend.

Reads have values that writes can have made, beginning with the initial ones. So nothing comes out
of thin air, yet no more is excluded than models exclude.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, count, pairwise, permutations, product
from typing import Protocol

from tests.memory_model.program import (
    Barrier,
    Blocked,
    Fence,
    Load,
    Operation,
    Order,
    Place,
    Store,
    Thread,
    Update,
)
from tests.memory_model.relation import Relation

#: Operations of one thread: more are a loop without an end.
_MOST_OPERATIONS = 1000
#: The thread of the initial writes.
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Event:
    """An access, fence or barrier of a thread; an update is a read and then a write."""

    thread: int
    operation: Operation
    order: Order
    #: Empty for fences and barriers.
    place: Place = ""
    reads: bool = False
    #: The value that it has to read; None for any.
    read: int | None = None
    written: int | None = None

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return self.written is not None

    def __str__(self) -> str:
        name = type(self.operation).__name__.lower()
        where = f" of {self.place!r}" if self.place else ""
        return f"{self.order.name.lower()} {name}{where} in thread {self.thread}"


@dataclass(frozen=True)
class Skeleton:
    """The events of an execution, and the orders that do not depend on what reads see."""

    threads: Sequence[Thread]
    events: Sequence[Event]
    #: Between the operations of a thread, in the order of the program.
    program_order: Relation
    #: Between threads: barriers, and threads that begin when others have ended.
    joins: Relation
    #: From the read of an update to its write.
    updates: Relation

    def where(self, condition: Callable[[Event], bool]) -> int:
        """Return the bit mask of the events for which a condition holds."""
        return sum(1 << i for i, event in enumerate(self.events) if condition(event))

    def relation(self, condition: Callable[[Event, Event], bool]) -> Relation:
        """Return the pairs of different events for which a condition holds."""
        pairs = ((i, j) for i in range(len(self.events)) for j in range(len(self.events)))
        kept = (p for p in pairs if p[0] != p[1] and condition(*(self.events[i] for i in p)))
        return Relation.of(len(self.events), kept)

    @cached_property
    def before(self) -> Relation:
        """The order that the program alone gives."""
        return (self.program_order | self.joins).plus

    @cached_property
    def reads(self) -> int:
        """The events that read."""
        return self.where(lambda event: event.reads)

    @cached_property
    def writes(self) -> int:
        """The events that write."""
        return self.where(lambda event: event.writes)

    @cached_property
    def same_place(self) -> Relation:
        """Pairs of events on one place."""
        return self.relation(lambda a, b: bool(a.place) and a.place == b.place)

    @cached_property
    def conflicts(self) -> Relation:
        """Pairs of events of different threads on one place, of which one writes."""
        return self.same_place & self.relation(
            lambda a, b: a.thread != b.thread and (a.writes or b.writes)
        )


class Axioms(Protocol):
    """A memory model's axioms for the events of a skeleton.

    ``rf`` relates writes to the reads that see them, perhaps not yet all; ``co`` the writes to a
    place and ``sc`` the sequentially consistent fences in the order that is tried, or nothing yet.
    """

    def allow(self, rf: Relation, co: Relation, sc: Relation) -> bool:
        """Return whether no axiom is broken."""
        ...

    def races(self, rf: Relation, sc: Relation) -> Relation:
        """Return the pairs of conflicting events that are in a data race."""
        ...


#: A memory model.
Model = Callable[[Skeleton], Axioms]


@dataclass(frozen=True)
class Execution:
    """An execution that the model allows."""

    #: The threads' results.
    results: tuple[object, ...]
    #: For each thread, the place and the value of each of its reads, in order.
    seen: tuple[tuple[tuple[Place, int], ...], ...]
    #: The values at the end.
    final: Mapping[Place, int]
    #: Two events in a data race, in words; or None.
    race: str | None


def outcomes(
    model: Model, threads: Sequence[Thread], initial: Mapping[Place, int] | None = None
) -> set[tuple[object, ...]]:
    """Return the results of the threads that a model allows together."""
    return {execution.results for execution in executions(model, threads, initial)}


def executions(
    model: Model, threads: Sequence[Thread], initial: Mapping[Place, int] | None = None
) -> Iterator[Execution]:
    """Yield the executions of a program that end, perhaps some twice; places begin as 0."""
    begin: Mapping[Place, int] = defaultdict(int, initial or {})
    for paths in product(*_paths(threads, begin)):
        if not _has_sources([path.events for path in paths], begin):
            continue
        skeleton = _skeleton(threads, [path.events for path in paths], begin)
        if skeleton is None:
            continue
        axioms, results = model(skeleton), tuple(path.result for path in paths)
        for rf in _reads_from(skeleton, axioms):
            for co, sc in _orders(skeleton):
                if axioms.allow(rf, co, sc):
                    yield _execution(skeleton, results, rf, co, axioms.races(rf, sc))


@dataclass(frozen=True, slots=True)
class _Path:
    """A way through a thread, which depends on what it reads."""

    events: tuple[Event, ...]
    result: object
    #: Whether the thread waits for ever at the end of it.
    blocked: bool = False


def _paths(threads: Sequence[Thread], begin: Mapping[Place, int]) -> list[list[_Path]]:
    """Return for each thread its ways, with all values that may come to be."""
    known: set[tuple[Place, int]] = set()
    for step in count():
        values: dict[Place, set[int]] = defaultdict(set)
        for place, value in known:
            values[place].add(value)
        paths = [
            list(_paths_of(thread, number, values, begin)) for number, thread in enumerate(threads)
        ]
        made = {
            (event.place, event.written)
            for path in chain.from_iterable(paths)
            for event in path.events
            if event.written is not None
        }
        # Each write of an execution makes its value of others at most once.
        writes = sum(
            max((sum(e.writes for e in p.events) for p in ways), default=0) for ways in paths
        )
        if made <= known or step > writes:
            return [[path for path in ways if not path.blocked] for ways in paths]
        known |= made
    raise AssertionError


def _paths_of(
    thread: Thread,
    number: int,
    values: Mapping[Place, set[int]],
    begin: Mapping[Place, int],
) -> Iterator[_Path]:
    pending: list[tuple[int, ...]] = [()]
    while pending:
        given = pending.pop()
        running, events, sent = thread.run(), list[Event](), 0
        answer: int | None = None
        try:
            while True:
                operation = running.send(answer)
                if len(events) == _MOST_OPERATIONS:
                    raise ValueError("a thread does not end: give its loops a bound")
                answer = None
                if isinstance(operation, Update) or (
                    isinstance(operation, Load) and operation.used
                ):
                    if sent == len(given):
                        place = operation.place
                        first, *others = sorted({begin[place]} | values.get(place, set()))
                        pending += [(*given, value) for value in others]
                        given = (*given, first)
                    answer, sent = given[sent], sent + 1
                events += _events(number, operation, answer)
        except StopIteration as ended:
            yield _Path(tuple(events), ended.value)
        except Blocked:
            # What it has written others may read, and so let it go on.
            yield _Path(tuple(events), None, blocked=True)


def _events(thread: int, operation: Operation, read: int | None) -> Iterator[Event]:
    match operation:
        case Load(place, order):
            yield Event(thread, operation, order, place, True, read)
        case Store(place, value, order):
            yield Event(thread, operation, order, place, written=value)
        case Update(place, change, order, _, failure):
            assert read is not None
            changed = change(read)
            if changed is None:
                yield Event(thread, operation, failure, place, True, read)
            else:
                yield Event(thread, operation, order.of_read, place, True, read)
                yield Event(thread, operation, order.of_write, place, written=changed)
        case Fence(order):
            yield Event(thread, operation, order)
        case Barrier():
            yield Event(thread, operation, Order.WEAK)


def _has_sources(paths: Sequence[Sequence[Event]], begin: Mapping[Place, int]) -> bool:
    """Return whether every value that is read is initial, or one that a write makes."""
    events = [*chain.from_iterable(paths)]
    made = {(event.place, event.written) for event in events}
    return all(
        event.read is None or event.read == begin[event.place] or (event.place, event.read) in made
        for event in events
    )


def _skeleton(
    threads: Sequence[Thread],
    paths: Sequence[Sequence[Event]],
    begin: Mapping[Place, int],
) -> Skeleton | None:
    """Return the skeleton of some ways through threads; None if a barrier waits for ever."""
    places = dict.fromkeys(e.place for path in paths for e in path if e.place)
    initial = [
        Event(_NOBODY, Store(place, begin[place]), Order.WEAK, place, written=begin[place])
        for place in places
    ]
    events = [*initial, *chain.from_iterable(paths)]
    of_thread: list[list[int]] = [[] for _ in threads]
    rounds: dict[object, list[int]] = defaultdict(list)
    for number, event in enumerate(events):
        if event.thread == _NOBODY:
            continue
        own = of_thread[event.thread]
        if isinstance(event.operation, Barrier):
            name = event.operation.name
            passed = sum(events[e].operation == event.operation for e in own)
            rounds[threads[event.thread].block, name, passed].append(number)
        own.append(number)
    for members in rounds.values():
        operation, block = events[members[0]].operation, threads[events[members[0]].thread].block
        assert isinstance(operation, Barrier)
        expected = operation.threads or sum(thread.block == block for thread in threads)
        if len(members) != expected:
            return None
    joins = {pair for members in rounds.values() for pair in permutations(members, 2)}
    joins |= {(i, j) for i in range(len(initial)) for j in range(len(initial), len(events))}
    for own, thread in zip(of_thread, threads, strict=True):
        joins |= {pair for other in thread.after for pair in product(of_thread[other], own)}
    size = len(events)
    updates = (
        (number, number + 1)
        for number, (event, following) in enumerate(pairwise(events))
        if isinstance(event.operation, Update) and event.reads and following.writes
        if event.operation is following.operation
    )
    program_order = Relation.of(size, (p for own in of_thread for p in combinations(own, 2)))
    skeleton = Skeleton(
        threads, events, program_order, Relation.of(size, joins), Relation.of(size, updates)
    )
    # Two barriers that threads reach in different orders wait for each other.
    return None if (program_order & skeleton.before.inverse) else skeleton


def _reads_from(skeleton: Skeleton, axioms: Axioms) -> Iterator[Relation]:
    """Yield the ways to give each read a write of its value, as far as the axioms allow."""
    events, size = skeleton.events, len(skeleton.events)
    # Reads that synchronise come first: they leave other reads little choice.
    reads = sorted((i for i in range(size) if events[i].reads), key=lambda i: -events[i].order)
    nothing = Relation.of(size, ())

    def choose(done: int, rf: Relation) -> Iterator[Relation]:
        if done == len(reads):
            yield rf
            return
        read = events[reads[done]]
        for number, write in enumerate(events):
            if not write.writes or write.place != read.place:
                continue
            if read.read in (None, write.written):
                chosen = rf | Relation.of(size, [(number, reads[done])])
                if axioms.allow(chosen, nothing, nothing):
                    yield from choose(done + 1, chosen)

    yield from choose(0, nothing)


def _orders(skeleton: Skeleton) -> Iterator[tuple[Relation, Relation]]:
    """Yield total orders of the writes to each place, and of the sequential fences."""
    events, size = skeleton.events, len(skeleton.events)
    by_place: dict[Place, list[int]] = defaultdict(list)
    for number, event in enumerate(events):
        if event.writes:
            by_place[event.place].append(number)
    fences = [
        number
        for number, event in enumerate(events)
        if isinstance(event.operation, Fence) and event.order is Order.SC
    ]

    def lines(members: Sequence[int]) -> list[tuple[int, ...]]:
        return [
            line
            for line in permutations(members)
            if not any(skeleton.before.rows[b] >> a & 1 for a, b in combinations(line, 2))
        ]

    writes = [lines(members) for members in by_place.values()]
    for chosen in product(*writes):
        co = Relation.of(size, (pair for line in chosen for pair in combinations(line, 2)))
        for line in lines(fences):
            yield co, Relation.of(size, combinations(line, 2))


def _execution(
    skeleton: Skeleton,
    results: tuple[object, ...],
    rf: Relation,
    co: Relation,
    races: Relation,
) -> Execution:
    events = skeleton.events
    source = {read: write for write, read in rf}
    seen: list[list[tuple[Place, int]]] = [[] for _ in skeleton.threads]
    final: dict[Place, int] = {}
    for number, event in enumerate(events):
        if event.reads:
            value = events[source[number]].written
            assert value is not None
            seen[event.thread].append((event.place, value))
        if event.written is not None and not co.rows[number]:
            final[event.place] = event.written
    pair = next(iter(races), None)
    race = None if pair is None else f"{events[pair[0]]} and {events[pair[1]]}"
    return Execution(results, tuple(map(tuple, seen)), final, race)
