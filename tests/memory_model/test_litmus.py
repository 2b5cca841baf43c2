"""Litmus tests with published verdicts: the checker is no better than these.

PTX's are of the PTX ISA's chapter on memory consistency, of the paper of its formal model (ASPLOS
2019) and of Dartagnan's collection; C++'s of "Repairing Sequential Consistency in C/C++11" and the
collections of herd and Dartagnan.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.memory_model.executions import Model, executions, outcomes
from tests.memory_model.program import (
    Barrier,
    Blocked,
    Fence,
    Load,
    Operation,
    Order,
    Scope,
    Store,
    Thread,
    Update,
)
from tests.memory_model.ptx import Ptx
from tests.memory_model.rc11 import Rc11

WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SC = Order
BLOCK, DEVICE, SYSTEM = Scope


@dataclass(frozen=True)
class Litmus:
    """Threads of straight code, each in a block of its own, and what they may read together."""

    name: str
    threads: Sequence[Sequence[Operation]]
    #: What each thread reads, in order.
    reads: Sequence[tuple[int, ...]]
    allowed: bool
    #: The blocks of the threads, if it is not one each.
    blocks: Sequence[int] = ()

    def is_allowed(self, model: Model) -> bool:
        """Return whether a model allows it."""
        blocks = self.blocks or range(len(self.threads))
        threads = [straight(*t, block=b) for t, b in zip(self.threads, blocks, strict=True)]
        return tuple(self.reads) in outcomes(model, threads)


def straight(*operations: Operation, block: int = 0, after: tuple[int, ...] = ()) -> Thread:
    """Return the thread of some operations; its result is all that it has read."""

    def run() -> Generator[Operation, Any, tuple[int, ...]]:
        read: list[int] = []
        for operation in operations:
            value = yield operation
            if isinstance(operation, Load | Update):
                read.append(value)
        return tuple(read)

    return Thread(run, block, after=after)


def add(place: str, order: Order = RELAXED, scope: Scope = SYSTEM) -> Update:
    return Update(place, lambda value: value + 1, order, scope)


def message(publish: Sequence[Operation], receive: Sequence[Operation]) -> list[list[Operation]]:
    """Message passing: data and a flag, published and received by some operations."""
    return [[Store("x", 1), *publish], [*receive, Load("x")]]


def buffering(*between: Operation, order: Order = RELAXED) -> list[list[Operation]]:
    """Store buffering, with operations between the store and the load of both threads."""
    return [
        [Store("x", 1, order), *between, Load("y", order)],
        [Store("y", 1, order), *between, Load("x", order)],
    ]


def independent(order: Order, *between: Operation) -> list[list[Operation]]:
    """Independent reads of independent writes."""
    write = RELEASE if order is ACQUIRE else order
    return [
        [Store("x", 1, write)],
        [Store("y", 1, write)],
        [Load("x", order), *between, Load("y", order)],
        [Load("y", order), *between, Load("x", order)],
    ]


RELEASED, ACQUIRED = [Store("y", 1, RELEASE)], [Load("y", ACQUIRE)]
UNFENCED, READ = [Store("y", 1, RELAXED)], [Load("y", RELAXED)]
FENCED, SEEN = [Fence(ACQ_REL), *UNFENCED], [*READ, Fence(ACQ_REL)]
STALE, BOTH_STALE = ((), (1, 0)), ((0,), (0,))
DISAGREE = ((), (), (1, 0), (1, 0))

#: Verdicts that both models share; scopes are of the whole system.
BOTH = [
    Litmus("MP+rel+acq", message(RELEASED, ACQUIRED), STALE, False),
    Litmus("MP+fences", message(FENCED, SEEN), STALE, False),
    Litmus("MP+rel+fence", message(RELEASED, SEEN), STALE, False),
    Litmus("MP+relaxed+acq", message(UNFENCED, ACQUIRED), STALE, True),
    Litmus("MP+rel+relaxed", message(RELEASED, READ), STALE, True),
    Litmus("MP+fence+relaxed", message(FENCED, READ), STALE, True),
    Litmus("MP+fence-after", message([*UNFENCED, Fence(ACQ_REL)], SEEN), STALE, True),
    Litmus("MP+fence-before", message(FENCED, [Fence(ACQ_REL), *READ]), STALE, True),
    Litmus(
        "MP+flag-first",
        [[Store("y", 1, RELEASE), Store("x", 1)], [Load("y", ACQUIRE), Load("x")]],
        STALE,
        True,
    ),
    Litmus("SB", buffering(), BOTH_STALE, True),
    Litmus("SB+acq_rel", buffering(Fence(ACQ_REL)), BOTH_STALE, True),
    Litmus("SB+sc", buffering(Fence(SC)), BOTH_STALE, False),
    Litmus("IRIW+acq", independent(ACQUIRE), DISAGREE, True),
    Litmus("IRIW+acq_rel", independent(RELAXED, Fence(ACQ_REL)), DISAGREE, True),
    Litmus("IRIW+sc", independent(RELAXED, Fence(SC)), DISAGREE, False),
    Litmus(
        "WRC",
        [
            [Store("x", 1, RELAXED)],
            [Load("x", ACQUIRE), Store("y", 1, RELEASE)],
            [Load("y", ACQUIRE), Load("x", RELAXED)],
        ],
        ((), (1,), (1, 0)),
        # By coherence: one read of x happens before the other.
        False,
    ),
    Litmus(
        "WRC+relaxed",
        [
            [Store("x", 1, RELAXED)],
            [Load("x", RELAXED), Store("y", 1, RELAXED)],
            [Load("y", ACQUIRE), Load("x", RELAXED)],
        ],
        ((), (1,), (1, 0)),
        True,
    ),
    Litmus(
        "ISA2",
        [
            [Store("x", 1), Store("y", 1, RELEASE)],
            [Load("y", ACQUIRE), Store("z", 1, RELEASE)],
            [Load("z", ACQUIRE), Load("x")],
        ],
        ((), (1,), (1, 0)),
        False,
    ),
    Litmus(
        "CoRR",
        [[Store("x", 1, RELAXED)], [Load("x", RELAXED), Load("x", RELAXED)]],
        ((), (1, 0)),
        False,
    ),
    Litmus("CoWR", [[Store("x", 1), Load("x")]], ((0,),), False),
    Litmus("CoRW", [[Load("x"), Store("x", 1)]], ((1,),), False),
    Litmus(
        "MP+update-between",
        [[Store("x", 1), *RELEASED], [add("y")], [Load("y", ACQUIRE), Load("x")]],
        ((), (1,), (2, 0)),
        False,
    ),
    Litmus("two updates", [[add("x")], [add("x")]], ((0,), (0,)), False),
    Litmus(
        "LB+data",
        [
            [Load("x", RELAXED), Store("y", 0, RELAXED)],
            [Load("y", RELAXED), Store("x", 0, RELAXED)],
        ],
        ((42,), (42,)),
        False,
    ),
]
LB = [
    [Load("x", RELAXED), Store("y", 1, RELAXED)],
    [Load("y", RELAXED), Store("x", 1, RELAXED)],
]
GPU_FLAG = [
    [Store("x", 1), Store("y", 1, RELEASE, DEVICE)],
    [Load("y", ACQUIRE, DEVICE), Load("x")],
]
CTA_FLAG = [
    [Store("x", 1), Store("y", 1, RELEASE, BLOCK)],
    [Load("y", ACQUIRE, BLOCK), Load("x")],
]
CTA_FENCES = [
    [Store("x", 1, RELAXED), Fence(SC, BLOCK), Load("y", RELAXED)],
    [Store("y", 1, RELAXED), Fence(SC, BLOCK), Load("x", RELAXED)],
]
#: Verdicts of PTX alone.
PTX = [
    Litmus("LB", LB, ((1,), (1,)), True),
    Litmus("MP+weak-flag", message([Store("y", 1)], ACQUIRED), STALE, True),
    Litmus("MP+gpu", GPU_FLAG, STALE, False),
    Litmus("MP+cta", CTA_FLAG, STALE, True),
    Litmus("MP+cta-inside", CTA_FLAG, STALE, False, blocks=(0, 0)),
    Litmus("MP+cta+gpu", [CTA_FLAG[0], GPU_FLAG[1]], STALE, True),
    Litmus("SB+sc-cta", CTA_FENCES, BOTH_STALE, True),
    Litmus("SB+sc-cta-inside", CTA_FENCES, BOTH_STALE, False, blocks=(0, 0)),
    Litmus("SB+barrier", buffering(Barrier(), order=WEAK), BOTH_STALE, False, blocks=(0, 0)),
    Litmus("CoRR+weak", [[Store("x", 1)], [Load("x"), Load("x")]], ((), (1, 0)), True),
    Litmus(
        "CoRR+acquire-weak",
        [[Store("x", 1, RELEASE)], [Load("x", ACQUIRE), Load("x")]],
        ((), (1, 0)),
        False,
    ),
    Litmus(
        "updates of other scopes",
        [[add("x", RELAXED, BLOCK)], [add("x", RELAXED, DEVICE)]],
        ((0,), (0,)),
        True,
    ),
    Litmus(
        "ISA2+scopes",
        [
            [Store("x", 1), Store("y", 1, RELEASE, BLOCK)],
            [Load("y", ACQUIRE, DEVICE), Store("z", 1, RELEASE, DEVICE)],
            [Load("z", ACQUIRE, DEVICE), Load("x")],
        ],
        ((), (1,), (1, 0)),
        False,
        blocks=(0, 0, 1),
    ),
]
#: Verdicts of C++ alone.
CPP = [
    Litmus("LB", LB, ((1,), (1,)), False),
    Litmus("SB+sc-accesses", buffering(order=SC), BOTH_STALE, False),
    Litmus("IRIW+sc-accesses", independent(SC), DISAGREE, False),
    Litmus(
        "IRIW+acq-sc",
        [
            [Store("x", 1, SC)],
            [Store("y", 1, SC)],
            [Load("x", ACQUIRE), Load("y", SC)],
            [Load("y", ACQUIRE), Load("x", SC)],
        ],
        DISAGREE,
        True,
    ),
    Litmus(
        "Z6.U",
        [
            [Store("x", 1, SC), Store("y", 1, RELEASE)],
            [add("y", SC), Load("y", RELAXED)],
            [Store("y", 3, SC), Load("x", SC)],
        ],
        ((), (1, 3), (0,)),
        True,
    ),
    Litmus(
        "MP+stores-after-release",
        message([Store("y", 1, RELEASE), Store("y", 2, RELAXED)], ACQUIRED),
        ((), (2, 0)),
        # Since C++20.
        True,
    ),
]


@pytest.mark.parametrize(
    ("model", "litmus"),
    [(m, t) for m in (Ptx, Rc11) for t in BOTH]
    + [(Ptx, t) for t in PTX]
    + [(Rc11, t) for t in CPP],
    ids=lambda value: getattr(value, "name", None) or value.__name__,
)
def test_verdict(model: Model, litmus: Litmus) -> None:
    assert litmus.is_allowed(model) is litmus.allowed


@pytest.mark.parametrize("model", [Ptx, Rc11])
def test_writes_of_two_places_may_be_seen_in_either_order(model: Model) -> None:
    """2+2W, of which only the end shows something."""
    both = [straight(Store(a, 1, RELAXED), Store(b, 2, RELAXED)) for a, b in ("xy", "yx")]
    released = [straight(Store(a, 1, RELEASE), Store(b, 2, RELEASE)) for a, b in ("xy", "yx")]
    fenced = [
        straight(Store(a, 1, RELAXED), Fence(SC), Store(b, 2, RELAXED)) for a, b in ("xy", "yx")
    ]

    def ends(threads: list[Thread]) -> bool:
        separate = [Thread(thread.run, block) for block, thread in enumerate(threads)]
        return any(e.final == {"x": 1, "y": 1} for e in executions(model, separate))

    assert ends(both)
    assert ends(released)
    assert not ends(fenced)


@pytest.mark.parametrize("model", [Ptx, Rc11])
def test_races_are_of_accesses_that_nothing_orders(model: Model) -> None:
    def races(threads: list[list[Operation]]) -> set[str | None]:
        separate = [straight(*thread, block=block) for block, thread in enumerate(threads)]
        return {e.race for e in executions(model, separate) if e.seen[1][0] == ("y", 1)}

    assert races(message(RELEASED, ACQUIRED)) == {None}
    assert races(message(UNFENCED, ACQUIRED)) == {
        "weak store of 'x' in thread 0 and weak load of 'x' in thread 1"
    }


def test_threads_that_begin_after_others() -> None:
    threads = [straight(Store("x", 1)), straight(Load("x"), block=1, after=(0,))]
    assert outcomes(Ptx, threads) == {((), (1,))}
    assert not any(e.race for e in executions(Ptx, threads))


def test_threads_branch_and_may_wait_for_ever() -> None:
    def consumer() -> Generator[Operation, Any, int]:
        if (yield Load("y", ACQUIRE)) == 0:
            raise Blocked
        return (yield Load("x"))

    producer = straight(Store("x", 1), Store("y", 1, RELEASE))
    assert outcomes(Ptx, [producer, Thread(consumer, block=1)]) == {((), 1)}
    assert not [*executions(Ptx, [Thread(consumer)])]


def test_barriers_that_wait_for_each_other_end_nothing() -> None:
    one, other = straight(Barrier(0), Barrier(1)), straight(Barrier(1), Barrier(0))
    assert not [*executions(Ptx, [one, other])]
    assert [*executions(Ptx, [one, one])]
    assert not [*executions(Ptx, [one, straight(Barrier(0))])], "one is missing"


def test_a_loop_without_an_end_is_refused() -> None:
    def spins() -> Generator[Operation, Any, None]:
        while (yield Load("y")) == 0:
            pass

    with pytest.raises(ValueError, match="give its loops a bound"):
        outcomes(Ptx, [Thread(spins)])
