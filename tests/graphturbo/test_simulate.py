from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.cluster.simulate import Optimisations, simulate
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.tasks import INPUT, LayerTask, tasks_of
from tvm_ios.graphturbo.cluster.variants import VARIANTS, partition, simulate_variants, tune_batch

#: One byte a second from memory, 10 and 100 from the buffers; a hundred operations.
DEVICE = MemoryHierarchy("toy", "", 1, 4, 1, 500, 4000, 1.0, 10.0, 100.0, 100.0, 0.5, {})


def task(
    layer: int, reads: dict[tuple[int, int], int], writes: dict[tuple[int, int], int],
    weights: int = 0, flops: float = 0.0, cores: int = 4,
) -> LayerTask:  # fmt: skip
    return LayerTask(0, layer, flops, reads, writes, weights, cores)


def test_a_chain_by_hand() -> None:
    chain = [
        task(0, {(INPUT, 9): 40}, {(0, 0): 30}, weights=20),
        task(1, {(0, 0): 30}, {(0, 1): 10}, weights=60, flops=2000),
    ]
    through_memory = simulate(chain, DEVICE, Optimisations(Scope.MEMORY, kernel_a_layer=True))
    # Weights 20, then 40 + 30; weights 60, then 30 + 10 behind 20 seconds of arithmetic.
    assert through_memory.seconds == pytest.approx(20 + 70 + 60 + 40 + 2 * 0.5)
    assert through_memory.compute_seconds == pytest.approx(20)
    assert through_memory.tensors == {Scope.LOCAL: 0, Scope.GLOBAL: 0, Scope.MEMORY: 2}
    local = simulate(chain, DEVICE, Optimisations(Scope.LOCAL))
    assert local.seconds == pytest.approx(20 + 40 + 60 + 20 + 0.5)
    ahead = simulate(chain, DEVICE, Optimisations(Scope.LOCAL, prefetch=True))
    # The second layer's weights share the memory with the first one's input.
    assert ahead.seconds == pytest.approx(20 + (40 + 60) + 20 + 0.5)
    assert ahead.traffic[Scope.MEMORY] == 40 + 20 + 60


def test_weights_stay_in_the_global_buffer_while_there_is_room() -> None:
    again = [task(n % 2, {}, {(n, n): 1}, weights=1500) for n in range(4)]
    assert simulate(again, DEVICE, Optimisations(Scope.LOCAL)).traffic[Scope.MEMORY] == 3000
    large = [task(n % 2, {}, {(n, n): 1}, weights=2500) for n in range(4)]
    assert simulate(large, DEVICE, Optimisations(Scope.LOCAL)).traffic[Scope.MEMORY] == 10_000


def test_fewer_cores_take_longer() -> None:
    one = simulate([task(0, {}, {}, flops=800, cores=1)], DEVICE, Optimisations(Scope.LOCAL))
    assert one.compute_seconds == pytest.approx(32)


@examples(30)
@given(model=networks(), local=st.sampled_from((100, 500, 2000)))
def test_what_tasks_move_and_compute(model: Any, local: int) -> None:
    graph = Runner(model).graph
    device = replace(DEVICE, local_buffer=local)
    instances = partition(graph, device)
    order = tuple(range(len(instances)))
    tasks = tasks_of(instances, order, device.cores)
    written: set[Any] = set()
    for task in tasks:
        for piece in task.reads:
            assert piece[0] == INPUT or piece in written
        written |= set(task.writes)
    whole = sum(op.flops for op in graph.operators)
    # Less than all where a stride steps over results that nothing reads.
    assert sum(t.flops for t in tasks) <= whole * 1.1 * (1 + 1e-9)
    writes = [(t, size) for task in tasks for (_, t), size in task.writes.items()]
    for output in graph.outputs:
        assert sum(size for t, size in writes if t == output) >= graph.tensors[output].nbytes
    plain = simulate(tasks, device, Optimisations(Scope.LOCAL))
    ahead = simulate(tasks, device, Optimisations(Scope.LOCAL, prefetch=True))
    assert ahead.seconds <= plain.seconds * (1 + 1e-9)
    slow = simulate(tasks, device, Optimisations(Scope.MEMORY))
    assert plain.traffic[Scope.MEMORY] <= slow.traffic[Scope.MEMORY]
    assert sum(plain.tensors.values()) == len(written)


def test_the_variants_of_a_chain_of_convolutions() -> None:
    sketch = Sketch((8, 4, 8, 8))
    x = "x"
    for _ in range(4):
        x = sketch.op("Relu", sketch.op("Conv", x, sketch.weight(4, 4, 1, 1)))
    graph = Runner(sketch.model(x)).graph
    simulated = simulate_variants(graph, DEVICE)
    seconds = [simulated.simulations[v].seconds for v in VARIANTS]
    assert seconds == sorted(seconds, reverse=True)
    # All images together fit no buffer; one image fits the local buffers.
    assert simulated.simulations["local"].tensors[Scope.LOCAL] == 0
    assert simulated.simulations["instances"].tensors[Scope.LOCAL] > 0
    assert simulated.throughput("layers", DEVICE) == pytest.approx(8 / seconds[0])


def test_the_batch_with_the_best_throughput() -> None:
    seconds = {1: 1.0, 2: 1.5, 4: 2.0, 8: 6.0}
    assert tune_batch(seconds.__getitem__, 8) == 4
    assert tune_batch(seconds.__getitem__, 8, lambda n: n < 3) == 2
    assert tune_batch(seconds.__getitem__, 8, lambda n: False) == 1
