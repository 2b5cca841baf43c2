"""Extents as plain data, for files: a table of symbols, one of expressions, and references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import natural
from tvm_ios.files.plain_data import read_as
from tvm_ios.shapes.extent import Extent, Floor, Symbol, Terms, extent_of, mapped


class ExpressionTable:
    """A table of expressions, in which each is made of those before it.

    A reference is a number, ``"s0"`` for the first symbol, or ``"e0"`` for the first expression. An
    expression is ``["sum", [factor, *references], ...]`` or ``["floor", reference, divisor]``.
    """

    def __init__(self) -> None:
        self._symbols: dict[Symbol, str] = {}
        self._expressions: dict[Any, str] = {}
        self._rows: list[Any] = []

    def reference(self, extent: int) -> int | str:
        """Return the reference of an extent, whose expression is added if it is new."""
        if not isinstance(extent, Extent):
            return int(extent)
        return self._sum(extent.terms)

    def references(self, data: Any) -> Any:
        """Return plain data, as of :func:`mapped`, with a reference for each open extent."""
        return mapped(data, self.reference)

    def to_json(self) -> dict[str, Any]:
        """Return both tables as plain data."""
        symbols = [[s.name, s.least, s.most, s.hint] for s in self._symbols]
        return {"symbols": symbols, "expressions": self._rows}

    def _sum(self, terms: Terms) -> str:
        if len(terms) == 1:
            ((monomial, factor),) = terms
            if factor == 1 and len(monomial) == 1:
                return self._atom(monomial[0])
        known = self._expressions.get(terms)
        if known is None:
            row = [[factor, *map(self._atom, monomial)] for monomial, factor in terms]
            known = self._add(terms, ["sum", *row])
        return known

    def _atom(self, atom: Symbol | Floor) -> str:
        if isinstance(atom, Symbol):
            return self._symbols.setdefault(atom, f"s{len(self._symbols)}")
        known = self._expressions.get(atom)
        if known is None:
            known = self._add(atom, ["floor", self._sum(atom.terms), atom.divisor])
        return known

    def _add(self, key: Any, row: list[Any]) -> str:
        self._rows.append(row)
        return self._expressions.setdefault(key, f"e{len(self._rows) - 1}")


class ExpressionReader:
    """The expressions of tables that :meth:`ExpressionTable.to_json` wrote.

    Raise UserError if the tables are damaged.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._known: dict[str, int] = {}
        try:
            rows = cast("Sequence[Any]", data["expressions"])
            symbols = read_as(tuple[tuple[str, int, int, int], ...], data["symbols"])
            if len({name for name, *_ in symbols}) < len(symbols):
                raise ValueError("two symbols of one name")
            for number, (name, least, most, hint) in enumerate(symbols):
                if not least <= hint <= most:
                    raise ValueError(f"symbol {name!r} from {least} to {most}")
                extent = extent_of(Symbol(name, least, most, hint))
                self._known[f"s{number}"] = extent
            for number, (kind, *parts) in enumerate(rows):
                self._known[f"e{number}"] = self._expression(kind, parts)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise UserError(f"the table of expressions lacks or misstates {error}") from error

    def extent(self, reference: Any) -> int:
        """Return the extent of a reference; raise ValueError if there is none."""
        if isinstance(reference, str):
            if reference not in self._known:
                raise ValueError(f"the expression {reference[:40]!r}")
            return self._known[reference]
        return natural(reference)

    def _expression(self, kind: Any, parts: Sequence[Any]) -> int:
        if kind == "floor":
            of, divisor = parts
            return self.extent(of) // natural(divisor)
        if kind != "sum":
            raise ValueError(f"an expression of kind {str(kind)[:40]!r}")
        total = 0
        for factor, *atoms in parts:
            if isinstance(factor, bool) or not isinstance(factor, int):
                raise ValueError(f"the factor {str(factor)[:40]!r}")
            product: int = factor
            for atom in atoms:
                product = product * self.extent(atom)
            total = total + product
        return total
