"""ExecuTorch's programs, planned by us: fewer bytes, and the same outputs in its own runtime."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.docs.not_run import reason_not_to_run
from tests.docs.pages import ROOT, commands, python_of
from tests.docs.scratch import Scratch
from tests.refusals import refused
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.op_graph import bits
from tvm_ios.memory import Bank
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.planning import BankPlan, Plan
from tvm_ios.memory.problem import MemoryProblem

torch: Any = pytest.importorskip("torch")
pytest.importorskip("executorch")

from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: E402
from executorch.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.delegate import executorch_call_delegate  # noqa: E402
from executorch.exir.dialects._ops import ops as exir_ops  # noqa: E402
from executorch.exir.memory_planning import (  # noqa: E402
    Verifier,
    collect_specs_from_nodes,
    get_node_tensor_specs,
)
from executorch.exir.pass_base import PassResult  # noqa: E402
from executorch.exir.passes import MemoryPlanningPass  # noqa: E402
from executorch.exir.schema import DeviceType  # noqa: E402
from executorch.exir.tensor import TensorSpec  # noqa: E402
from executorch.runtime import Runtime  # noqa: E402

from benchmarks.memory.executorch_models import MODELS, example  # noqa: E402
from tvm_ios.memory import executorch as planning  # noqa: E402
from tvm_ios.memory.executorch import LeastMemory, PlannedGraph  # noqa: E402
from tvm_ios.memory.executorch_steps import steps_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
#: What the planner may be told to leave to the program that calls.
KINDS = ("graph_input", "graph_output", "mutable_buffers")


class Module(torch.nn.Module):
    """A module of one function, and a buffer that it may change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.zeros(4, 64))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.kept, *inputs)


def made(program: Any, algorithm: Any, **options: Any) -> Any:
    """The executable program, planned by an algorithm (None for ExecuTorch's)."""
    memory = MemoryPlanningPass(memory_planning_algo=algorithm, **options)
    config = ExecutorchBackendConfig(
        memory_planning_pass=memory,
        # It wants names of buffers that it does not place.
        emit_mutable_buffer_names=not memory.alloc_mutable_buffers,
    )
    return program.to_executorch(config)


def arenas(program: Any) -> list[int]:
    return program.executorch_program.execution_plan[0].non_const_buffer_sizes


def outputs(program: Any, inputs: tuple[Any, ...], calls: int = 2) -> list[Any]:
    """What some calls return, one after another."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    return [each.clone() for _ in range(calls) for each in method.execute(inputs)]


def planned_beside_greedy(
    model: Any, inputs: tuple[Any, ...], planner: LeastMemory, **options: Any
) -> tuple[PlannedGraph, list[Any]]:
    """The plan and the outputs of some calls, of which all must fit to those by greedy."""
    exported = torch.export.export(model, inputs)
    theirs = made(to_edge(exported), None, **options)
    ours = made(to_edge(exported), planner, **options)
    results = outputs(ours, inputs)
    for result, expected in zip(results, outputs(theirs, inputs), strict=True):
        assert torch.equal(result, expected)
    planned = planner.plans[-1]
    assert arenas(ours) == [*planned.arenas]
    assert planned.bound <= planned.nbytes <= planned.greedy <= sum(arenas(theirs))
    # Branches are smaller than greedy makes them.
    assert planned.greedy == sum(arenas(theirs)) or len(planner.plans) > 1
    require_verified(ours, **options)
    return planned, results


def require_verified(program: Any, **options: Any) -> None:
    """By ExecuTorch's verifier: only what is dead is written over, and all nodes are in order."""
    exported = program.exported_program()
    exported.graph_module.graph.lint()
    allocated = [options.get(f"alloc_{kind}", True) for kind in KINDS]
    verifier = Verifier(exported.graph_module, *allocated, exported.graph_signature)
    verifier.verify_storage_reuse()


@pytest.mark.parametrize("name", MODELS)
def test_ten_models_take_the_fewest_bytes_and_answer_the_same(name: str) -> None:
    model, inputs = example(name, 1)
    planned, results = planned_beside_greedy(model, inputs, LeastMemory())
    assert planned.proven
    assert torch.allclose(results[0], model(*inputs), atol=1e-5)


def test_the_order_alone_halves_the_bytes_of_wide_branches() -> None:
    model, inputs = wide_branches()
    planned, _ = planned_beside_greedy(model, inputs, LeastMemory())
    as_it_was, _ = planned_beside_greedy(model, inputs, LeastMemory(reorder=False))
    assert planned.proven
    assert planned.reordered
    assert planned.nbytes * 2 < planned.greedy
    assert not as_it_was.reordered
    assert as_it_was.nbytes == as_it_was.bound == planned.greedy


def wide_branches() -> tuple[Any, tuple[Any, ...]]:
    """Four wide tensors that are all made before the first of them is read."""

    def function(kept: Any, x: Any) -> Any:
        wide = [torch.outer(x, x + n) for n in range(4)]
        return torch.stack([each.sum(0) for each in wide])

    return Module(function), (torch.randn(32),)


def test_any_order_that_is_allowed_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers are read, written and read again, also by way of views."""

    def function(kept: Any, x: Any) -> Any:
        before = kept * 2
        first, second = x.chunk(2, 1)
        kept.add_(first)
        between = kept.view(64, 4).sum(1)
        kept.mul_(second)
        largest, place = (first @ kept.transpose(0, 1)).max(1)
        return before, between, kept.exp(), largest + place

    inputs = (torch.randn(4, 128),)
    exported = torch.export.export(Module(function), inputs)
    expected = outputs(made(to_edge(exported), None), inputs)
    orders: set[tuple[int, ...]] = set()
    for seed in range(12):
        # As if it were the best.
        monkeypatch.setattr(planning, "schedule_optimal", scheduler_of_any_order(seed, orders))
        # With a choice of banks, it is taken whether it saves bytes or not.
        planner = LeastMemory(banks={1: Bank("near"), 2: Bank("far", cost=2)})
        program = made(to_edge(exported), planner)
        assert planner.plans[0].reordered
        require_verified(program)
        results = outputs(program, inputs)
        assert all(map(torch.equal, results, expected))
    assert len(orders) > 6


def scheduler_of_any_order(seed: int, orders: set[tuple[int, ...]]) -> Any:
    """A scheduler that returns a random order, and says that it needs no memory."""

    def schedule(problem: MemoryProblem, time_limit: float) -> MemoryOrder:
        order = any_order(problem, random.Random(seed))
        orders.add(order)
        return MemoryOrder(order, 0, 0, True, time_limit, len(problem), len(problem))

    return schedule


def any_order(problem: MemoryProblem, rng: random.Random) -> tuple[int, ...]:
    order: list[int] = []
    while len(order) < len(problem):
        ready = (n for n in range(len(problem)) if {*bits(problem.predecessors[n])} <= {*order})
        order.append(rng.choice([n for n in ready if n not in order]))
    return tuple(order)


@pytest.mark.parametrize("name", ["inception", "randwire", "streaming"])
def test_peaks_are_those_of_the_lifetimes_that_executorch_counts(name: str) -> None:
    """Of any order, so that the bound holds for all of them."""
    model, inputs = example(name, 1)
    program = made(to_edge(torch.export.export(model, inputs)), None).exported_program()
    module, signature = program.graph_module, program.graph_signature
    specs = {*collect_specs_from_nodes(module.graph.nodes, signature, do_assertion=False)}
    steps = steps_of(module.graph, specs)
    for seed in range(5):
        order = any_order(steps.problem, random.Random(seed))
        planning._arrange(module, signature, steps.in_order(order))
        peak = max(
            sum(spec.allocated_memory for spec in specs if first(spec) <= step <= last(spec))
            for step in range(len(module.graph.nodes))
        )
        assert peak == steps.problem.footprints(order).peak


def first(spec: Any) -> int:
    return spec.lifetime[0]


def last(spec: Any) -> int:
    return spec.lifetime[1]


@pytest.mark.parametrize(
    "options",
    [
        {"alloc_graph_input": False},
        {"alloc_graph_output": False},
        {"alloc_graph_input": False, "alloc_graph_output": False},
        {"alloc_mutable_buffers": False},
        {"alignment": 64},
    ],
    ids=str,
)
def test_options_of_the_pass_stay_its_own(options: dict[str, Any]) -> None:
    def function(kept: Any, x: Any) -> Any:
        kept.add_(x)
        return (kept * 2).sum(0, keepdim=True), x.exp()[:, :5]

    exported = torch.export.export(Module(function), (torch.randn(4, 64),))
    theirs, planner = made(to_edge(exported), None, **options), LeastMemory()
    ours = made(to_edge(exported), planner, **options)
    require_verified(ours, **options)
    assert sum(arenas(ours)) <= sum(arenas(theirs)) == planner.plans[0].greedy
    offsets = [
        spec.mem_offset
        for node in ours.exported_program().graph.nodes
        for spec in get_node_tensor_specs(node)
        if spec.mem_offset is not None
    ]
    assert offsets
    assert all(offset % options.get("alignment", 16) == 0 for offset in offsets)


def test_shapes_of_a_range_get_room_for_the_largest() -> None:
    rows = torch.export.Dim("rows", min=2, max=32)

    def function(kept: Any, x: Any) -> Any:
        wide = [torch.outer(row, row) for row in (x, x + 1, x + 2)]
        return torch.stack([each.sum(0) for each in wide]).reshape(-1)

    exported = torch.export.export(
        Module(function), (torch.randn(8),), dynamic_shapes={"inputs": ({0: rows},)}
    )
    theirs, planner = made(to_edge(exported), None), LeastMemory()
    ours = made(to_edge(exported), planner)
    require_verified(ours)
    assert 32 * 32 * 4 < planner.plans[0].nbytes < sum(arenas(theirs)) / 2
    for count in (2, 13, 32):
        inputs = (torch.randn(count),)
        assert all(map(torch.equal, outputs(ours, inputs), outputs(theirs, inputs)))


def test_branches_are_planned_below_the_graph_around_them() -> None:
    def wide(x: Any) -> Any:
        all_of_it = [x.transpose(0, 1) @ (x + n) for n in range(3)]
        return torch.stack([each.sum(0) for each in all_of_it])

    def narrow(x: Any) -> Any:
        return x.cos()

    def function(kept: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, wide, narrow, (x * 2,)) + x.abs()

    for sign in (1, -1):
        planner = LeastMemory()
        inputs = (sign * torch.rand(3, 32),)
        around, _ = planned_beside_greedy(Module(function), inputs, planner)
        by_name = sorted(planner.plans[:2], key=lambda planned: planned.nbytes)
        assert [planned.reordered for planned in by_name] == [False, True]
        assert around.nbytes == around.bound > by_name[1].nbytes > 32 * 32 * 4


def test_bodies_of_loops_are_planned_too() -> None:
    def body(x: Any, y: Any) -> Any:
        return (torch.outer(x, x).exp() @ y).sin()

    def function(kept: Any, rows: Any, y: Any) -> Any:
        return torch._higher_order_ops.map(body, rows * 2, y) + 1

    planner = LeastMemory()
    inputs = (torch.randn(3, 8), torch.randn(8))
    planned_beside_greedy(Module(function), inputs, planner)
    assert len(planner.plans) == 2


def test_a_graph_on_two_devices_stays_in_its_order() -> None:
    class Spread(MemoryPlanningPass):
        """Puts all products on another device."""

        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if node.target is torch.ops.aten.mul.out:
                    node.meta["spec"].device = DeviceType.CUDA
            return super().run(graph_module, graph_signature)

    model, inputs = wide_branches()
    planner = LeastMemory()
    program = to_edge(torch.export.export(model, inputs)).to_executorch(
        ExecutorchBackendConfig(memory_planning_pass=Spread(planner))
    )
    require_verified(program)
    on_cpu, on_cuda = planner.plans
    assert not on_cpu.reordered
    assert not on_cuda.reordered
    assert arenas(program) == [0, on_cpu.nbytes, on_cuda.nbytes]


def test_what_xnnpack_takes_is_one_operator() -> None:
    def function(kept: Any, x: Any) -> Any:
        wide = [torch.cumsum(row @ row.transpose(0, 1), 0) for row in (x, x * 2, x * 3)]
        return torch.stack([each.sum(0) for each in wide])

    inputs = (torch.randn(32, 8),)
    exported = torch.export.export(Module(function), inputs)
    programs: list[Any] = []
    planner = LeastMemory()
    for algorithm in (None, planner):
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        programs.append(made(lowered, algorithm))
    theirs, ours = programs
    require_verified(ours)
    assert any(
        node.target is executorch_call_delegate for node in ours.exported_program().graph.nodes
    )
    assert sum(arenas(ours)) < sum(arenas(theirs)) == planner.plans[0].greedy
    assert planner.plans[0].proven
    assert all(map(torch.equal, outputs(ours, inputs), outputs(theirs, inputs)))


def test_methods_share_a_buffer() -> None:
    """ExecuTorch places it after all methods, in an arena of its own."""

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.kept.add_(x)
            return self.kept * 2

    class Reset(Counter):
        def forward(self, x: Any) -> Any:
            self.kept.copy_(x)
            return self.kept + 0

    x, counter, reset = torch.ones(4), Counter(), Reset()
    reset.kept = counter.kept
    methods = {"forward": counter, "reset": reset}
    exported = {name: torch.export.export(each, (x,)) for name, each in methods.items()}
    planner = LeastMemory()
    program = made(to_edge(exported), planner, share_mutable_buffers=True)
    assert len(planner.plans) == 2
    assert arenas(program) == [0, planner.plans[0].nbytes, 16]
    loaded = Runtime.get().load_program(program.buffer)
    assert loaded.load_method("reset").execute((x,))[0].tolist() == [1.0] * 4


def test_banks_are_filled_and_not_overfilled() -> None:
    model, inputs = wide_branches()
    exported = torch.export.export(model, inputs)
    expected = outputs(made(to_edge(exported), None), inputs)
    planner = LeastMemory(banks={1: Bank("SRAM", 2048), 3: Bank("DRAM", cost=4)})
    program = made(to_edge(exported), planner)
    require_verified(program)
    assert all(map(torch.equal, outputs(program, inputs), expected))
    sram, none, dram = arenas(program)[1:]
    assert 0 < sram <= 2048
    assert none == 0
    assert dram == 32 * 32 * 4
    with refused(MemoryBudgetError, "SRAM", "2,048"):
        made(to_edge(exported), LeastMemory(banks={1: Bank("SRAM", 2048)}))


def test_an_arena_that_a_pass_has_chosen_is_kept() -> None:
    class Pinned(MemoryPlanningPass):
        """Puts all products into the arena 2."""

        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if node.target is torch.ops.aten.mm.out:
                    node.meta["spec"].mem_id = 2
            return super().run(graph_module, graph_signature)

    def function(kept: Any, x: Any) -> Any:
        return ((x @ x).exp() @ x).sin()

    inputs = (torch.randn(16, 16),)
    exported = torch.export.export(Module(function), inputs)
    programs = [
        to_edge(exported).to_executorch(
            ExecutorchBackendConfig(memory_planning_pass=Pinned(memory_planning_algo=algorithm))
        )
        for algorithm in (None, LeastMemory())
    ]
    assert arenas(programs[0]) == arenas(programs[1]) == [0, 2048, 1024]
    require_verified(programs[1])
    assert all(map(torch.equal, *(outputs(program, inputs) for program in programs)))


def test_what_is_written_in_place_is_read_in_the_same_order() -> None:
    """Also where nothing but the memory connects the operators."""
    graph, spec = torch.fx.Graph(), TensorSpec.from_tensor(torch.zeros(4))
    x = graph.placeholder("x")
    aten = torch.ops.aten
    for target, argument in (
        *((aten.exp.default, ()), (aten.add_.Tensor, (1,))),
        *((aten.exp.default, ()), (aten.mul_.Tensor, (2,))),
    ):
        node = graph.call_function(target, (x, *argument))
        node.meta["spec"] = spec if argument else TensorSpec.from_tensor(torch.zeros(4))
    x.meta["spec"] = spec
    assert steps_of(graph, ()).problem.predecessors == (0b0, 0b1, 0b10, 0b110)


def test_random_numbers_are_drawn_in_the_same_order() -> None:
    def function(kept: Any, x: Any) -> Any:
        return torch.rand(3), torch.randn(3), x.exp()

    graph = torch.export.export(Module(function), (torch.randn(4),)).graph
    assert steps_of(graph, ()).problem.predecessors == (0b0, 0b1, 0b0)


def test_what_is_written_in_place_lives_until_it_is_read() -> None:
    """ExecuTorch 1.5.1 frees it after the operator that writes, and its outputs are wrong."""

    def function(kept: Any, x: Any, at: Any, rows: Any) -> Any:
        written = x.exp().index_put((at,), rows)
        return x.sin().cos().tanh() + written

    inputs = (torch.randn(8, 16), torch.tensor([1, 3]), torch.randn(2, 16))
    module = Module(function)
    config = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(LeastMemory()), run_reinplace_pass=True
    )
    program = to_edge(torch.export.export(module, inputs)).to_executorch(config)
    assert "index_put_" in str(program.exported_program().graph)
    require_verified(program)
    assert torch.allclose(outputs(program, inputs)[0], module(*inputs), atol=1e-5)


def test_results_that_a_pass_lays_over_an_input_stay_there() -> None:
    def mark(graph_module: Any) -> Any:
        """Have every exponential written over its argument, which nothing reads later."""
        for node in graph_module.graph.nodes:
            if node.target is exir_ops.edge.aten.exp.default:
                node.meta["_share_alloc_with_arg_idx"] = 0
        return PassResult(graph_module, True)

    def function(kept: Any, x: Any) -> Any:
        wide = [(torch.outer(x, x) * n).exp() for n in range(3)]
        return torch.stack([each.sum(0) for each in wide])

    inputs = (torch.randn(32),)
    exported = torch.export.export(Module(function), inputs)
    expected = outputs(made(to_edge(exported), None), inputs)
    planner = LeastMemory()
    config = ExecutorchBackendConfig(
        passes=[mark], memory_planning_pass=MemoryPlanningPass(planner)
    )
    program = to_edge(exported).to_executorch(config)
    require_verified(program)
    assert all(map(torch.equal, outputs(program, inputs), expected))
    planned = planner.plans[0]
    assert planned.reordered
    assert planned.proven
    specs = [
        spec
        for node in program.exported_program().graph.nodes
        for spec in get_node_tensor_specs(node)
        if spec.storage_base is not None
    ]
    assert specs
    assert all(spec.mem_offset == spec.storage_base.mem_offset for spec in specs)


def test_the_plan_of_executorch_is_kept_where_it_is_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_sharing(buffers: Any, banks: Any, **options: Any) -> Plan:
        ends = [*accumulate(buffer.size for buffer in buffers)]
        offsets = tuple(end - buffer.size for buffer, end in zip(buffers, ends, strict=True))
        use = BankPlan(banks[0], ends[-1], 0)
        return Plan(offsets, (0,) * len(buffers), (use,), 0.0, 0.0, 0.0)

    monkeypatch.setattr(planning, "plan", without_sharing)
    model, inputs = wide_branches()
    planned, _ = planned_beside_greedy(model, inputs, LeastMemory())
    assert planned.kept_greedy
    assert not planned.reordered
    assert planned.nbytes == planned.greedy > planned.bound


def test_no_time_at_all_is_no_worse() -> None:
    model, inputs = example("randwire", 1)
    planned_beside_greedy(model, inputs, LeastMemory(time_limit=0.0))


def test_the_library_does_not_wait_for_torch() -> None:
    code = "import sys, tvm_ios.memory as m; m.plan, m.order; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_commands_and_the_python_of_the_page_run(tmp_path: Path) -> None:
    page, scratch = ROOT / "docs" / "memory_planner.md", Scratch(tmp_path)
    for command in commands(page):
        if command.complete and command.shown and reason_not_to_run(command) is None:
            scratch.run_command(command.line, command.words)
    scratch.run_python(python_of(page))
