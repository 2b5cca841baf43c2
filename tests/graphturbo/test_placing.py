from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.graphturbo.cluster.spilling import Live, Scope, place_tensors
from tvm_ios.graphturbo.cluster.tasks import plain_binding


def test_plain_bindings_take_cores_from_the_outermost_axis_on() -> None:
    assert plain_binding(((0, 8), (0, 64)), 8) == (8, 1)
    assert plain_binding(((0, 2), (0, 64), (0, 7)), 8) == (2, 4, 1)
    assert plain_binding(((0, 3), (0, 6)), 8) == (1, 2)


@st.composite
def lives(draw: st.DrawFn) -> list[Live]:
    begins = [draw(st.integers(0, 8)) for _ in range(draw(st.integers(1, 10)))]
    return [Live(draw(st.integers(1, 9)), b, b + draw(st.integers(0, 6))) for b in begins]


@given(
    tensors=lives(),
    local=st.integers(0, 20),
    shared=st.integers(0, 20),
)
def test_no_buffer_ever_holds_more_than_it_can(
    tensors: list[Live], local: int, shared: int
) -> None:
    sizes = {Scope.LOCAL: local, Scope.GLOBAL: shared}
    scopes = place_tensors(tensors, sizes)
    for scope, size in sizes.items():
        held = np.zeros(16, int)
        for tensor, placed in zip(tensors, scopes, strict=True):
            if placed is scope:
                held[tensor.first : tensor.last + 1] += tensor.nbytes
        assert held.max() <= size
    total = np.zeros(16, int)
    for tensor in tensors:
        total[tensor.first : tensor.last + 1] += tensor.nbytes
    if total.max() <= local:
        assert set(scopes) == {Scope.LOCAL}


def test_figure_12() -> None:
    # out_1 lives across seven tasks, the others across fewer: it is the one that is spilled.
    tensors = [Live(1, 0, 1), Live(1, 0, 6), Live(2, 1, 4), Live(1, 3, 5), Live(1, 4, 6)]
    sizes = {Scope.LOCAL: 4, Scope.GLOBAL: 9}
    assert place_tensors(tensors, sizes)[1] is Scope.GLOBAL
