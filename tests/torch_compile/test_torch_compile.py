"""The backend of ``torch.compile``: graphs as torch makes them, compared with torch itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tvm_ios
from tests.docs.pages import ROOT, python_of
from tvm_ios.errors import UserError

torch = pytest.importorskip("torch")

from tvm_ios.torch_compile import backend as backend_module  # noqa: E402
from tvm_ios.torch_compile import exported  # noqa: E402
from tvm_ios.torch_compile.weights import Snapshot  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def compiled(cache: Path) -> Any:
    """A function that compiles with options for tests: nothing is searched."""
    before = len(tvm_ios.torch_report().graphs)

    def of(module: Any, *, dynamic: bool | None = None, **options: Any) -> Any:
        given = {"seconds": 0, "cache": cache, "lanes": 2, **options}
        return torch.compile(module, backend="tvm_ios", dynamic=dynamic, options=given)

    of.graphs = lambda: tvm_ios.torch_report().graphs[before:]
    return of


def where(graphs: Any) -> set[tuple[str, str]]:
    """The places where graphs run, and why."""
    return {(graph.where, graph.reason) for graph in graphs}


OURS = {("tvm_ios", "")}


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


class Residual(nn.Module):
    """A block as of torchvision's ResNet, or with groups as of its MobileNet."""

    def __init__(self, channels: int, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Any) -> Any:
        return functional.relu(x + self.second(functional.relu6(self.norm(self.first(x)))))


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Residual(8), Residual(8, 8))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class Encoder(nn.Module):
    """A model as of transformers: tied embeddings, a mask of booleans, a dictionary of results."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.register_buffer("places", torch.arange(32)[None])
        self.positions = nn.Embedding(32, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Any, mask: Any) -> dict[str, Any]:
        x = self.words(ids) + self.positions(self.places[:, : ids.shape[1]])
        q, k, v = (
            layer(x).unflatten(-1, (2, 8)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(q, k, v, mask[:, None, None, :])
        y = self.norm(x + y.transpose(1, 2).flatten(2))
        return {"logits": self.head(y), "states": (x, y), "best": y.argmax(-1)}


def test_vision_model_is_one_program_as_exact_as_torch(compiled: Any) -> None:
    model, x = Vision().eval(), torch.randn(2, 3, 32, 32)
    ours = compiled(model)
    with torch.no_grad():
        same(ours(x), model(x))
        y = torch.randn(2, 3, 32, 32)
        same(ours(y), model(y))
    (graph,) = compiled.graphs()
    assert (graph.where, graph.reason) == ("tvm_ios", "")
    assert (graph.programs, graph.calls, graph.fallen_back) == (1, 2, 0)
    assert graph.seconds > 0


def test_encoder_with_integers_booleans_and_a_dictionary(compiled: Any) -> None:
    model = Encoder().eval()
    ids, mask = torch.randint(0, 50, (2, 9)), torch.rand(2, 9) > 0.2
    mask[:, 0] = True
    ours = compiled(model)
    with torch.inference_mode():
        got, expected = ours(ids, mask), model(ids, mask)
    assert list(got) == ["logits", "states", "best"]
    assert got["logits"].is_inference()
    same(got, expected)
    assert where(compiled.graphs()) == OURS


def test_encoder_layers_of_torch_are_taken_apart(compiled: Any) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    model = nn.Sequential(layer, nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)).eval()
    x = torch.randn(2, 7, 16)
    with torch.no_grad():
        same(compiled(model)(x), model(x))
    assert where(compiled.graphs()) == OURS


def test_later_calls_leave_earlier_outputs(compiled: Any) -> None:
    ours = compiled(nn.Linear(4, 4).eval())
    with torch.no_grad():
        first = ours(torch.ones(3, 4))
        kept = first.clone()
        second = ours(torch.zeros(3, 4))
    assert torch.equal(first, kept)
    assert not torch.equal(first, second)


def test_graph_breaks_make_several_programs(compiled: Any) -> None:
    said: list[float] = []

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            y = self.first(x).relu()
            said.append(float(y.sum()))
            torch._dynamo.graph_break()
            return self.second(y.view(-1, 8))

    model, x = Broken().eval(), torch.randn(3, 4)
    explained = torch._dynamo.explain(model)(x)
    torch._dynamo.reset()
    ours = compiled(model)
    with torch.no_grad():
        same(ours(x), model(x))
        same(ours(x), model(x))
    graphs = compiled.graphs()
    assert explained.graph_count > 1
    assert len(graphs) >= explained.graph_count - 1
    assert where(graphs) == OURS


def test_memory_that_the_graph_changes(compiled: Any) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Any, cache: Any) -> Any:
            self.count += 1
            cache[:, 1:3].mul_(2.0)
            return self.layer(x) * self.count, cache.view(-1)

    theirs, ours = Counter().eval(), Counter().eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 4)
    memories = [torch.ones(2, 4), torch.ones(2, 4)]
    run = compiled(ours)
    with torch.no_grad():
        for _ in range(3):
            (got, view), (expected, _) = run(x, memories[0]), theirs(x, memories[1])
            same(got, expected)
            same(memories[0], memories[1])
            assert view.data_ptr() == memories[0].data_ptr()
    same(ours.count, torch.full((4,), 3.0))
    (graph,) = compiled.graphs()
    assert (graph.where, graph.programs) == ("tvm_ios", 1)


def test_changed_weights_are_seen(compiled: Any) -> None:
    model, x = nn.Linear(4, 4).eval(), torch.randn(3, 4)
    ours = compiled(model)
    with torch.no_grad():
        same(ours(x), model(x))
        model.weight.mul_(2)
        for _ in range(3):
            same(ours(x), model(x))
        model.load_state_dict({name: v + 1 for name, v in model.state_dict().items()})
        same(ours(x), model(x))
        model.weight.data = torch.randn(4, 4)
        same(ours(x), model(x))
        for step in range(4):
            model.bias.fill_(step)
            same(ours(x), model(x))
    assert where(compiled.graphs()) == OURS


def test_weight_that_keeps_changing_becomes_an_input(compiled: Any) -> None:
    model, x = nn.Linear(4, 4).eval(), torch.randn(3, 4)
    ours = compiled(model)
    with torch.no_grad():
        for step in range(8):
            model.weight.fill_(step)
            same(ours(x), model(x))
    (graph,) = compiled.graphs()
    assert graph.programs == 2
    assert graph.fallen_back < 4


def test_modules_of_one_code_have_a_program_each(compiled: Any) -> None:
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval() for _ in range(3)]
    run = compiled(lambda layer, x: layer(x))
    x = torch.randn(2, 4)
    with torch.no_grad():
        for layer in (*layers, *layers):
            same(run(layer, x), layer(x))
    assert sum(graph.programs for graph in compiled.graphs()) == 3
    assert sum(graph.fallen_back for graph in compiled.graphs()) == 0


def test_freed_weights_are_not_taken_for_new_ones() -> None:
    memory = torch.zeros(64)
    old, new = memory.view(8, 8).detach(), memory.view(8, 8).detach()
    snapshot = Snapshot([old])
    assert snapshot.holds([old])
    assert (new.data_ptr(), new._version) == (old.data_ptr(), old._version)
    assert not snapshot.holds([new])
    del old
    assert snapshot.is_gone


def test_ranges_of_shapes(compiled: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    ours = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (3, 7, 2, 64, 5):
            x = torch.randn(rows, 8)
            same(ours(x), model(x))
        x = torch.randn(300, 8)
        same(ours(x), model(x))
    (graph,) = compiled.graphs()
    assert (graph.where, graph.programs, graph.fallen_back) == ("tvm_ios", 2, 0)


def test_modules_of_float16(compiled: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval().half()
    ours = compiled(model)
    x = torch.randn(5, 8).half()
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x), rtol=5e-3, atol=5e-3)
    assert where(compiled.graphs()) == OURS


def test_too_many_weights(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_ios.torch_compile.compiled.LARGEST", 100)
    model = nn.Linear(8, 4).eval()
    x = torch.randn(2, 8)
    with torch.no_grad():
        same(compiled(model)(x), model(x))
    (graph,) = compiled.graphs()
    assert graph.where == "eager"
    assert "144 bytes of weights, too many" in graph.reason


def test_shapes_that_torch_finds_to_be_dynamic(compiled: Any) -> None:
    def scaled(x: Any, n: int) -> tuple[Any, int]:
        return (x * 2.0).softmax(-1)[:, :n], x.shape[0] * 2

    ours = compiled(scaled)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 6)
        same(ours(x, 4), scaled(x, 4))
    assert where(compiled.graphs()) == OURS


def test_graphs_without_one_program_for_a_range_have_one_for_each_shape(compiled: Any) -> None:
    def best(x: Any, n: int) -> tuple[Any, Any]:
        return x.sort(-1), x[:, :n] * n

    ours = compiled(best, dynamic=True)
    for columns, n in ((6, 2), (9, 2), (9, 4), (6, 2)):
        x = torch.randn(3, columns)
        same(ours(x, n), best(x, n))
    (graph,) = compiled.graphs()
    assert (graph.where, graph.programs, graph.fallen_back) == ("tvm_ios", 3, 0)
    assert graph.reason.startswith("one shape a program: ")


def test_graph_with_an_end_for_another_runtime_is_refused_before_kernels_are_compiled(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_ios.api.optimizer.optimize", pytest.fail)

    def places(x: Any) -> Any:
        return x.exp().nonzero()

    x = torch.randn(3, 4)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        same(compiled(places)(x), places(x))
    (graph,) = compiled.graphs()
    assert graph.where == "eager"
    assert "NonZero" in graph.reason


def test_translations_of_torch_are_read_once(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.onnx._internal.exporter import _registration

    reads: list[None] = []
    read = _registration.onnxscript_apis.get_torchlib_ops
    counted = lambda: (reads.append(None), read())[1]  # noqa: E731
    monkeypatch.setattr(_registration.onnxscript_apis, "get_torchlib_ops", counted)
    monkeypatch.setattr(exported, "_translations", {})
    before = vars(_registration.ONNXRegistry)["from_torchlib"]
    x = torch.randn(3, 5)
    for function in (torch.sinh, torch.cosh):
        same(compiled(lambda x, function=function: function(x) + 1)(x), function(x) + 1)
    assert where(compiled.graphs()) == OURS
    assert len(reads) == 1
    assert vars(_registration.ONNXRegistry)["from_torchlib"] is before


def test_statistics_of_the_batch_are_kept(compiled: Any) -> None:
    theirs, ours = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    run = compiled(ours)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(16, 4) + 3
            same(run(x), theirs(x))
    same(ours.running_mean, theirs.running_mean)
    same(ours.running_var, theirs.running_var)
    assert where(compiled.graphs()) == OURS


def test_outputs_have_the_strides_of_torch(compiled: Any) -> None:
    layer = nn.Linear(4, 6).eval()
    x = torch.randn(3, 4)

    def views(x: Any) -> tuple[Any, ...]:
        y = layer(x)
        return y.tanh()[:, None].expand(-1, 5, -1), y.exp().T.contiguous().T

    with torch.no_grad():
        got, expected = compiled(views)(x), views(x)
    same(got, expected)
    assert [y.stride() for y in got] == [y.stride() for y in expected]


def test_inputs_and_outputs_in_other_orders_of_memory(compiled: Any) -> None:
    model = nn.Conv2d(4, 4, 3, padding=1).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        got, expected = compiled(model)(x), model(x)
    same(got, expected)
    assert got.stride() == expected.stride()
    assert where(compiled.graphs()) == OURS


def test_training_is_left_to_torch_and_said_once(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "_warned", threading.Event())
    model, x = nn.Linear(4, 1), torch.randn(8, 4)
    ours = compiled(model)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loss = ours(x).square().mean()
        loss.backward()
        torch._dynamo.reset()
        ours(x)
    assert model.weight.grad is not None
    sentences = [str(w.message) for w in said if "tvm_ios" in str(w.message)]
    assert len(sentences) == 1
    assert "torch.no_grad()" in sentences[0]
    assert {graph.where for graph in compiled.graphs()} == {"eager"}
    with torch.no_grad():
        same(ours(x), model(x))
    assert compiled.graphs()[-1].where == "tvm_ios"


@pytest.mark.parametrize("fallback", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_what_we_lack_is_run_by_torch(compiled: Any, fallback: str) -> None:
    def drawn(x: Any) -> Any:
        return torch.linalg.svdvals(x) + 1

    x = torch.randn(4, 4)
    same(compiled(drawn, fallback=fallback)(x), drawn(x))
    (graph,) = compiled.graphs()
    assert graph.where == fallback
    assert "svd" in graph.reason
    assert (graph.calls, graph.fallen_back, graph.programs) == (1, 1, 0)
    report = tvm_ios.torch_report()
    assert report.counts[fallback] >= 1
    assert graph.reason in str(report)


def test_inductor_gets_the_graph_that_we_lack(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def compile_fx(graph: Any, inputs: Any) -> Any:
        given.append((graph, inputs))
        return lambda x: (x + 5,)

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    x = torch.ones(2, 2)
    ours = compiled(torch.linalg.svdvals, fallback="inductor")
    assert torch.equal(ours(x), x + 5)
    assert torch.equal(ours(x), x + 5)
    assert len(given) == 1
    assert compiled.graphs()[0].fallen_back == 2


def test_random_numbers_are_drawn_by_torch(compiled: Any) -> None:
    ours = compiled(lambda x: functional.dropout(x, 0.5))
    x = torch.ones(100)
    assert not torch.equal(ours(x), ours(x))
    assert compiled.graphs()[0].where == "eager"


def test_threads_share_a_program(compiled: Any) -> None:
    model = nn.Linear(32, 32).eval()
    ours = compiled(model)
    xs = [torch.randn(16, 32) for _ in range(4)]
    wrong: list[int] = []

    def run(number: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                if not torch.allclose(ours(xs[number]), model(xs[number]), atol=1e-5):
                    wrong.append(number)

    with torch.no_grad():
        ours(xs[0])
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compiled_graphs_are_cached_across_processes(cache: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys, torch, tvm_ios
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh()).eval()
            x = torch.randn(2, 6)
            options = dict(cache={str(cache)!r}, seconds=0, lanes=2)
            with torch.no_grad():
                y = torch.compile(model, backend="tvm_ios", options=options)(x)
                assert torch.allclose(y, model(x), atol=1e-5)
            (graph,) = tvm_ios.torch_report().graphs
            print(graph.where, graph.cached, "tvm" in sys.modules)
            """
        )
    )
    runs = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.split()[:2] for run in runs] == [["tvm_ios", "0"], ["tvm_ios", "1"]]
    # Of the second process nothing is compiled.
    assert runs[1].stdout.split()[2] == "False"


def test_damaged_cache_is_made_anew(compiled: Any, tmp_path: Path) -> None:
    model, x = nn.Linear(3, 3).eval(), torch.randn(2, 3)
    with torch.no_grad():
        same(compiled(model, cache=tmp_path)(x), model(x))
        (params,) = tmp_path.glob("torch/*/params.safetensors")
        params.write_bytes(params.read_bytes()[:-1] + b"x")
        torch._dynamo.reset()
        same(compiled(model, cache=tmp_path)(x), model(x))
    first, second = compiled.graphs()
    assert (first.cached, second.cached) == (0, 0)
    assert second.where == "tvm_ios"


def test_max_autotune_lets_policies_compete(
    cache: Path, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE", str(cache))
    model, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    ours = torch.compile(model, backend="tvm_ios", mode="max-autotune")
    with torch.no_grad():
        same(ours(x), model(x))
    assert compiled.graphs()[0].where == "tvm_ios"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lane": 2}, "no option 'lane'.*did you mean 'lanes'"),
        ({"fallback": "none"}, "fallback='none' is not one of eager, inductor"),
        ({"policy": "ois"}, "ois"),
        ({"lanes": 0}, "lanes=0"),
        ({"mode": "reduce-overhead"}, "is not one of default, max-autotune"),
        ({"precision": "float64"}, "float32, bfloat16"),
        ({"seconds": -1}, "seconds=-1"),
    ],
)
def test_wrong_options_are_refused(compiled: Any, options: dict[str, Any], sentence: str) -> None:
    ours = compiled(nn.Linear(2, 2).eval(), **options)
    with torch.no_grad(), pytest.raises((UserError, torch._dynamo.exc.BackendCompilerFailed)) as e:
        ours(torch.ones(1, 2))
    assert __import__("re").search(sentence, str(e.value))


def test_python_of_the_page_runs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE", str(cache))
    found: dict[str, Any] = {}
    exec(python_of(ROOT / "docs/doors.md"), found)
    assert tvm_ios.torch_report().graphs[-1].where == "tvm_ios"
    assert found["y"].shape == (4, 8)


def test_importing_tvm_ios_does_without_torch() -> None:
    code = "import sys, tvm_ios; print(tvm_ios.torch_report()); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nothing" in done.stdout
