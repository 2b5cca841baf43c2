from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graph_sketch import GraphSketch, graphs
from tests.refusals import refused
from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx


def crossing(graph: OpGraph, below: int) -> int:
    written = set(graph.inputs) | {t for i in bits(below) for t in graph.operators[i].outputs}
    return sum(1 for t in written if any(not below >> reader & 1 for reader in graph.consumers[t]))


def sizes(graph: OpGraph, max_block: int = 40) -> list[int]:
    return [block.bit_count() for block in cut_blocks(graph, max_block)]


@examples(300)
@given(graphs(40), st.integers(1, 12))
def test_blocks_cover_everything_once_in_order(graph: OpGraph, max_block: int) -> None:
    done = 0
    for block in cut_blocks(graph, max_block):
        assert 0 < block.bit_count() <= max_block
        assert not block & done
        done |= block
        assert all(not graph.predecessors[i] & ~done for i in bits(block))
    assert done == graph.all_operators


@examples(300)
@given(graphs(14))  # at most 2**14 states, so nothing else asks for a cut
def test_small_graphs_are_cut_just_where_it_costs_nothing(graph: OpGraph) -> None:
    """After a joint all depends on one unit; joints inside a block make it a chain."""
    joints = set[int]()
    for unit, op in enumerate(graph.operators):
        ideal = graph.ancestors[unit] | 1 << unit
        rest = [i for i in range(len(graph)) if not ideal >> i & 1]
        before = {t for i in bits(ideal ^ 1 << unit) for t in graph.operators[i].outputs}
        hidden = before.union(graph.inputs)
        read = {t for i in rest for t in graph.operators[i].inputs}
        if read & set(op.outputs) and not read & hidden:
            assert all(graph.ancestors[i] >> unit & 1 for i in rest)
            joints.add(ideal)
    low = 0
    for block in cut_blocks(graph):
        high = low | block
        assert high in joints or high == graph.all_operators
        inside = [joint for joint in joints if joint & ~low and joint != high and not joint & ~high]
        assert not inside or len(inside) == block.bit_count() - 1
        low = high


def diamond(s: GraphSketch, x: int) -> int:
    return s.op("add", s.op("relu", x), s.op("tanh", x))


def test_joints_and_chains() -> None:
    s = GraphSketch()
    x = s.op("relu", s.op("relu", 0))
    x = diamond(s, diamond(s, x))
    x = s.op("relu", diamond(s, s.op("relu", x)))
    assert sizes(s.graph(s.op("relu", x))) == [2, 3, 3, 1, 3, 2]


def test_a_long_chain_is_cut_to_size() -> None:
    s = GraphSketch()
    x = 0
    for _ in range(10):
        x = s.op("relu", x)
    assert sizes(s.graph(), 4) == [4, 4, 2]


def cells(count: int) -> OpGraph:
    """Cells of six units that read the two cells before, as in NASNet."""
    s = GraphSketch()
    before, now = 0, s.op("relu", 0)
    for _ in range(count):
        left, right = s.op("tanh", before), s.op("relu", now)
        parts = [s.op("sigmoid", left), s.op("relu", left), s.op("tanh", right)]
        before, now = now, s.op("concat", left, right, *parts)
    return s.graph(now)


def test_cells_that_read_two_cells_are_cut_at_their_exits() -> None:
    assert sizes(cells(4)) == [25]
    # The first tensor is read by the first unit and the first cell.
    assert sizes(cells(8), 20)[1:] == [6] * 7
    graph = cells(8)
    done = 0
    for block in cut_blocks(graph, 20):
        done |= block
        assert done == graph.all_operators or crossing(graph, done) == 2


def test_where_no_place_is_narrow_levels_are_cut() -> None:
    s = GraphSketch()
    branches = [s.op("relu", s.op("tanh", 0)) for _ in range(5)]
    graph = s.graph(s.op("concat", *branches))
    assert sizes(graph, 4) == [2, 3, 2, 4]


def test_a_grid_is_cut_along_its_wave_front() -> None:
    """Cells that read the cell below and the cell before: a recurrent network of many layers."""
    layers, steps = 10, 30
    s = GraphSketch()
    below: list[int] = [s.op("tanh", 0) for _ in range(steps)]
    for _ in range(layers):
        before = below[0]
        for step in range(steps):
            below[step] = before = s.op("add", below[step], before)
    graph = s.graph(s.op("concat", *below))
    fronts = [block for block in cut_blocks(graph) if block.bit_count() == layers]
    assert len(fronts) >= steps // 2
    for block in fronts:
        assert all(not graph.predecessors[unit] & block for unit in bits(block))


def test_a_second_output_is_not_held_back() -> None:
    s = GraphSketch()
    x = diamond(s, 0)
    early = s.op("sigmoid", s.op("tanh", x))
    x = diamond(s, diamond(s, x))
    # The early output may run beside all that follows, so it stays in a block with that.
    assert sizes(s.graph(early, x)) == [3, 8]
    assert sizes(s.graph(early, x), 6) == [3, 3, 3, 2]


def test_nothing_and_nonsense() -> None:
    assert cut_blocks(OpGraph("empty", (), (), (), ())) == ()
    with refused(ValueError, "max_block", 0):
        cut_blocks(cells(1), 0)


def test_a_block_of_too_many_states_is_cut_between_its_cells() -> None:
    graph = form_units(graph_from_onnx(zoo.build("nasnet_cell")))
    assert [block.bit_count() for block in cut_blocks(graph)] == [1, 17, 16, 2]
