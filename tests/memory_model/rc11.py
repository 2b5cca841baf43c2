"""The axioms of C++'s memory model as repaired: RC11, with the release sequences of C++20.

Lahav, Vafeiadis, Kang, Hur and Dreyer, "Repairing Sequential Consistency in C/C++11" (PLDI 2017).
Names are the paper's. It excludes load buffering; release sequences have no plain stores of the
releasing thread, which C++20 has left out. Scopes mean nothing.
"""

from __future__ import annotations

from tests.memory_model.executions import Skeleton
from tests.memory_model.program import Fence, Order
from tests.memory_model.relation import Relation


class Rc11:
    """The axioms for one skeleton."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._skeleton = skeleton
        self._sb = skeleton.program_order
        self._atomic = skeleton.where(lambda e: e.order is not Order.WEAK)
        self._fences = skeleton.where(lambda e: isinstance(e.operation, Fence))
        self._releases = skeleton.where(lambda e: e.order.releases)
        self._acquires = skeleton.where(lambda e: e.order.acquires)
        self._sc = skeleton.where(lambda e: e.order is Order.SC)

    def allow(self, rf: Relation, co: Relation, sc: Relation) -> bool:
        """Return whether no axiom is broken; see :class:`Axioms`."""
        skeleton, sb = self._skeleton, self._sb
        everything = (1 << len(skeleton.events)) - 1
        hb = self._hb(rf)
        mo = (hb.between(skeleton.writes, skeleton.writes) & skeleton.same_place | co).plus
        rb = rf.inverse @ mo
        eco = (rf | mo | rb).plus
        # Coherence. Barriers precede each other both ways, which is no contradiction.
        memory = skeleton.reads | skeleton.writes
        if not ((hb.between(memory, memory) @ eco.maybe).is_irreflexive and mo.is_irreflexive):
            return False
        # Atomicity.
        if (rb @ mo) & skeleton.updates:
            return False
        # No thin air.
        if not (sb | rf).is_acyclic:
            return False
        # Sequential consistency.
        elsewhere = sb - skeleton.same_place
        scb = sb | elsewhere @ hb @ elsewhere | hb & skeleton.same_place | mo | rb
        fence = self._fences & self._sc
        first = _unit(self._sc, everything) | hb.maybe.between(fence, everything)
        last = _unit(self._sc, everything) | hb.maybe.between(everything, fence)
        psc = first @ scb @ last | (hb | hb @ eco @ hb).between(fence, fence)
        return psc.is_acyclic

    def races(self, rf: Relation, sc: Relation) -> Relation:
        """Return the pairs in a data race; see :class:`Axioms`."""
        hb = self._hb(rf)
        conflicts = self._skeleton.conflicts
        atomic = conflicts.between(self._atomic, self._atomic)
        return conflicts - atomic - hb - hb.inverse

    def _hb(self, rf: Relation) -> Relation:
        """Return the happens-before order."""
        skeleton, sb = self._skeleton, self._sb
        writes, reads = skeleton.writes & self._atomic, skeleton.reads & self._atomic
        everything = (1 << len(skeleton.events)) - 1
        # An update that sees a write of the sequence continues it.
        sequence = _unit(writes, everything) @ (rf @ skeleton.updates).plus.maybe
        begins = sequence.between(self._releases & writes, everything)
        begins |= sb.between(self._releases & self._fences, everything) @ sequence
        ends = _unit(self._acquires & reads, everything) | sb.between(
            reads, self._acquires & self._fences
        )
        seen = rf.between(everything, reads)
        return (sb | skeleton.joins | begins @ seen @ ends).plus


def _unit(members: int, everything: int) -> Relation:
    """Return equality on some events."""
    size = everything.bit_length()
    return Relation.of(size, ((i, i) for i in range(size) if members >> i & 1))
