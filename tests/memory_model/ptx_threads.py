"""The threads of a kernel in PTX, as threads of the checker: each runs its instructions.

Integers, branches and addresses are computed; accesses to memory, fences and barriers become
operations. Data that the kernel loads is not computed with, so that each way through a thread is
one of control, not of values. An instruction that is not known is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.memory_model.program import (
    Barrier,
    Blocked,
    Fence,
    Load,
    Operation,
    Order,
    Place,
    Scope,
    Store,
    Thread,
)

#: Bytes of a word; all accesses are of one.
WORD = 4
_SPACING = 1 << 32
_SCOPES = {"cta": Scope.BLOCK, "gpu": Scope.DEVICE, "gl": Scope.DEVICE, "sys": Scope.SYSTEM}
_ORDERS = {
    "relaxed": Order.RELAXED,
    "acquire": Order.ACQUIRE,
    "release": Order.RELEASE,
    "acq_rel": Order.ACQ_REL,
    "sc": Order.SC,
    # A volatile access is a relaxed one of the whole system.
    "volatile": Order.RELAXED,
}
_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Argument:
    """A buffer that a kernel is given."""

    name: str
    #: Its words, if it is constant.
    words: Sequence[int] = ()
    #: Whether the kernel computes with its values: flags, not data.
    used: bool = False


@dataclass(frozen=True)
class Kernel:
    """A kernel of a PTX file."""

    #: An instruction's predicate, such as ``"!%p1"``, its name and its operands.
    instructions: Sequence[tuple[str, str, Sequence[str]]]
    labels: Mapping[str, int]

    @classmethod
    def parse(cls, text: str, entry: str) -> Kernel:
        """Return the kernel of this name."""
        body = re.sub(r"//[^\n]*", "", text[text.index(f".entry {entry}(") :])
        body = body[body.index("{") + 1 : body.index("\n}")]
        instructions: list[tuple[str, str, Sequence[str]]] = []
        labels: dict[str, int] = {}
        for part in re.split(r"[;{}]|(?<=:)\s", body):
            statement = part.strip()
            if statement.endswith(":"):
                labels[statement[:-1]] = len(instructions)
            elif statement and not statement.startswith("."):
                found = re.fullmatch(r"(?:@(\S+)\s+)?(\S+)\s*(.*)", statement)
                assert found is not None
                operands = [operand.strip() for operand in found[3].split(",") if operand.strip()]
                instructions.append((found[1] or "", found[2], operands))
        return cls(instructions, labels)

    def threads(
        self,
        arguments: Sequence[Argument],
        blocks: int,
        threads: int,
        block_before: int = 0,
        after: tuple[int, ...] = (),
    ) -> list[Thread]:
        """Return the threads of a launch; its first block has the number ``block_before``."""
        runs = self._runs(arguments, blocks, threads, _Part.WHOLE)
        return [Thread(run.run, block_before + run.block, 0, after) for run in runs]

    def early_threads(
        self,
        arguments: Sequence[Argument],
        blocks: int,
        threads: int,
        block_before: int,
        awaited: Sequence[int],
    ) -> list[Thread]:
        """Return the threads of a launch that begins early, each before its wait, then each after.

        ``awaited`` are the threads of the launches before, after which these are numbered.
        """
        before = self._runs(arguments, blocks, threads, _Part.BEFORE_WAIT)
        after = self._runs(arguments, blocks, threads, _Part.AFTER_WAIT)
        begun = len(awaited)
        return [
            *(Thread(run.run, block_before + run.block) for run in before),
            *(
                Thread(run.run, block_before + run.block, 0, (*awaited, begun + number))
                for number, run in enumerate(after)
            ),
        ]

    def _runs(
        self, arguments: Sequence[Argument], blocks: int, threads: int, part: _Part
    ) -> list[_Run]:
        return [
            _Run(self, arguments, block, (blocks, threads), thread, part)
            for block in range(blocks)
            for thread in range(threads)
        ]


class _Part(Enum):
    """The part of a kernel whose operations count: all, or those on a side of its wait."""

    WHOLE = auto()
    BEFORE_WAIT = auto()
    AFTER_WAIT = auto()


@dataclass(frozen=True)
class _Run:
    kernel: Kernel
    arguments: Sequence[Argument]
    block: int
    #: Blocks of the launch, and threads of a block.
    extents: tuple[int, int]
    thread: int
    part: _Part

    def run(self) -> Generator[Operation, Any, None]:
        """Yield the operations of the part; what comes before it is run for its registers."""
        operations = self._operations()
        counts, value = self.part is not _Part.AFTER_WAIT, None
        while True:
            try:
                operation = operations.send(value)
            except StopIteration:
                return
            value = None
            if operation is None:
                if self.part is _Part.BEFORE_WAIT:
                    return
                counts = True
            elif counts:
                value = yield operation

    def _operations(self) -> Generator[Operation | None, Any, None]:
        """Yield every operation, and None where the kernel waits for the launches before."""
        registers: dict[str, int | None] = {
            "%tid.x": self.thread,
            "%ctaid.x": self.block,
            "%nctaid.x": self.extents[0],
            "%ntid.x": self.extents[1],
        }
        place, polled = 0, None
        while place < len(self.kernel.instructions):
            predicate, name, operands = self.kernel.instructions[place]
            place += 1
            if predicate and bool(registers[predicate.lstrip("!")]) is predicate.startswith("!"):
                continue
            kind, *parts = name.split(".")
            match kind:
                case "bra":
                    place = self.kernel.labels[operands[0]]
                case "ret" | "exit":
                    return
                case "nanosleep" | "prefetch":
                    # A prefetch is a hint, and no access to memory.
                    pass
                case "griddepcontrol":
                    if parts[0] == "wait":
                        yield None
                case "fence" | "membar":
                    order = Order.SC if kind == "membar" else _ORDERS[parts[0]]
                    yield Fence(order, _SCOPES[parts[-1]])
                case "bar" | "barrier":
                    numbers = [_value(operand, registers) for operand in operands]
                    yield Barrier(*numbers)
                case "ld" if parts[0] == "param":
                    number = int(operands[1].rstrip("]").rsplit("_", 1)[1])
                    registers[operands[0]] = (number + 1) * _SPACING
                case "ld":
                    where, argument = self._place(parts, operands[1], registers)
                    if argument is not None and argument.words:
                        registers[operands[0]] = argument.words[int(where[-1])]
                        continue
                    if "nc" in parts:
                        raise ValueError(f"a load of {where} goes through the cache of constants")
                    used = argument is not None and argument.used
                    if used and where == polled:
                        # It has polled in vain, and would do so until it reads another value.
                        raise Blocked
                    polled = where
                    registers[operands[0]] = yield Load(where, *_strength(parts), used=used)
                case "st":
                    where, _ = self._place(parts, operands[0], registers)
                    value = _value(operands[1], registers)
                    polled = None
                    yield Store(where, value, *_strength(parts))
                case _:
                    registers[operands[0]] = _computed(kind, parts, operands, registers)

    def _place(
        self, parts: Sequence[str], operand: str, registers: Mapping[str, int | None]
    ) -> tuple[Place, Argument | None]:
        """Return what an address is of, and the argument that it lies in."""
        base, _, offset = operand.strip("[]").partition("+")
        address = _value(base, registers) + int(offset or 0)
        if "shared" in parts:
            return ("shared", self.block, address // WORD), None
        number, offset_inside = divmod(address, _SPACING)
        argument = self.arguments[number - 1]
        return (argument.name, offset_inside // WORD), argument


def _strength(parts: Sequence[str]) -> tuple[Order, Scope]:
    order = next((_ORDERS[part] for part in parts if part in _ORDERS), Order.WEAK)
    return order, next((_SCOPES[part] for part in parts if part in _SCOPES), Scope.SYSTEM)


def _value(operand: str, registers: Mapping[str, int | None]) -> int:
    if re.fullmatch(r"-?\d+", operand):
        return int(operand)
    # Any other name is the place of an array in shared memory: the first.
    value = registers[operand] if operand.startswith("%") else 0
    if value is None:
        raise ValueError(f"the kernel computes with data: {operand}")
    return value


def _computed(
    kind: str, parts: Sequence[str], operands: Sequence[str], registers: Mapping[str, int | None]
) -> int:
    """Return the result of an instruction on integers or predicates."""
    first, *others = (_value(operand, registers) for operand in operands[1:])
    width = 64 if parts[-1].endswith("64") or "wide" in parts else 32
    match kind:
        case "mov" | "cvt" | "cvta":
            return first
        case "not":
            return int(not first) if parts[-1] == "pred" else ~first
        case "setp":
            as_read = parts[-1]
            a, b = (_wrapped(value, as_read) for value in (first, *others))
            return int(_COMPARED[parts[0]](a, b))
        case "selp":
            return first if others[1] else others[0]
        case "mad":
            return _wrapped(first * others[0] + others[1], f"s{width}")
        case _ if kind in _BINARY:
            type_ = f"s{width}" if parts[-1].startswith(("b", "pred")) else parts[-1]
            sign = type_[0]
            a = _wrapped(first, type_)
            return _wrapped(_BINARY[kind](a, others[0]), f"{sign}{width}")
        case _:
            raise ValueError(f"the instruction {kind} is not known")


def _wrapped(value: int, kind: str) -> int:
    """Return an integer as a type such as ``"u32"`` holds it."""
    width = int(kind[1:])
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] != "u" and value >> (width - 1) else value
