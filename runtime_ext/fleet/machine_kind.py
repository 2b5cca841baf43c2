"""The kind of machine that a server is: kernels and measurements hold for all of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime_ext.isa.levels import best_level
from runtime_ext.machine.this_machine import processor_of
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object, natural


@dataclass(frozen=True, slots=True)
class MachineKind:
    """The properties that machines of one key have in common."""

    #: The architecture as in ``uname -m``: ``x86_64``, ``aarch64``.
    machine: str
    #: The processor's name.
    processor: str
    #: The highest instruction-set level that it has.
    level: str
    #: The CPU's features that decide whether code runs, as LLVM names them.
    features: frozenset[str]
    #: How many threads can run at once.
    lanes: int

    @staticmethod
    def of(facts: str) -> MachineKind:
        """Parse the text that ``machine_facts`` of the C++ library returns of a machine.

        Raise UserError if it has not that form, or kernels are not made for such machines.
        """
        try:
            data: Mapping[str, Any] = json_object(facts)
            cpuinfo = str(data["cpuinfo"])
            machine = str(data["machine"])
            features = frozenset(map(str, data["features"]))
            return MachineKind(
                machine,
                processor_of(cpuinfo),
                best_level(machine, features).name,
                features,
                natural(data["lanes"]),
            )
        except UserError:
            raise
        except (JsonError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"a server describes its machine as {facts[:60]!r}") from error

    def difference(self, other: MachineKind) -> str | None:
        """Return a clause on how another machine differs from this one; None if it does not."""
        if (self.machine, self.processor) != (other.machine, other.processor):
            return f"it is {other.processor} ({other.machine}), not {self.processor}"
        if lacking := sorted(self.features - other.features):
            return f"its processor has no {', '.join(lacking[:3])}"
        if more := sorted(other.features - self.features):
            return f"its processor has {', '.join(more[:3])}, which others have not"
        if self.lanes != other.lanes:
            return f"it can run {other.lanes} threads at once, not {self.lanes}"
        return None
