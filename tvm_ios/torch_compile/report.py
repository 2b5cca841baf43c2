"""The report of the graphs that torch compiled with the backend: where each ran, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Where a graph runs that is a program of ours.
OURS = "tvm_ios"


@dataclass
class GraphRecord:
    """A graph of TorchDynamo: where it runs, and why not as a program of ours.

    Attributes
    ----------
    name
        The function and line where it begins.
    operators
        Its number of operators.
    where
        ``tvm_ios``, ``eager`` or ``inductor``; empty before its first call.
    reason
        The reason why it, or some calls of it, are no program of ours; empty if there is none.
    seconds
        The time that compiling took, of all its programs.
    programs
        The number of its programs: one for each set of weights, and for each range of shapes.
    cached
        The number of these that were in the cache.
    calls, fallen_back
        The number of calls, and of those that no program of ours ran.
    """

    name: str
    operators: int
    where: str = ""
    reason: str = ""
    seconds: float = 0.0
    programs: int = 0
    cached: int = 0
    calls: int = 0
    fallen_back: int = 0


@dataclass(frozen=True)
class TorchReport:
    """The graphs that torch compiled with the backend in this process, in order."""

    graphs: Sequence[GraphRecord] = field(default_factory=tuple[GraphRecord, ...])

    @property
    def counts(self) -> dict[str, int]:
        """The number of graphs by where they run."""
        return dict(Counter(graph.where for graph in self.graphs if graph.where))

    def __str__(self) -> str:
        if not self.graphs:
            return "torch compiled nothing with the backend tvm_ios"
        head = ("graph", "operators", "runs in", "compiled (s)", "programs", "calls", "reason")
        rows = [head, *map(_row, self.graphs)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
        lines = [
            "  ".join((*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1])).rstrip()
            for row in rows
        ]
        return "\n".join(lines)


def _row(graph: GraphRecord) -> tuple[str, ...]:
    programs = str(graph.programs) + (f" ({graph.cached} cached)" if graph.cached else "")
    calls = str(graph.calls)
    if 0 < graph.fallen_back < graph.calls:
        calls += f" ({graph.fallen_back} not ours)"
    return (
        graph.name,
        str(graph.operators),
        graph.where or "not called",
        f"{graph.seconds:.1f}",
        programs,
        calls,
        graph.reason,
    )


def sentence(error: BaseException) -> str:
    """Return what an unexpected error says, on one line and not too long."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


_records: list[GraphRecord] = []


def new_record(name: str, operators: int) -> GraphRecord:
    """Begin the record of a graph, which the report has from then on."""
    record = GraphRecord(name, operators)
    _records.append(record)
    return record


def forget(record: GraphRecord) -> None:
    """Leave out a graph that torch traces anew."""
    _records.remove(record)


def torch_report() -> TorchReport:
    """Return where the graphs run that torch compiled with the backend in this process, and why.

    ``print`` shows it as a table.
    """
    return TorchReport(tuple(_records))
