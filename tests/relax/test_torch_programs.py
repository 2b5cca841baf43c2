"""Programs of torch.export, all the way to outputs that are compared with torch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.refusals import refused

torch = pytest.importorskip("torch")

from relay_passes.load import load_model  # noqa: E402
from relay_passes.pipeline import apply_schedule, prepare  # noqa: E402
from runtime_ext.build import build  # noqa: E402
from tests.torch_sketch import save  # noqa: E402
from tvm_ios.errors import ModelError  # noqa: E402
from tvm_ios.models.source import ModelSource  # noqa: E402
from tvm_ios.policies.greedy import greedy_schedule  # noqa: E402
from tvm_ios.shapes.input_shapes import InputShapeError  # noqa: E402

nn = torch.nn
Build = Callable[[], Any]


class Convolutions(nn.Module):
    """Convolutions with and without a batch norm, a residual, a classifier."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()
        if norm:
            nn.init.uniform_(self.norm.running_mean)
            nn.init.uniform_(self.norm.running_var, 0.5, 1.5)
        self.second = nn.Conv2d(8, 8, 1, groups=2)
        self.classify = nn.Linear(8, 10)

    def forward(self, image: Any) -> Any:
        x = torch.relu(self.norm(self.first(image)))
        x = x + self.second(x)
        return self.classify(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class TwoInputs(nn.Module):
    """Outputs in a dictionary, one of them read inside as well."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 4, 3, padding=1)
        self.right = nn.Conv2d(2, 4, 1)

    def forward(self, picture: Any, depth: Any) -> Any:
        joined = torch.relu(self.left(picture)) * torch.sigmoid(self.right(depth))
        return {"joined": joined, "rest": [joined.mean((2, 3)), joined.sum(1)]}


class Attention(nn.Module):
    """With a mask whose first row leaves nothing."""

    def forward(self, query: Any, mask: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)


def outputs_of(model: str, inputs: dict[str, Any], **options: Any) -> dict[str, np.ndarray]:
    loaded = load_model(ModelSource(model, **options))
    prepared = prepare(loaded.module, loaded.name)
    schedule = greedy_schedule(prepared.units)
    assert schedule is not None
    session = build(apply_schedule(prepared, schedule), lanes=2).session()
    session.run(**{name: value.numpy() for name, value in inputs.items()})
    return {port.name: session.get_output(port.name) for port in session.outputs}


def random(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def close(output: Any, expected: Any) -> bool:
    expected = expected.detach().numpy()
    assert output.shape == expected.shape
    return bool(np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max())


MODELS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "convolutions": (lambda: Convolutions(False), (1, 3, 16, 16)),
    "batch-norm": (lambda: Convolutions(True), (2, 3, 15, 17)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (1, 6, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    module, data = make().eval(), random(*shape)
    path = save(module, (data,), tmp_path / "m.pt2")
    argument = "src" if name == "encoder" else "image"
    (output,) = outputs_of(path, {argument: data}).values()
    assert close(output, module(data))


def test_inputs_and_outputs_have_the_names_that_torch_gives(tmp_path: Path) -> None:
    module = TwoInputs().eval()
    inputs = {"picture": random(1, 3, 8, 8), "depth": random(1, 2, 8, 8)}
    path = save(module, tuple(inputs.values()), tmp_path / "m.pt2")
    outputs, expected = outputs_of(path, inputs), module(**inputs)
    assert list(outputs) == ["joined", "rest.0", "rest.1"]
    assert close(outputs["joined"], expected["joined"])
    assert close(outputs["rest.0"], expected["rest"][0])
    assert close(outputs["rest.1"], expected["rest"][1])


def test_rows_are_taken_from_both_ends(tmp_path: Path) -> None:
    class Rows(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, 1] - x[:, -1] * x[:, -2]

    data = random(2, 4, 3)
    (output,) = outputs_of(save(Rows(), (data,), tmp_path / "m.pt2"), {"x": data}).values()
    assert close(output, Rows()(data))


def test_quotients_that_there_are_not(tmp_path: Path) -> None:
    """By zero, and of the least number by -1: as in ONNX models, and no end of the process."""

    class Quotients(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            quotients = [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")]
            return [*quotients, torch.remainder(a, b), torch.fmod(a, b)]

    least = -(2**31)
    a, b = (
        torch.tensor(numbers, dtype=torch.int32)
        for numbers in ([7, -7, -7, least, 5], [2, 2, -1, -1, 0])
    )
    outputs = outputs_of(save(Quotients(), (a, b), tmp_path / "m.pt2"), {"a": a, "b": b})
    assert [output.tolist() for output in outputs.values()] == [
        [3, -4, 7, least, 0],
        [3, -3, 7, least, 0],
        [1, 1, 0, 0, 0],
        [1, -1, 0, 0, 0],
    ]


def test_truth_values_are_compared_and_combined(tmp_path: Path) -> None:
    class Truths(nn.Module):
        def forward(self, x: Any) -> Any:
            a, b = x > 0, x < 0.5
            return [a == b, a != b, a < b, a * b, a + b, torch.isfinite(x)]

    x = random(3, 7)
    x[0, :3] = torch.tensor([np.nan, np.inf, -np.inf])
    outputs = outputs_of(save(Truths(), (x,), tmp_path / "m.pt2"), {"x": x})
    for output, expected in zip(outputs.values(), Truths()(x), strict=True):
        assert np.array_equal(output, expected.numpy())


@pytest.mark.slow
def test_many_tensors_are_joined_in_parts(tmp_path: Path) -> None:
    class Joined(nn.Module):
        def forward(self, x: Any) -> Any:
            return (
                torch.cat([x[:, i % 4 : i % 4 + 1] for i in range(70)], 1).round().to(torch.int32)
            )

    path, x = save(Joined(), (random(2, 4),), tmp_path / "m.pt2"), random(2, 4)
    main = load_model(ModelSource(path)).module["main"]
    calls = [b.value for block in main.body.blocks for b in block.bindings]
    joined = [len(c.args[0].fields) for c in calls if "concat" in str(getattr(c, "op", ""))]
    assert joined == [64, 6, 2]
    (output,) = outputs_of(path, {"x": x}).values()
    assert np.array_equal(output, Joined()(x).numpy())


def test_a_row_that_is_masked_whole_gives_zeros(tmp_path: Path) -> None:
    query, mask = random(1, 2, 4, 8), torch.zeros(1, 1, 4, 4)
    mask[..., 0, :] = -torch.inf
    path = save(Attention(), (query, mask), tmp_path / "m.pt2")
    (output,) = outputs_of(path, {"query": query, "mask": mask}).values()
    assert close(output, Attention()(query, mask))
    assert not output[:, :, 0].any()


@pytest.fixture
def dynamic(tmp_path: Path) -> tuple[Any, str]:
    module = Convolutions(True).eval()
    batch = {"image": {0: torch.export.Dim("batch", min=1, max=8)}}
    data = random(2, 3, 16, 16)
    return module, save(module, (data,), tmp_path / "m.pt2", dynamic_shapes=batch)


def test_dynamic_dimensions_become_those_given(dynamic: tuple[Any, str]) -> None:
    module, path = dynamic
    data = random(3, 3, 16, 16)
    (output,) = outputs_of(path, {"image": data}, shapes={"image": (3, 3, 16, 16)}).values()
    assert close(output, module(data))


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        ({"image": (9, 3, 16, 16)}, ("1 to 8", 9)),
        ({"image": (1, 3, 8, 8)}, ("dimension 2", "'image'", 16, 8)),
        ({"x": (1, 3, 16, 16)}, ("'x'", "image")),
    ],
)
def test_dynamic_dimensions_that_are_refused(
    shapes: Any, named: tuple[object, ...], dynamic: tuple[Any, str]
) -> None:
    with refused(InputShapeError, *named):
        load_model(ModelSource(dynamic[1], shapes=shapes))


def test_a_batch_that_alone_is_open_is_one(dynamic: tuple[Any, str]) -> None:
    module, path = dynamic
    data = random(1, 3, 16, 16)
    (output,) = outputs_of(path, {"image": data}).values()
    assert close(output, module(data))


def test_random_weights_are_not_for_these(dynamic: tuple[Any, str]) -> None:
    with refused(ModelError, "--random-weights"):
        load_model(ModelSource(dynamic[1], random_weights=0))
