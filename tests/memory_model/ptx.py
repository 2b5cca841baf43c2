"""The axioms of PTX's memory consistency model, of PTX 7.5 and newer, for the generic proxy.

They are those of the PTX ISA's chapter on memory consistency; Lustig, Sahasrabuddhe and Giroux, "A
Formal Analysis of the NVIDIA PTX Memory Consistency Model" (ASPLOS 2019), state them formally, and
the names are theirs. Threads that begin after others have ended are kernels and memory operations
that depend on each other in a stream or graph, which synchronise.
"""

from __future__ import annotations

from tests.memory_model.executions import Event, Skeleton
from tests.memory_model.program import Barrier, Fence, Order, Scope
from tests.memory_model.relation import Relation


class Ptx:
    """The axioms for one skeleton."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._skeleton = skeleton
        reads, writes = skeleton.reads, skeleton.writes
        po = skeleton.program_order
        same_place = skeleton.same_place
        self._po_loc = po & same_place
        either = skeleton.relation(lambda a, b: not (a.place and b.place))
        strong = skeleton.relation(self._strong_to_each_other)
        self._morally_strong = ((po | po.inverse) | strong) & (same_place | either)
        strong_events = skeleton.where(_is_strong)
        fences = skeleton.where(lambda e: isinstance(e.operation, Fence))
        releases = skeleton.where(lambda e: e.order.releases)
        acquires = skeleton.where(lambda e: e.order.acquires)
        self._release_pattern = self._po_loc.maybe.between(
            releases & writes, strong_events & writes
        ) | po.between(releases & fences, strong_events & writes)
        self._acquire_pattern = self._po_loc.maybe.between(
            strong_events & reads, acquires & reads
        ) | po.between(strong_events & reads, acquires & fences)
        self._base = po | skeleton.joins
        self._sc_fences = skeleton.where(
            lambda e: isinstance(e.operation, Fence) and e.order is Order.SC
        )

    def allow(self, rf: Relation, co: Relation, sc: Relation) -> bool:
        """Return whether no axiom is broken; see :class:`Axioms`."""
        skeleton, strong = self._skeleton, self._morally_strong
        writes = skeleton.writes
        base, cause = self._cause(rf, sc)
        # Coherence: causality orders writes. Of others it relates only those that are strong.
        forced = cause.between(writes, writes)
        related = forced | forced.inverse | strong
        co = (forced | (co & related)).plus
        if not co.is_irreflexive:
            return False
        # Fence-SC: its order does not contradict causality.
        if (base & sc.inverse).between(self._sc_fences, self._sc_fences):
            return False
        fr = rf.inverse @ co
        # Atomicity: no strong write comes between the read and the write of an update.
        if ((strong & fr) @ (strong & co)) & skeleton.updates:
            return False
        # Sequential consistency per location.
        if not ((strong & (rf | co | fr)) | self._po_loc).is_acyclic:
            return False
        # Causality: no read sees a later write, or one that was overwritten before.
        return ((rf | fr) @ cause).is_irreflexive

    def races(self, rf: Relation, sc: Relation) -> Relation:
        """Return the pairs in a data race; see :class:`Axioms`."""
        _, cause = self._cause(rf, sc)
        return self._skeleton.conflicts - self._morally_strong - cause - cause.inverse

    def _cause(self, rf: Relation, sc: Relation) -> tuple[Relation, Relation]:
        """Return the base causality order, and causality order among memory operations."""
        strong = self._morally_strong
        observed = strong & rf
        observed = observed | observed @ (self._skeleton.updates @ observed).plus
        pattern = self._release_pattern @ observed @ self._acquire_pattern
        base = (self._base | (strong & pattern) | (strong & sc)).plus
        to_place = base & self._skeleton.same_place
        return base, to_place | (observed @ to_place)

    def _strong_to_each_other(self, one: Event, other: Event) -> bool:
        return (
            _is_strong(one)
            and _is_strong(other)
            and self._includes(one, other)
            and self._includes(other, one)
        )

    def _includes(self, one: Event, other: Event) -> bool:
        """Return whether the scope of an event includes the thread of another."""
        operation = one.operation
        assert not isinstance(operation, Barrier)
        a, b = (self._skeleton.threads[event.thread] for event in (one, other))
        match operation.scope:
            case Scope.BLOCK:
                return a.block == b.block
            case Scope.DEVICE:
                return a.device == b.device
            case Scope.SYSTEM:
                return True


def _is_strong(event: Event) -> bool:
    return event.order is not Order.WEAK
