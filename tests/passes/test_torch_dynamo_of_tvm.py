"""TVM's own backend of torch.compile takes our pipeline by its name."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def test_a_module_is_scheduled_and_run_by_tvm() -> None:
    from tvm.relax.frontend.torch import relax_dynamo

    layers = [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1)]
    model = torch.nn.Sequential(*layers).eval()
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        compiled = torch.compile(model, backend=relax_dynamo("tvm_ios"))
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
