"""The Python of docs/relay.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

from runtime_ext.execution.executable import load
from tests.relay.uncompiled import leave_uncompiled

PAGE = Path(__file__).parents[2] / "docs" / "relay.md"


def test_the_python_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = relay.var("data", shape=(1, 3, 8, 8))
    weight = relay.var("weight", shape=(4, 3, 3, 3))
    module = tvm.IRModule.from_expr(
        relay.Function([x, weight], relay.nn.conv2d(x, weight, channels=4, kernel_size=(3, 3)))
    )
    given = {
        "mod": relay.transform.InferType()(module),
        "params": {"weight": tvm.nd.array(np.ones((4, 3, 3, 3), "float32"))},
        "image": np.ones((1, 3, 8, 8), "float32"),
    }
    leave_uncompiled(monkeypatch)
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    exec(code, given)
    np.testing.assert_allclose(given["scores"], np.full((1, 4, 6, 6), 27), rtol=1e-6)
    assert (tmp_path / "out" / "program.json").exists()
    assert load(tmp_path / "gpu").arch == "sm_90"
