"""Words of data, each of which multiplies vectors: loaded one by one, or several in a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from runtime_ext.kernels.code import Index, broadcast, lanes_of, shuffle
from runtime_ext.kernels.cut import largest_divisor

#: A lane of a vector, or a number and zero.
Word = tuple[Any, int]
#: Returns a row's word.
WordOf = Callable[[int], Word]


def consecutive(
    rows: Iterable[int],
    first: Index,
    count: int,
    together: int,
    read: Callable[[int, Index, int], Any],
) -> Iterator[tuple[Index, WordOf]]:
    """Yield the numbers of consecutive words of rows, and functions that return a row's.

    ``read`` returns some words of a row, from one on; ``together`` of them are read at once.
    """
    at = 0
    while 1 < together <= count - at:
        vectors = {row: read(row, first + at, together) for row in rows}
        for n in range(together):
            yield first + (at + n), lambda row, n=n, of=vectors: (of[row], n)
        at += together
    for word in (first + n for n in range(at, count)):
        yield word, lambda row, word=word: (read(row, word, 1), 0)


def step_of(words: int, limit: int, together: int) -> int:
    """Return the words of a loop's step, about ``limit`` at most: whole vectors, all as many.

    Words that fill no vector are left.
    """
    together = together if words >= together else 1
    return largest_divisor(words // together, max(1, limit // together)) * together


def spread(words: Sequence[Word], lanes: int) -> Any:
    """Return a vector of words one after another, repeated."""
    vectors = [vector for vector, _ in words]
    size = lanes_of(vectors[0])
    if size == len(words) == 1:
        return broadcast(vectors[0], lanes)
    places = [n * size + lane for n, (_, lane) in enumerate(words)]
    return shuffle(vectors, places * (lanes // len(words)))
