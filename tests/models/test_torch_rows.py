"""Families of torch's operators, read as what torch computes, or refused by a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fast_run import only
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.models.load import load_onnx

torch = pytest.importorskip("torch")

from tests.models import torch_rows as rows  # noqa: E402
from tests.onnx_sketch import reference_session  # noqa: E402
from tests.torch_sketch import save  # noqa: E402

nn = torch.nn


#: Relative and absolute, by type.
TOLERANCES = {"f2": (1e-3, 1e-5), "f8": (1e-12, 0)}


class Family(nn.Module):
    """Every row of a table, of the same inputs."""

    def __init__(self, table: Mapping[str, rows.Row]) -> None:
        super().__init__()
        self.table = table
        for name, row in table.items():
            if isinstance(row, nn.Module):
                self.add_module(name.replace(" ", "_"), row)

    def forward(self, x: Any, k: Any) -> Any:
        inputs = (x,) if k is None else (x, k)
        return {name: row(*inputs) for name, row in self.table.items()}


def computed(model: Any, inputs: tuple[Any, ...]) -> dict[str, Array]:
    """What ONNX Runtime makes of the model that is scheduled."""
    session = reference_session(model)
    names = [value.name for value in session.get_inputs()]
    given = [value for value in inputs if value is not None]
    feeds = {name: value.numpy() for name, value in zip(names, given, strict=True)}
    outputs = session.run(None, feeds)
    return dict(zip([value.name for value in session.get_outputs()], outputs, strict=True))


def differing(outputs: Mapping[str, Array], expected: Any) -> list[str]:
    """The outputs whose type, shape or numbers are not those of torch."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(expected) if leaf is not None]
    pairs = zip(outputs.items(), (leaf.detach().numpy() for leaf in leaves), strict=True)
    return [
        name
        for (name, output), right in pairs
        if output.dtype != right.dtype
        or output.shape != right.shape
        or not np.allclose(output, right, *TOLERANCES.get(right.dtype.str[1:], (1e-4, 1e-5)), True)
    ]


def random(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def integers(*shape: int, low: int = 0, high: int = 9, kind: Any = None) -> Any:
    numbers = np.random.default_rng(1).integers(low, high, shape)
    return torch.from_numpy(numbers).to(kind or torch.int64)


MAPS = random(2, 4, 7, 9)
EDGES = torch.cat([random(8), torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 2, -2])])
KINDS = ("int64", "int32", "int8", "uint8", "float16", "float64")
FAMILIES: dict[str, tuple[dict[str, rows.Row], Any, Any]] = {
    **{f"promoted {k}": (rows.PROMOTED, integers(6, kind=getattr(torch, k)), None) for k in KINDS},
    "promoted bool": (
        # Torch subtracts no booleans.
        {name: row for name, row in rows.PROMOTED.items() if name != "from a half"},
        integers(6, kind=torch.bool),
        None,
    ),
    "integers": (rows.INTEGERS, integers(6, low=-5), None),
    "booleans": (rows.BOOLEANS, random(6, 2) > 0, random(6, 2) > 0.5),
    "edges": (rows.EDGES, EDGES, None),
    "doubles": (rows.DOUBLES, random(6).double(), None),
    "activations": (rows.ACTIVATIONS, MAPS, None),
    "norms": (rows.NORMS, MAPS, None),
    "pools": (rows.POOLS, MAPS, None),
    "resized": (rows.RESIZED, MAPS, None),
    "scattered": (rows.SCATTERED, MAPS, integers(2, 4, 7, 3)),
    "reduced": (rows.REDUCED, MAPS, None),
    "returned": (rows.RETURNED, MAPS, None),
    "bags": (rows.BAGS, integers(2, 4, 7, 3), None),
}


#: Integers of one width, and floating-point numbers of one, stand for those of others.
_ALIKE = {f"promoted {kind}" for kind in ("int32", "int8", "float64")}


@pytest.mark.parametrize("name", only([name for name in FAMILIES if name not in _ALIKE], FAMILIES))
def test_families(name: str, tmp_path: Path) -> None:
    table, *inputs = FAMILIES[name]
    module, given = Family(table), tuple(inputs)
    path = save(module, given, tmp_path / "m.pt2")
    outputs = computed(load_onnx(path), given)
    assert not differing(outputs, module(*given))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.runs.add_(1)
        return x * self.runs


class Row(nn.Module):
    def __init__(self, row: rows.Row) -> None:
        super().__init__()
        self.row = row

    def forward(self, x: Any) -> Any:
        return self.row(x)


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "buffer": (Counter(), ["changes its buffer 'runs'"]),
    "random": (Row(lambda x: x + torch.randn(9)), ["random"]),
    "drop": (Row(lambda x: nn.functional.dropout(x, 0.5, True)), ["random"]),
    "inverse": (Row(lambda x: torch.linalg.inv(x[0, 0, :, :7])), ["operator linalg_inv_ex"]),
    "number": (Row(lambda x: (x * 2, 3)), ["output 'output1'", "no tensor"]),
    "places": (Row(lambda x: x.nonzero()), ["depends on the data"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_when_it_is_read(name: str, tmp_path: Path) -> None:
    module, named = REFUSED[name]
    path = save(module, (MAPS,), tmp_path / "m.pt2")
    with refused(UserError, *named):
        load_onnx(path)
