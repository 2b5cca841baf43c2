"""Blocks of channels are chosen so that kernels and the transforms between them take least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import autotvm, relay

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.pipeline import prepare
from relay_passes.relay.expressions import operator_name, post_order
from relay_passes.relay.layouts import channel_blocks, choice
from relay_passes.relay.layouts.blocked_convolutions import block_of, convolution_ways
from relay_passes.relay.layouts.channel_blocks import choose_blocks, transform_seconds
from relay_passes.relay.layouts.choice import LayoutChoice
from relay_passes.relay.layouts.transforms import transform_of
from runtime_ext.relay.build import build
from runtime_ext.relay.library import host_target
from runtime_ext.relay.tuning_log import AutotvmLog, read_autotvm_log
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run
from tvm_ios.solvers.pbqp import ChoiceProblem, Choices, cheapest

TARGET = tvm.target.Target("llvm -mcpu=skylake-avx512 -num-cores=2")

#: Seconds of convolutions by (task, blocks that it reads, blocks that it makes).
Times = Callable[[int, int, int], float | None]


def write_log(module: tvm.IRModule, path: Path, times: Times, target: Any = TARGET) -> AutotvmLog:
    """A log with a record for each way to block channels that has a time."""
    tasks = autotvm.task.extract_from_program(module["main"], target=target, params={})
    lines: list[str] = []
    for number, task in enumerate(tasks):
        written: set[tuple[int, int]] = set()
        for index in range(len(task.config_space)):
            config = task.config_space.get(index)
            blocks = config["tile_ic"].size[-1], config["tile_oc"].size[-1]
            seconds = times(number, *blocks)
            if seconds is not None and blocks not in written:
                written.add(blocks)
                given = autotvm.MeasureInput(task.target, task, config)
                result = autotvm.MeasureResult((seconds,), 0, 0.1, 0.0)
                lines.append(autotvm.record.encode(given, result))
    path.write_text("\n".join(lines) + "\n")
    return read_autotvm_log(path, target)


def _chain(s: RelaySketch, x: Any) -> Any:
    y = relay.nn.relu(s.bias(s.conv(x, 8, 16), 16))
    y = s.conv(relay.nn.max_pool2d(y, (2, 2), (2, 2)), 16, 32)
    return relay.nn.relu(s.conv(relay.tanh(y), 32, 8))


def _residual(s: RelaySketch, x: Any) -> Any:
    y = relay.nn.relu(s.conv(x, 8, 16))
    z = relay.add(s.conv(y, 16, 16, (1, 1)), y)
    return s.conv(relay.nn.relu(z), 16, 32), relay.nn.batch_flatten(z)


def _joined(s: RelaySketch, x: Any) -> Any:
    parts = [relay.nn.relu(s.conv(x, 8, n)) for n in (16, 32)]
    return s.conv(relay.concatenate([*parts, x], axis=1), 56, 16, (1, 1))


def _parted(s: RelaySketch, x: Any) -> Any:
    parts = relay.split(s.conv(x, 8, 24), [8], axis=1)
    return relay.add(s.conv(parts[0], 8, 16), s.conv(parts[1], 16, 16, (1, 1)))


class Trial:
    """What units take as a choice has them: their kernels, and the transforms in them."""

    def __init__(self, module: tvm.IRModule, log: AutotvmLog, monkeypatch: Any) -> None:
        prepared = prepare(module)
        self._units = [prepared.outliner.unit(unit) for unit in range(len(prepared.units))]
        self._outliner = prepared.outliner.in_layouts(LayoutChoice(TARGET, log))
        self._put = monkeypatch.setattr
        #: How many ways each convolution has, once the first choice was tried.
        self.ways: list[int] = []

    def seconds(self, choose: Callable[..., Any] | None) -> float:
        """Of a choice: given the ways of each convolution the number of one; None is ours."""
        kernels = 0.0

        def noting(main: relay.Function, target: Any, log: AutotvmLog) -> Any:
            nonlocal kernels
            calls = [c for c in post_order(main) if operator_name(c) == "nn.conv2d"]
            ways = [convolution_ways(call, target, log) for call in calls]
            self.ways = list(map(len, ways))
            found = choose_blocks(main, target, log)
            if choose is not None:
                of = zip(calls, ways, choose(), strict=True)
                found = {call.attrs: own[number].config for call, own, number in of}
            for call, own in zip(calls, ways, strict=True):
                (way,) = (way for way in own if way.config is found[call.attrs])
                kernels += way.seconds
            return found

        self._put(choice, "choose_blocks", noting)
        units, _ = self._outliner.altered(self._units)
        return kernels + sum(_transform_seconds(unit.function) for unit in units)


def _transform_seconds(function: relay.Function) -> float:
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    calls = [call for call in post_order(typed) if transform_of(call)]
    blocks = [map(block_of, transform_of(call) or ()) for call in calls]
    return sum(transform_seconds(c.args[0], *b) for c, b in zip(calls, blocks, strict=True))


EVERY = [
    pytest.param(body, [(4, 16), (8, 8)], marks=pytest.mark.slow)
    for body in (_chain, _residual, _joined, _parted)
]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "known"), [(_chain, [(4, 16)]), *EVERY])
def test_no_other_choice_is_cheaper(
    body: Any, known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(task: int, reads: int, makes: int) -> float | None:
        # What is fastest alone does not fit to what is fastest after it.
        seconds = {(8, 8): 2e-6, (4, 16): 1e-6 * (task + 1)}
        return seconds[reads, makes] if (reads, makes) in known else None

    module = module_of([(1, 8, 6, 6)], body)
    trial = Trial(module, write_log(module, tmp_path / "log", times), monkeypatch)
    chosen = trial.seconds(None)
    every = [
        trial.seconds(lambda c=combination: c) for combination in product(*map(range, trial.ways))
    ]
    assert chosen == pytest.approx(min(every))
    assert min(every) < max(every)


def blocks_of(module: tvm.IRModule, log: Path) -> list[tuple[int, int]]:
    """The blocks of the convolutions of what a pass makes with a log."""
    options = SearchOptions(lanes=2, target=TARGET, database=log)
    made = IOSSchedule("sequential", options=options)(module)
    found: list[tuple[int, int]] = []
    relay.analysis.post_order_visit(made["main"], lambda e: found.extend(_blocks(e)))
    return found


def _blocks(expression: Any) -> list[tuple[int, int]]:
    if operator_name(expression) != "nn.contrib_conv2d_NCHWc":
        return []
    attrs = expression.attrs
    return [(block_of(attrs.data_layout), block_of(attrs.out_layout))]


@pytest.mark.parametrize(
    ("gain", "wanted"),
    [(1e-7, [(8, 16), (16, 16), (8, 8)]), (1e-4, [(8, 16), (4, 4), (8, 8)])],
)
def test_what_is_faster_alone_has_to_be_worth_its_transforms(
    gain: float, wanted: Any, tmp_path: Path
) -> None:
    """The log knows the one in the middle, in TVM's own blocks and faster in others."""

    def times(task: int, reads: int, makes: int) -> float | None:
        return {(16, 16): 2e-4, (4, 4): 2e-4 - gain}.get((reads, makes)) if task == 1 else None

    module = module_of([(1, 8, 6, 6)], _chain)
    write_log(module, tmp_path / "log", times)
    assert blocks_of(module, tmp_path / "log") == wanted


@pytest.mark.parametrize(
    "body", [_residual, *(pytest.param(b, marks=pytest.mark.slow) for b in (_chain, _joined))]
)
def test_what_runs_in_chosen_blocks_computes_the_same(body: Any, tmp_path: Path) -> None:
    """Neighbours disagree, and the log knows none in TVM's own blocks."""
    pairs, target = [(4, 8), (2, 16), (8, 4)], host_target(2)

    def times(task: int, *blocks: int) -> float | None:
        return 1e-3 if blocks == pairs[task] else None

    module = module_of([(1, 8, 6, 6)], body)
    log = write_log(module, tmp_path / "log", times, target)
    assert len(log.records) == len(pairs)
    options = SearchOptions(lanes=2, target=target, database=tmp_path / "log")
    made = IOSSchedule("greedy", options=options)(module)
    found: list[tuple[int, int]] = []
    relay.analysis.post_order_visit(made["main"], lambda e: found.extend(_blocks(e)))
    assert sorted(found) == sorted(pairs)
    session = build(made, target=target, lanes=2, log=tmp_path / "log").session()
    session.run(**inputs_of(module))
    outputs = [session.get_output(place) for place in range(len(session.outputs))]
    assert relative_error(outputs, run(module)) <= 1e-5


def test_tvm_is_asked_without_a_warning(tmp_path: Path) -> None:
    module = module_of([(1, 8, 5, 7)], lambda s, x: s.conv(x, 8, 16))
    log = write_log(module, tmp_path / "log", lambda task, *blocks: 1e-4)
    warned = set(autotvm.task.DispatchContext.warning_messages)
    (config,) = choose_blocks(module["main"], TARGET, log).values()
    assert config is not None
    assert autotvm.task.DispatchContext.warning_messages == warned


def test_what_is_not_proven_is_no_dearer_than_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of([(1, 8, 6, 6)], _chain)
    log = write_log(module, tmp_path / "log", lambda task, *blocks: 1e-6 * (blocks != (16, 16)))
    solved: list[Choices] = []

    def narrowly(problem: ChoiceProblem) -> Choices:
        solved.append(replace(cheapest(problem), cost=2.0 - len(solved), proven=False))
        return solved[-1]

    monkeypatch.setattr(channel_blocks, "cheapest", narrowly)
    chosen = choose_blocks(module["main"], TARGET, log)
    convolutions = [c for c in post_order(module["main"]) if operator_name(c) == "nn.conv2d"]
    for call in convolutions:
        ways = convolution_ways(call, TARGET, log)
        (default,) = (way for way in ways if way.default)
        assert chosen[call.attrs] is default.config
    assert len(solved) == 2


def test_a_kernel_is_built_as_the_log_has_it_for_its_blocks(tmp_path: Path) -> None:
    """Not as it has it for others, and where it has none as TVM does without a log."""
    module = module_of([(1, 16, 6, 6)], lambda s, x: s.conv(x, 16, 16, (1, 1)))
    made = IOSSchedule("sequential", options=SearchOptions(lanes=2, target=TARGET))(module)

    def code(times: Times) -> str:
        write_log(module, tmp_path / "log", times)
        built = build(made, target=TARGET, lanes=2, log=tmp_path / "log")
        return str(built.kernels.factory.get_lib().get_source("asm"))

    plain = build(made, target=TARGET, lanes=2).kernels.factory.get_lib().get_source("asm")
    assert code(lambda task, *blocks: 1e-4 if blocks == (8, 8) else None) == plain
    assert code(lambda task, *blocks: 1e-4 if blocks == (16, 16) else None) != plain
