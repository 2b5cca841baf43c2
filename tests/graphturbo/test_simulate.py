from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.cluster.engines import Engine, StepWork, TileWork, layer_by_layer
from tvm_ios.graphturbo.cluster.overlap import across_layers
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.graphturbo.cluster.simulate import Optimisations, Simulation, simulate
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import INPUT, ClusterProgram
from tvm_ios.graphturbo.cluster.variants import VARIANTS, Variants, tune_batch

#: One byte a second from memory, 10 and 100 from the buffers; a hundred operations, fifty others.
DEVICE = MemoryHierarchy("toy", "", 1, 4, 2, 500, 4000, 1.0, 10.0, 100.0, 100.0, 50.0, 0.5, 1, {})


def tile(
    weights: tuple[float, float] = (0, 0), loads: tuple[float, float] = (0, 0),
    stores: tuple[float, float] = (0, 0), matrix: float = 0, vector: float = 0,
) -> TileWork:  # fmt: skip
    return TileWork(weights, loads, stores, matrix, vector, weight_bytes=(1, 1))


def step(*work: TileWork, tiles: int = 1, sources: tuple[int, ...] = (), start: float = 0):
    return StepWork(work, work, tiles, sources, start)


def test_tiles_of_one_layer_overlap() -> None:
    work = tile(loads=(0, 2), stores=(0, 1), matrix=5, vector=1)
    assert layer_by_layer([step(work, start=0.5)]) == [(0, 9.5)]
    # Four tiles of a pipeline whose slowest stage takes five seconds for each.
    assert layer_by_layer([step(work, tiles=4)]) == [(0, 20 + 4)]
    assert layer_by_layer([step(work, work)]) == [(0, 18)]


def test_weights_are_fetched_over_several_layers_ahead() -> None:
    # The first layer computes for ten seconds, in which all others' weights come from memory.
    first = step(tile(weights=(1, 0), matrix=10))
    others = [step(tile(weights=(3, 0), matrix=1), sources=(n,)) for n in range(3)]
    steps = [first, *others]
    assert layer_by_layer(steps)[-1][1] == 11 + 3 * 4
    assert across_layers(steps, [4] * 4, 4)[-1][1] == 1 + 10 + 3
    # With room for those of the next layer alone the others' follow each other.
    assert across_layers(steps, [2] * 4, 4)[-1][1] == 1 + 10 + 3 + 3 + 1


def test_engines_have_different_tiles() -> None:
    """Figure 13: the vector engine has one tile while the matrix engine has another."""
    run = step(tile(matrix=2), tile(vector=2), tile(matrix=2), tile(vector=2), tiles=2)
    assert layer_by_layer([run])[-1][1] == 16
    assert across_layers([run], [9], 9)[-1][1] == 10


def test_a_step_waits_for_what_it_reads() -> None:
    steps = [
        step(tile(stores=(0, 3), matrix=1)),
        step(tile(matrix=5)),
        step(tile(loads=(0, 1), matrix=1), sources=(0,)),
    ]
    spans = across_layers(steps, [0] * 3, 0)
    assert spans[0][1] == 4
    assert spans[2] == (4, 7)


def chain(batch: int, kernel: int = 1) -> OpGraph:
    sketch = Sketch((batch, 4, 8, 8))
    x = "x"
    for _ in range(4):
        weight = sketch.weight(4, 4, kernel, kernel)
        x = sketch.op("Relu", sketch.op("Conv", x, weight, pads=[kernel // 2] * 4))
    return Runner(sketch.model(x)).graph


def test_a_chain_by_hand() -> None:
    graph = chain(1)
    tensor, weights = 4 * 8 * 8 * 4, 4 * 4 * 4
    device = replace(DEVICE, local_buffer=2500, global_buffer=1 << 20)
    of_layers = Variants(graph, device)["layers"]
    assert of_layers.tensors == {Scope.LOCAL: 0, Scope.GLOBAL: 0, Scope.MEMORY: 4}
    # A tile of a layer: weights, then the input, products, maxima, and the result.
    flops, maxima = 2 * 4 * tensor / 4, tensor / 4
    moved = 2 * tensor / 1.0 + (2 * tensor + weights) / 10.0
    seconds = 0.5 + weights / 1.0 + moved + flops / 100 + maxima / 50
    assert of_layers.seconds == pytest.approx(4 * seconds)
    assert of_layers.kernels == 4
    stitched = Variants(graph, device)["local"]
    assert stitched.tensors == {Scope.LOCAL: 4, Scope.GLOBAL: 0, Scope.MEMORY: 0}
    assert stitched.traffic[Scope.MEMORY] == tensor + 4 * weights
    assert stitched.kernels == 1


def test_the_papers_placement_stitches_all_layers_that_fit() -> None:
    graph, device = chain(8), replace(DEVICE, local_buffer=300, global_buffer=4 << 10)
    by_time, published = (Variants(graph, device, placement) for placement in Placement)
    for variants in (by_time, published):
        assert variants["prefetch"].seconds <= variants["instances"].seconds
    # Its only size is that of the global buffer, and the layers of each instance are one run.
    chosen, program = published.split("prefetch")
    assert chosen.capacity == device.global_buffer
    assert {len(step.tasks) for step in program.steps} == {4}
    assert by_time["prefetch"].seconds <= published["prefetch"].seconds
    parts = [v.split("prefetch")[1].instances.subgraphs[0].factor for v in (by_time, published)]
    inside = [
        variants["prefetch"].tensors[Scope.LOCAL] / factor
        for variants, factor in zip((by_time, published), parts, strict=True)
    ]
    assert inside[1] >= max(inside[0], 3)


def test_one_fetch_of_weights_for_several_clusters() -> None:
    graph = chain(1)
    seconds = [
        Variants(graph, replace(DEVICE, clusters=4, weight_clusters=n))["layers"].seconds
        for n in (1, 4)
    ]
    # Four layers of 64 bytes of weights, at a quarter of a byte a second, or at a whole one.
    assert seconds[0] - seconds[1] == pytest.approx(4 * 64 * (4 - 1))


def test_weights_pass_from_memory_once_for_all_tiles() -> None:
    variants = Variants(chain(8), replace(DEVICE, local_buffer=200))
    program, simulated = variants.program("prefetch"), variants["prefetch"]
    assert max(step.tiling.tiles for step in program.steps) > 1
    read = sum(s for step in program.steps for r in step.reads.values() for p, s in r.items()
               if p[0] == INPUT)  # fmt: skip
    written = sum(s for step in program.steps for p, s in step.writes.items()
                  if simulated.scopes[p] is Scope.MEMORY)  # fmt: skip
    assert simulated.traffic[Scope.MEMORY] >= read + written


@examples(25)
@given(model=networks(), local=st.sampled_from((100, 500, 2000)))
def test_what_variants_move_and_compute(model: Any, local: int) -> None:
    graph = Runner(model).graph
    device = replace(DEVICE, local_buffer=local)
    variants = Variants(graph, device)
    whole = sum(op.flops for op in graph.operators)
    for name in VARIANTS:
        program, simulated = variants.program(name), variants[name]
        written: set[Any] = set()
        flops = 0.0
        for step in program.steps:
            for piece in (p for pieces in step.reads.values() for p in pieces):
                assert piece[0] == INPUT or piece in written
            written |= set(step.writes)
            tiles = step.tiling.tiles
            flops += tiles * sum(task.matrix_flops + task.vector_flops for task in step.tasks)
        # Instances compute rows again where windows overlap; strides step over some.
        assert flops <= whole * 1.1 * (1 + 1e-9)
        assert set(graph.outputs) <= {tensor for _, tensor in written}
        assert all(begin <= end <= simulated.seconds for begin, end in simulated.spans)
        for engine in Engine:
            assert sum(busy[engine] for busy in simulated.busy) <= simulated.seconds * (1 + 1e-9)
    assert variants["prefetch"].seconds <= variants["instances"].seconds * (1 + 1e-9)
    by_piece = {n: variants[n].traffic[Scope.MEMORY] for n in ("layers", "local")}
    assert by_piece["local"] <= by_piece["layers"]


def test_what_was_simulated_to_choose_is_not_simulated_again() -> None:
    simulated: list[ClusterProgram] = []

    def count(program: ClusterProgram, *arguments: Any) -> Simulation:
        simulated.append(program)
        return simulate(program, *arguments)

    variants = Variants(chain(8), DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvm_ios.graphturbo.cluster.variants.simulate", count)
        _, chosen = variants.split("instances")
        to_choose = len(simulated)
        seconds = variants["instances"].seconds
    assert len(simulated) == to_choose > 1
    assert seconds == simulate(chosen, DEVICE, Optimisations(Scope.LOCAL)).seconds
    assert seconds == min(
        simulate(way, DEVICE, Optimisations(Scope.LOCAL)).seconds for way in simulated
    )


def test_the_variants_of_a_chain_of_convolutions() -> None:
    variants = Variants(chain(8), DEVICE)
    bars = [variants[v].seconds for v in VARIANTS if v != "astitch"]
    assert bars == sorted(bars, reverse=True)
    assert bars[1] > bars[2]
    assert variants["local"].tensors[Scope.LOCAL] == 3  # all but the result
    assert variants.throughput("layers") == pytest.approx(8 / bars[0])


def test_the_batch_with_the_best_throughput() -> None:
    seconds = {1: 1.0, 2: 1.5, 4: 2.0, 8: 6.0}
    assert tune_batch(seconds.__getitem__, 8) == 4
    assert tune_batch(seconds.__getitem__, 8, lambda n: n < 3) == 2
    assert tune_batch(seconds.__getitem__, 8, lambda n: False) == 1
