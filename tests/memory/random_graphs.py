"""Random graphs of operators with tensors of random sizes."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.problem import MemoryProblem, memory_problem

COUNTINGS = tuple(Counting(a, b) for a in (False, True) for b in (False, True))


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> OpGraph:
    """One to so many operators: several outputs, shared and unread ones, joins, inner outputs."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    return random_graph(rng, draw(st.integers(1, most)))


@st.composite
def problems(draw: st.DrawFn, most: int = 8, scratch: bool = True) -> MemoryProblem:
    """Problems of such graphs under any counting, with or without scratch."""
    graph, counting = draw(graphs(most)), draw(st.sampled_from(COUNTINGS))
    rng = random.Random(draw(st.integers(0, 2**32)))
    extra = {op: rng.choice((0, 0, 4, 12, 40)) for op in range(len(graph))} if scratch else {}
    return memory_problem(graph, counting, extra if rng.random() < 0.5 else None)


def random_graph(rng: random.Random, operators: int) -> OpGraph:
    """Dense or sparse, of few sizes (so that much is equal) or of many."""
    sizes = rng.choice(((1, 2), (1, 2, 3, 5), range(1, 30)))
    reach = rng.choice((2, 3, operators + 1))
    tensors = [Tensor(f"in{i}", (rng.choice(sizes),)) for i in range(rng.randint(1, 2))]
    inputs = tuple(range(len(tensors)))
    added: list[Operator] = []
    for number in range(operators):
        recent = range(max(0, len(tensors) - reach), len(tensors))
        read = [rng.choice(recent) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        kind = rng.choice(("conv2d", "conv2d", "add", "relu", "concat", "split"))
        outputs = range(len(tensors), len(tensors) + (2 if kind == "split" else 1))
        if kind == "relu":
            read = read[:1]
        for tensor in outputs:
            total = sum(tensors[t].shape[0] for t in read)
            like = tensors[read[0]].shape[0]
            size = {"concat": total, "relu": like, "add": like}.get(kind, rng.choice(sizes))
            tensors.append(Tensor(f"t{tensor}", (size,)))
        added.append(Operator(f"op{number}", kind, tuple(read), tuple(outputs)))
    read_by_any = {t for op in added for t in op.inputs}
    loose = [t for t in range(len(inputs), len(tensors)) if t not in read_by_any]
    # Some are never read and are no outputs either, and some outputs are read inside too.
    outputs = [t for t in loose if rng.random() < 0.8]
    outputs += [t for t in range(len(tensors)) if rng.random() < 0.1]
    return OpGraph("random", tuple(added), tuple(tensors), inputs, tuple(sorted(set(outputs))))
