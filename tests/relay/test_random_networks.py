"""Random networks of many operators compute what TVM's graph executor makes of them."""

from __future__ import annotations

import numpy as np

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relay.importer import import_onnx
from runtime_ext.relay.build import build
from tests.fast_run import is_fast
from tests.fuzz.networks import feeds_of, random_network
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import run
from tvm_ios.errors import UserError
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule


def computes_the_same(seed: int) -> bool:
    """Whether a network is not refused; raises if something else is computed."""
    random = np.random.default_rng(seed)
    model = random_network(random)
    feeds = feeds_of(model, random)
    try:
        module = import_onnx(simplify(model))
        prepared = prepare(module)
        schedule = (greedy_schedule, sequential_schedule)[seed % 2](prepared.units)
        built = build(apply_schedule(prepared, schedule), lanes=1 + seed % 3)
    except UserError:
        return False
    session = built.session()
    session.run(**feeds)
    found = [session.get_output(place) for place in range(len(session.outputs))]
    expected = run(module, feeds)
    if all(np.isfinite(array).all() for array in expected):
        assert relative_error(found, expected) <= 1e-4, seed
    session.close()
    return True


def test_random_networks() -> None:
    count = 3 if is_fast() else 6
    assert sum(map(computes_the_same, range(count))) >= count - 1
