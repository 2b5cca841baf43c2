"""The choice of C++ is that of Python, refusals included."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution import runtime_module  # noqa: F401  registers the errors of C++
from runtime_ext.native_library import load_native_library
from tests.deployment.test_choice import (
    FEATURES,
    LEVELS,
    devices,
    entry,
    extents,
    machines,
    rivals,
    with_rivals,
)
from tvm_ios.deployment.choice import Machine, Shapes, choose
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError

shape = st.lists(extents, max_size=3).map(tuple)
archs = (*LEVELS, "x86-64-v10", "sm_90a", "sm_103f", "aarch64", "x86-64-v", "sm_")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Entry], Machine, Shapes]:
    """Entries alike in their inputs' names, and shapes of these inputs or of others."""
    inputs = draw(st.integers(0, 2))
    entries = [
        replace(
            entry(f"e{number}", *(draw(shape) for _ in range(inputs)), padding=False),
            arch=(arch := draw(st.sampled_from(archs))),
            features=FEATURES.get(arch, ()),
            lanes=draw(extents),
            latency_ms=draw(st.none() | st.sampled_from((1.0, 2.5))),
            device=draw(devices),
        )
        for number in range(draw(st.integers(0, 6)))
    ]
    entries = with_rivals(draw, entries)
    entries = [replace(e, padding=e.batch is not None and draw(st.booleans())) for e in entries]
    given_shapes = {n: draw(shape) for n in "xy"[:inputs]}
    if entries and draw(st.booleans()):
        # Of one of them, perhaps with other rows.
        given_shapes = dict(draw(st.sampled_from(entries)).shapes)
        if draw(st.booleans()):
            rows = draw(st.integers(0, 4))
            given_shapes = {n: (rows, *s[1:]) if s else s for n, s in given_shapes.items()}
    if draw(st.integers(0, 9)) == 0:
        given_shapes |= {"z": (1,)}
    if draw(st.integers(0, 9)) == 0:
        given_shapes.pop("x", None)
    return entries, draw(machines), given_shapes


def by_cpp(entries: list[Entry], machine: Machine, shapes: Shapes) -> str:
    facts = {
        key: sorted(v) if isinstance(v, frozenset) else v for key, v in asdict(machine).items()
    }
    asked = {
        "entries": [asdict(e) for e in entries],
        "machine": facts,
        "shapes": [[name, extents] for name, extents in shapes.items()],
    }
    return str(load_native_library()["choose_entry"](json.dumps(asked, default=list).encode()))


@given(cases())
def test_both_take_the_same(case: tuple[list[Entry], Machine, Shapes]) -> None:
    try:
        want = choose(*case).id
    except DeploymentError as error:
        want = str(error)
    try:
        found = by_cpp(*case)
    except DeploymentError as error:
        found = str(error)
    assert found == want


@given(rivals)
def test_both_know_what_one_machine_measured(entries: list[Entry]) -> None:
    machine, shapes = Machine(frozenset(("ssse3",)), 3), {"x": (1, 3)}
    assert by_cpp(entries, machine, shapes) == choose(entries, machine, shapes).id
