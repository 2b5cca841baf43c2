"""Random programs of loops, branches, scans and sequences, nested in each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from onnx import parser

_HEAD = """
    <ir_version: 8, opset_import: ["" : 17]>
    drawn (float[3, 4] x) => (float[3, 4] y, float[3, 4] z)
    <int64[1] axis = {0}, int64 zero = {0}, int64 two = {2}, int64 three = {3}, int64 last = {-1},
     bool yes = {1}, float half = {0.1}>
"""


def random_program(seed: int) -> Any:
    """A model with two outputs, every value of which is of (3, 4), and known beforehand."""
    program = _Program(Random(seed))
    lines, values = program.block(["x"], ["zero", "two", "three"], depth=3, most=6)
    other = program.random.choice(values)
    lines += [f"y = Tanh ({values[-1]})", f"z = Tanh ({other})"]
    return parser.parse_model(f"{_HEAD} {{ {' '.join(lines)} }}")


class _Program:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        self.lines: list[str] = []

    def block(
        self, values: Sequence[str], numbers: Sequence[str], depth: int, most: int
    ) -> tuple[list[str], list[str]]:
        """Lines, and the values that are there after them; ``numbers`` are known integers."""
        outer, self.lines = self.lines, []
        scope = list(values)
        kinds: list[Callable[..., str]] = [self._unary, self._binary, self._by_number]
        if depth:
            kinds += [self._loop, self._while, self._if, self._choice, self._scan, self._sequence]
        for _ in range(self.random.randint(1, most)):
            scope.append(self.random.choice(kinds)(scope, numbers, depth - 1))
        lines, self.lines = self.lines, outer
        return lines, scope

    def _new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _op(self, expression: str) -> str:
        name = self._new()
        self.lines.append(f"{name} = {expression}")
        return name

    def _any(self, names: Sequence[str]) -> str:
        return self.random.choice(names)

    def _unary(self, values: Sequence[str], *_: Any) -> str:
        return self._op(f"{self._any(['Relu', 'Tanh', 'Sin', 'Neg'])} ({self._any(values)})")

    def _binary(self, values: Sequence[str], *_: Any) -> str:
        kind = self._any(["Add", "Mul", "Sub", "Max"])
        return self._op(f"{kind} ({self._any(values)}, {self._any(values)})")

    def _by_number(self, values: Sequence[str], numbers: Sequence[str], *_: Any) -> str:
        number = self._op(f"Cast <to = 1> ({self._any(numbers)})")
        return self._op(f"Mul ({self._any(values)}, {number})")

    def _loop(self, values: Sequence[str], numbers: Sequence[str], depth: int) -> str:
        step, goes, before, still, after, row, rows, end = (self._new() for _ in range(8))
        body, inner = self.block([*values, before], [*numbers, step], depth, 3)
        count = self._op(f"Constant <value = int64 {{{self.random.randint(1, 3)}}}> ()")
        body += [f"{still} = Identity ({goes})"]
        body += [f"{name} = Identity ({self._any(inner)})" for name in (after, row)]
        condition = self._any(["yes", '""'])
        self.lines.append(
            f"{end}, {rows} = Loop ({count}, {condition}, {self._any(values)}) <body = g "
            f"(int64 {step}, bool {goes}, float[3, 4] {before}) => "
            f"(bool {still}, float[3, 4] {after}, float[3, 4] {row}) {{ {' '.join(body)} }}>"
        )
        return self._op(f"Add ({end}, {self._op(f'ReduceSum <keepdims = 0> ({rows}, axis)')})")

    def _while(self, values: Sequence[str], numbers: Sequence[str], depth: int) -> str:
        """Until a counter says so, and at most three times."""
        step, goes, before, still, after, old, new, end, result = (self._new() for _ in range(9))
        body, inner = self.block([*values, before], [*numbers, step], depth, 3)
        limit = self._op(f"Constant <value = int64 {{{self.random.randint(-1, 5)}}}> ()")
        body += [f"{new} = Add ({old}, two)", f"{still} = Less ({new}, {limit})"]
        body += [f"{after} = Identity ({self._any(inner)})"]
        most = self._any(["three", '""'])
        self.lines.append(
            f"{end}, {result} = Loop ({most}, yes, zero, {self._any(values)}) <body = g "
            f"(int64 {step}, bool {goes}, int64 {old}, float[3, 4] {before}) => "
            f"(bool {still}, int64 {new}, float[3, 4] {after}) {{ {' '.join(body)} }}>"
        )
        return result

    def _if(self, values: Sequence[str], numbers: Sequence[str], depth: int) -> str:
        """By numbers that are known."""
        condition = self._op(f"Less ({self._any(numbers)}, {self._any(numbers)})")
        return self._branches(condition, values, numbers, depth)

    def _choice(self, values: Sequence[str], numbers: Sequence[str], _: int) -> str:
        """By data."""
        mean = self._op(f"ReduceMean <keepdims = 0> ({self._any(values)})")
        return self._branches(self._op(f"Less ({mean}, half)"), values, numbers, 0)

    def _branches(
        self, condition: str, values: Sequence[str], numbers: Sequence[str], depth: int
    ) -> str:
        branches: list[str] = []
        for which in ("then", "else"):
            result = self._new()
            body, inner = self.block(values, numbers, depth, 2)
            body.append(f"{result} = Identity ({self._any(inner)})")
            text = f"{which}_branch = {which} () => (float[3, 4] {result}) {{ {' '.join(body)} }}"
            branches.append(text)
        return self._op(f"If ({condition}) <{', '.join(branches)}>")

    def _scan(self, values: Sequence[str], *_: Any) -> str:
        """Over rows or columns, from either end, written from either end."""
        by_columns = self.random.randint(0, 1)
        length = 3 if by_columns else 4
        start = self._op(f"ReduceMax <axes = [{by_columns}], keepdims = 0> ({self._any(values)})")
        before, read, both, after, made, end, rows = (self._new() for _ in range(7))
        ways = [self.random.randint(0, 1) for _ in range(2)]
        axes = [by_columns - 2 * self.random.randint(0, 1) for _ in range(2)]
        self.lines.append(
            f"{end}, {rows} = Scan <num_scan_inputs = 1, scan_input_axes = [{axes[0]}], "
            f"scan_input_directions = [{ways[0]}], scan_output_axes = [{axes[1]}], "
            f"scan_output_directions = [{ways[1]}], body = g "
            f"(float[{length}] {before}, float[{length}] {read}) => "
            f"(float[{length}] {after}, float[{length}] {made}) {{ "
            f"{both} = {self._any(['Add', 'Sub', 'Mul'])} ({before}, {read}) "
            f"{after} = Tanh ({both}) {made} = Add ({after}, {read}) }}> "
            f"({start}, {self._any(values)})"
        )
        axis = self._op(f"Constant <value = int64[1] {{{by_columns}}}> ()")
        return self._op(f"Add ({rows}, {self._op(f'Unsqueeze ({end}, {axis})')})")

    def _sequence(self, values: Sequence[str], *_: Any) -> str:
        pair = self._op(f"SequenceConstruct ({self._any(values)}, {self._any(values)})")
        where = self._any(["zero", "last"])
        items = self._op(f"SequenceInsert ({pair}, {self._any(values)}, {where})")
        item = self._op(f"SequenceAt ({items}, {self._any(['zero', 'two', 'last'])})")
        whole = self._op(f"ConcatFromSequence <axis = 0, new_axis = 1> ({items})")
        mean = self._op(f"ReduceMean <axes = [0], keepdims = 0> ({whole})")
        return self._op(f"Add ({item}, {mean})")
