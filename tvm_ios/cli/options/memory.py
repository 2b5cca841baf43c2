"""Options of ``tvm-ios memory``: of one scheduler, and of the memory that there is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tvm_ios.cli.frame import panels
from tvm_ios.cli.options.values import bytes_of, wrong_use
from tvm_ios.memory.options import Direction, SchedulerOptions, Solver

if TYPE_CHECKING:
    from tvm_ios.memory.planning import Bank


@dataclass(frozen=True, kw_only=True)
class FusionIlp:
    """Options: where reverse post-order begins, and those that fusion-ilp alone reads."""

    rpo_from: Annotated[
        Direction,
        panels.search(help="Where the search of reverse post-order begins.", show_choices=True),
    ] = "inputs"
    parts: Annotated[
        int | None,
        panels.search(min=1, help="Parts of fusion-ilp's partition, at most; else of 40 nodes."),
    ] = None
    solver: Annotated[
        Solver | None, panels.search(help="Of fusion-ilp's integer programs; cp-sat by default.")
    ] = None
    no_pruning: Annotated[
        bool, panels.search("--no-pruning", help="fusion-ilp keeps what the topology decides.")
    ] = False
    no_fusion: Annotated[
        bool, panels.search("--no-fusion", help="fusion-ilp orders operators that are not fused.")
    ] = False
    naive_partition: Annotated[
        bool, panels.search("--naive-partition", help="fusion-ilp divides into equal parts.")
    ] = False

    def options(self, schedulers: Sequence[str]) -> SchedulerOptions:
        """Return the options; a wrong use if fusion-ilp is not among the schedulers and needed."""
        options = SchedulerOptions(
            self.rpo_from,
            self.parts,
            self.solver or "cp-sat",
            not self.no_pruning,
            not self.no_fusion,
            not self.naive_partition,
        )
        if "fusion-ilp" not in schedulers and options != SchedulerOptions(self.rpo_from):
            raise wrong_use(
                "--scheduler",
                "only fusion-ilp reads --parts, --solver, --no-pruning, --no-fusion and "
                "--naive-partition: add it",
            )
        return options


@dataclass(frozen=True, kw_only=True)
class Memories:
    """Options: the memory that there is, and the file of the places in it."""

    budget: Annotated[
        str | None,
        panels.limits(
            "--budget",
            "--capacity",
            metavar="BYTES",
            help="Fail unless all fits: 800000, 512K, 1.5M.",
        ),
    ] = None
    bank: Annotated[
        list[str] | None,
        panels.limits(
            metavar="NAME=BYTES:COST",
            help="A memory of so many bytes (none: as many as needed), and the time that a byte's "
            "access takes in any unit; once for each. Buffers are divided over them.",
        ),
    ] = None
    alignment: Annotated[
        int | None,
        panels.limits(min=1, metavar="BYTES", help="Offsets are multiples: 64, of a table 1."),
    ] = None
    output: Annotated[
        Path | None,
        panels.output(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the model with its nodes in the best order, or the places of buffers "
            "(.csv).",
        ),
    ] = None

    @property
    def allowed(self) -> int | None:
        """The budget in bytes."""
        return bytes_of(self.budget, "--budget")

    def banks(self) -> list[Bank]:
        """Return the banks; one of the budget if no option names any."""
        from tvm_ios.memory.planning import Bank

        if not self.bank:
            return [Bank(capacity=self.allowed)]
        if self.budget is not None:
            raise wrong_use("--budget", "each bank has its own: leave it out")
        return [_bank(text) for text in self.bank]


def _bank(text: str) -> Bank:
    from tvm_ios.memory.planning import Bank

    match = re.fullmatch(r"([^=:]+)(?:=([^:]*))?(?::(\d+(?:\.\d+)?))?", text)
    if match is None:
        raise wrong_use("--bank", f"{text!r} is no bank: write sram=512K:1 or dram=:10")
    return Bank(match[1], bytes_of(match[2] or None, "--bank"), float(match[3] or 1))
