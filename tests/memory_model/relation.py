"""Relations between the events of an execution, in the notation of memory models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation on ``range(len(rows))``; bit ``j`` of row ``i`` is set if it has ``(i, j)``."""

    rows: tuple[int, ...]

    @classmethod
    def of(cls, size: int, pairs: Iterable[tuple[int, int]]) -> Relation:
        """Return the relation of these pairs."""
        rows = [0] * size
        for one, other in pairs:
            rows[one] |= 1 << other
        return cls(tuple(rows))

    def __or__(self, other: Relation) -> Relation:
        return Relation(tuple(a | b for a, b in zip(self.rows, other.rows, strict=True)))

    def __and__(self, other: Relation) -> Relation:
        return Relation(tuple(a & b for a, b in zip(self.rows, other.rows, strict=True)))

    def __sub__(self, other: Relation) -> Relation:
        return Relation(tuple(a & ~b for a, b in zip(self.rows, other.rows, strict=True)))

    def __matmul__(self, other: Relation) -> Relation:
        """Return the composition: first this relation, then the other."""
        composed: list[int] = []
        for row in self.rows:
            reached = 0
            while row:
                lowest = row & -row
                reached |= other.rows[lowest.bit_length() - 1]
                row ^= lowest
            composed.append(reached)
        return Relation(tuple(composed))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for one, row in enumerate(self.rows):
            for other in range(len(self.rows)):
                if row >> other & 1:
                    yield one, other

    def __bool__(self) -> bool:
        return any(self.rows)

    @property
    def inverse(self) -> Relation:
        """The relation with its pairs turned round."""
        return Relation.of(len(self.rows), ((other, one) for one, other in self))

    @property
    def maybe(self) -> Relation:
        """The relation or equality."""
        return Relation(tuple(row | 1 << i for i, row in enumerate(self.rows)))

    @property
    def plus(self) -> Relation:
        """The transitive closure."""
        rows = list(self.rows)
        for middle in range(len(rows)):
            bit, reached = 1 << middle, rows[middle]
            for one, row in enumerate(rows):
                if row & bit:
                    rows[one] = row | reached
                    if one == middle:
                        reached = rows[one]
        return Relation(tuple(rows))

    def between(self, sources: int, targets: int) -> Relation:
        """Return the pairs from one set of events, a bit mask, to another."""
        return Relation(
            tuple(row & targets if sources >> i & 1 else 0 for i, row in enumerate(self.rows))
        )

    @property
    def is_irreflexive(self) -> bool:
        """Whether no element is related to itself."""
        return not any(row >> i & 1 for i, row in enumerate(self.rows))

    @property
    def is_acyclic(self) -> bool:
        """Whether there is no cycle."""
        return self.plus.is_irreflexive
