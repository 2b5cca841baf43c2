"""Choose each convolution's channel blocks for the least time of kernels and transforms together.

AutoTVM times a convolution by itself, and TVM takes the fastest. Where neighbours then disagree,
data are transformed between them, which may take longer than their kernels save. So the choice is
made for the whole network, as the graph tuner of Liu et al. makes it ("Optimizing CNN Model
Inference on CPUs", ATC 2019): among the log's configurations of each convolution and TVM's default,
with the cost of the transforms that ``AlterOpLayout`` inserts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.relay.expressions import arguments, operator_name, post_order, static_shape
from relay_passes.relay.layouts.blocked_convolutions import (
    Block,
    BlockChoice,
    Way,
    block_of,
    convolution_ways,
)
from relay_passes.relay.layouts.transforms import transform_of
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.solvers.pbqp import ChoiceProblem, Costs, cheapest

#: Costs of a transform on one thread: seconds to begin, and bytes per second, read and written,
#: from or to whole channels, and between blocks. TVM's took 6 to 50 and 17 to 80 GB/s.
_BEGIN_SECONDS, _BYTES_PER_SECOND = 2e-6, {True: 10e9, False: 25e9}


def choose_blocks(main: relay.Function, target: tvm.target.Target, log: AutotvmLog) -> BlockChoice:
    """Return the configuration to which each convolution is to be altered, by its attributes.

    ``main`` has inferred types and the model's layouts, ``target`` is a CPU, and ``log`` has
    records for it.
    """
    network = _Network(main, lambda call: convolution_ways(call, target, log))
    choices = cheapest(network.problem())
    if not choices.proven:
        default = cheapest(network.problem(default=True))
        choices = min(choices, default, key=lambda c: c.cost)
    return {
        attrs: network.ways[variable][choices.values[variable]].config
        for attrs, variable in network.convolutions.items()
    }


class _Network:
    """The choice problem of a function: operators are variables, ways to compute them their values.

    Operators between convolutions get layouts as from ``AlterOpLayout``: that of their first input
    if they support it, a concatenation that of all its inputs, and otherwise the model's. A tensor
    with several readers is a variable too, because it may be transformed once for all of them (see
    :class:`relay_passes.relay.layouts.cut.Cut`).

    Attributes
    ----------
    ways
        The ways to compute each variable's operator.
    convolutions
        The variables of convolutions, by the attributes of their calls.
    """

    def __init__(self, main: relay.Function, ways: Callable[[relay.Call], Sequence[Way]]) -> None:
        self.ways: list[Sequence[Way]] = []
        self.convolutions: dict[Any, int] = {}
        self._tables: dict[tuple[int, int], Costs] = {}
        #: The variable that makes each expression, and its readers with their rules.
        self._maker: dict[Any, int] = {}
        self._readers: dict[Any, list[tuple[int, _Rule | None]]] = {}
        for parameter in main.params:
            blocked = len(parameter.checked_type.shape) == 5
            block = int(parameter.checked_type.shape[-1]) if blocked else 0
            self._maker[parameter] = self._variable([Way(block, block)])
        for expression in post_order(main):
            if isinstance(expression, relay.TupleGetItem):
                self._maker[expression] = self._maker[expression.tuple_value]
            elif isinstance(expression, relay.Call):
                self._maker[expression] = self._call(expression, ways)
        results = main.body.fields if isinstance(main.body, relay.Tuple) else [main.body]
        for result in self._data(results):
            how = transform_of(result)
            block = block_of(how[1]) if how else 0
            end = self._variable([Way(block, block)])
            self._read(result.args[0] if how else result, end, None)
        for value, readers in self._readers.items():
            self._connect(value, readers, fixed=self._maker[value] < len(main.params))

    def problem(self, *, default: bool = False) -> ChoiceProblem:
        """Return the choice problem, with TVM's own blocks of all convolutions if ``default``."""
        alone = [np.array([way.seconds for way in ways]) for ways in self.ways]
        if default:
            for variable in self.convolutions.values():
                alone[variable][[not way.default for way in self.ways[variable]]] = inf
        return ChoiceProblem(alone, self._tables)

    def _call(self, call: relay.Call, ways: Callable[[relay.Call], Sequence[Way]]) -> int:
        data = self._data(arguments(call))
        if transform_of(call) is not None:
            return self._maker[data[0]]  # A later transform replaces it.
        if operator_name(call) == "nn.conv2d" and (blocked_ways := ways(call)):
            number = self.convolutions[call.attrs] = self._variable(blocked_ways)
            for value in data:
                self._read(value, number, _any)
            return number
        possible = {way.makes for value in data for way in self.ways[self._maker[value]]}
        passed = [block for block in sorted(possible - {0}) if _passes(call, block)]
        number = self._variable([Way(block, block) for block in (0, *passed)])
        joins = operator_name(call) == "concatenate"
        for place, value in enumerate(data):
            self._read(value, number, _all_alike if joins else _any if place else _the_same)
        return number

    def _data(self, values: Sequence[Any]) -> list[Any]:
        """Return the values that are not constants."""
        return [value for value in values if value in self._maker]

    def _variable(self, ways: Sequence[Way]) -> int:
        self.ways.append(ways)
        return len(self.ways) - 1

    def _read(self, value: Any, reader: int, rule: _Rule | None) -> None:
        self._readers.setdefault(value, []).append((reader, rule))

    def _connect(
        self, value: Any, readers: Sequence[tuple[int, _Rule | None]], *, fixed: bool
    ) -> None:
        """Add transform costs between a value's maker and its readers; inputs are ``fixed``."""
        maker = stored = self._maker[value]
        seconds = partial(transform_seconds, value)
        if len(readers) > 1 and not fixed:
            blocks = {way.makes for way in self.ways[maker]}
            blocks |= {way.reads for reader, _ in readers for way in self.ways[reader]}
            stored = self._variable([Way(block, block) for block in sorted(blocks)])
            self._add(maker, stored, seconds)
        for reader, rule in readers:
            if rule is not None:
                possible = {way.reads for way in self.ways[reader]}
                allowed = partial(rule, possible)
                self._add(maker, reader, lambda *b, allowed=allowed: 0.0 if allowed(*b) else inf)
            # A result is stored as it is returned: its readers transform it.
            stays = rule is None and stored != maker
            self._add(stored, reader, _no_transform if stays else seconds)

    def _add(self, first: int, second: int, cost: Callable[[Block, Block], float]) -> None:
        table = [[cost(a.makes, b.reads) for b in self.ways[second]] for a in self.ways[first]]
        self._tables[first, second] = self._tables.get((first, second), 0.0) + np.array(table)


#: Whether an operator that supports certain blocks reads a tensor that has some blocks (the
#: second argument) in others (the third). Results of the function have no rule.
_Rule = Callable[[Set[Block], Block, Block], bool]


def _any(possible: Set[Block], have: Block, want: Block) -> bool:
    return True


def _the_same(possible: Set[Block], have: Block, want: Block) -> bool:
    return want == (have if have in possible else 0)


def _all_alike(possible: Set[Block], have: Block, want: Block) -> bool:
    return want in (0, have)


def transform_seconds(value: Any, have: Block, want: Block) -> float:
    """Return the estimated seconds to transform a tensor from one channel block to another."""
    if have == want:
        return 0.0
    size = prod(static_shape(value)) * np.dtype(value.checked_type.dtype).itemsize
    return _BEGIN_SECONDS + 2 * size / _BYTES_PER_SECOND[0 in (have, want)]


def _no_transform(have: Block, want: Block) -> float:
    return 0.0 if have == want else inf


def _passes(call: relay.Call, block: Block) -> bool:
    """Return whether an operator computes in such blocks if its inputs have them."""
    infer = call.op.get_attr("FInferCorrectLayout") if isinstance(call.op, tvm.ir.Op) else None
    if infer is None:
        return False
    blocked, plain = tvm.tir.layout(f"NCHW{block}c"), tvm.tir.layout("NCHW")
    leaves = arguments(call)
    varies = [not isinstance(leaf, relay.Constant) for leaf in leaves]
    layouts = [blocked if varied else None for varied in varies]
    types = [argument.checked_type for argument in call.args]
    inferred = infer(call.attrs, layouts, [plain] * len(leaves), types)
    read = [layout for layout, varied in zip(inferred.input_layouts, varies, strict=True) if varied]
    return all(one and one.name == blocked.name for one in (*read, *inferred.output_layouts))
