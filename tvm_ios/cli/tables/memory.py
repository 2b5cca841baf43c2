"""Orders of operators and places of buffers, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console
from tvm_ios.files.byte_sizes import kib

if TYPE_CHECKING:
    from tvm_ios.memory.comparison import ScheduledMemory
    from tvm_ios.memory.planning import Plan

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class OrderedModel:
    """The orders of a model that were compared.

    Attributes
    ----------
    name
        The model's name.
    operators
        The names of the operators that were ordered.
    rows
        The order of each scheduler.
    best
        The row that was chosen.
    before
        The rows before the graph was rewritten, or None.
    """

    name: str
    operators: Sequence[str]
    rows: tuple[ScheduledMemory, ...]
    best: ScheduledMemory
    before: tuple[ScheduledMemory, ...] | None = None

    @property
    def curves(self) -> list[ScheduledMemory]:
        """The rows to draw: the first and the best, once if they are the same."""
        first, best = self.rows[0], self.best
        return [first] if best is first else [first, best]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        unchanged = {row.name: row.ordered.peak / 1024 for row in self.before or ()}
        return {
            "model": self.name,
            "schedulers": [
                {
                    "name": row.name,
                    "peak_kib": row.ordered.peak / 1024,
                    "arena_kib": row.arena.plan.nbytes / 1024,
                    "seconds": row.ordered.seconds,
                    "operators": row.ordered.operators,
                    "fused_operators": row.ordered.fused_operators,
                    "proof": row.ordered.proven,
                    "bound_kib": row.ordered.bound / 1024,
                    "peak_before_rewriting_kib": unchanged.get(row.name),
                }
                for row in self.rows
            ],
            "best": self.best.name,
            "order": [self.operators[op] for op in self.best.ordered.order],
        }

    def show(self, budget: int | None) -> None:
        """Print the rows, and the footprints over time below them."""
        unchanged = {row.name: kib(row.ordered.peak) for row in self.before or ()}
        table = Table(
            "scheduler", "peak KiB", "arena KiB", "seconds", "operators", "fused", "proof",
            title=escape(self.name),
        )  # fmt: skip
        if unchanged:
            table.add_column("not rewritten: peak KiB")
        for column in table.columns[1:]:
            column.justify = "left" if column.header == "proof" else "right"
        for row in self.rows:
            ordered = row.ordered
            table.add_row(
                row.name,
                kib(ordered.peak),
                kib(row.arena.plan.nbytes),
                f"{ordered.seconds:.2f}",
                str(ordered.operators),
                str(ordered.fused_operators),
                "optimal" if ordered.proven else f"at least {kib(ordered.bound)}",
                *([unchanged[row.name]] if unchanged else []),
                style="bold green" if row is self.best else "",
            )
        out = console()
        out.print(table)
        width = min(out.width - 14, 100)
        top = max(row.ordered.peak for row in self.curves)
        for row in self.curves:
            out.print(
                f"{row.name:>12} {_sparkline(row.footprints.stable, top, width)}", highlight=False
            )
        if budget is not None:
            spare = budget - self.best.arena.plan.nbytes
            out.print(f"{self.best.name} fits into {kib(budget)} KiB and leaves {kib(spare)}")


def _sparkline(values: tuple[int, ...], top: int, width: int) -> str:
    """Return footprints over time as a line of bars, each the largest value of its span."""
    columns = min(width, len(values))
    spans = [
        values[len(values) * i // columns : len(values) * (i + 1) // columns]
        for i in range(columns)
    ]
    return "".join(_BARS[-(-max(span) * (len(_BARS) - 1) // max(top, 1))] for span in spans)


def placed_json(plan: Plan) -> dict[str, Any]:
    """Return a plan of buffers as plain data."""
    return {
        "banks": [
            {
                "name": use.bank.name,
                "capacity": use.bank.capacity,
                "buffers": plan.bank_of.count(number),
                "bytes": use.nbytes,
                "bound": use.bound,
                "proof": use.proven,
            }
            for number, use in enumerate(plan.banks)
        ],
        "cost": plan.cost,
        "cost_bound": plan.bound,
        "seconds": plan.seconds,
        "offsets": list(plan.offsets),
    }


def show_placed(name: str, plan: Plan) -> None:
    """Print the use of each bank, and the time of all accesses if there are several."""
    table = Table("bank", "capacity", "buffers", "bytes", "proof", title=escape(name))
    for column in table.columns[1:4]:
        column.justify = "right"
    for number, use in enumerate(plan.banks):
        capacity = use.bank.capacity
        table.add_row(
            escape(use.bank.name),
            "" if capacity is None else f"{capacity:,}",
            f"{plan.bank_of.count(number):,}",
            f"{use.nbytes:,}",
            "smallest"
            if use.proven
            else f"fits; at least {use.bound:,}"
            if capacity is not None
            else f"at least {use.bound:,}",
        )
    out = console()
    out.print(table)
    if len(plan.banks) > 1:
        gap = plan.cost / plan.bound - 1 if plan.bound else 0.0
        proof = "no choice takes less" if gap == 0 else f"at most {gap:.1%} above the least"
        out.print(f"accesses take {plan.cost:,.0f} units of time: {proof}")
    out.print(f"{plan.seconds:.2f} seconds", highlight=False)
