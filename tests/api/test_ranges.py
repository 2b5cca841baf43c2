"""One program for a range of shapes: at every shape what the model is there."""

from __future__ import annotations

from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.executable import load
from runtime_ext.native_errors import SessionError
from tests.dynamic_models.drawing import Drawing
from tests.dynamic_models.dynamic import bert
from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.api import Options, optimize_range, ranges
from tvm_ios.api.ranges import RangeResult
from tvm_ios.contest.outputs import VerificationError, Verify, output_errors
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.shapes.extent import OpenExtentError
from tvm_ios.shapes.ranges import parse_ranges

RANGES = parse_ranges(["input_ids:1..8,1..32"])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, RangeResult]:
    """An encoder, its executable for a range, and the result."""
    folder = tmp_path_factory.mktemp("encoder")
    path, executable = folder / "bert.onnx", folder / "out"
    onnx.save(bert(), path)
    options = _options(2, policies=())
    return path, executable, optimize_range(str(path), RANGES, executable, options)


def _options(lanes: int, **others: Any) -> Options:
    from relay_passes.search_options import SearchOptions

    return Options(search=SearchOptions(lanes=lanes), **others)


def _words(batch: int, length: int, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    kept = generator.integers(0, 2, (batch, length))
    kept[:, 0] = 1
    return {"input_ids": generator.integers(0, 50, (batch, length)), "attention_mask": kept}


def test_the_result_says_what_was_compared_and_timed(
    encoder: tuple[Path, Path, RangeResult],
) -> None:
    _, executable, result = encoder
    assert result.symbols == {"batch": "1..8", "sequence": "1..32"}
    assert result.executable == executable
    assert result.reference is not None
    assert result.error is not None
    assert result.error < 1e-5
    assert {"batch": 8, "sequence": 32} in result.compared
    assert {"batch": 1, "sequence": 1} in result.compared
    assert [point.values["sequence"] for point in result.points] == [1, 6, 32]
    arenas = [point.arena for point in result.points]
    assert arenas == sorted(arenas)
    assert result.to_json()["executable"] == str(executable)


def test_what_edges_carry_is_added_up_for_graphs_of_any_size(tmp_path: Path) -> None:
    d = Drawing(opset=18)
    nodes = d.input("nodes", "count", 24)
    edges = d.input("edges", 2, "links", dtype=onnx.TensorProto.INT64)
    ends = d.op("Split", edges, outputs=2, axis=0, num_outputs=2)
    first, last = (d.op("Squeeze", end, d.ints(0)) for end in ends)
    sent = d.op("Relu", d.linear(d.op("Gather", nodes, first, axis=0), 24, 24))
    places = d.op("Expand", d.op("Unsqueeze", last, d.ints(1)), d.op("Shape", sent))
    empty = d.op("Mul", nodes, d.const(np.zeros(1)))
    added = d.op("ScatterElements", empty, places, sent, axis=0, reduction="add")
    path = tmp_path / "graph.onnx"
    onnx.save(d.finished({"added": added}), path)
    given_ranges = parse_ranges(["nodes:2..60,24", "edges:2,1..200"])
    optimize_range(str(path), given_ranges, tmp_path / "out", _options(2, policies=()))
    draw, reference = np.random.default_rng(0), onnxruntime.InferenceSession(path)
    with closing(load(tmp_path / "out").session("poisoning")) as session:
        for count, links in ((2, 1), (60, 200), (17, 5), (60, 1), (2, 200)):
            x = draw.standard_normal((count, 24)).astype(np.float32)
            inputs = {"nodes": x, "edges": draw.integers(0, count, (2, links))}
            session.run(**inputs)
            ours = [session.get_output(0)]
            assert output_errors(ours, reference.run(None, inputs))[1] < 1e-6


@pytest.mark.parametrize("executor", ["native", "poisoning"])
def test_a_saved_program_computes_every_shape_in_any_order(
    encoder: tuple[Path, Path, RangeResult], executor: Any
) -> None:
    path, executable, _ = encoder
    session = load(executable).session(executor)
    reference = onnxruntime.InferenceSession(path)

    @examples(25)
    @given(st.integers(1, 8), st.integers(1, 32), st.integers(0, 9))
    def compare(batch: int, length: int, seed: int) -> None:
        inputs = _words(batch, length, seed)
        session.run(**inputs)
        outputs = [session.get_output(place) for place in range(2)]
        assert output_errors(outputs, reference.run(None, inputs))[1] < 1e-5

    compare()
    session.close()


def test_requests_of_different_lengths_are_served_at_once(
    encoder: tuple[Path, Path, RangeResult],
) -> None:
    path, executable, _ = encoder
    reference = onnxruntime.InferenceSession(path)
    requests = [_words(1 + n % 3, 1 + 7 * n % 32, n) for n in range(12)]
    session = load(executable).session()
    for request, outputs in zip(requests, session.run_many(requests), strict=True):
        ours = list(outputs.values()) if isinstance(outputs, dict) else list(outputs)
        assert output_errors(ours, reference.run(None, request))[1] < 1e-5


def test_shapes_outside_of_the_range_are_refused_and_the_session_goes_on(
    encoder: tuple[Path, Path, RangeResult],
) -> None:
    session = load(encoder[1]).session()
    session.run(**_words(2, 5))
    for inputs in (_words(9, 5), _words(2, 33)):
        with refused(SessionError, "input_ids"):
            session.run(**inputs)
    with refused(SessionError, "attention_mask"):
        session.run(input_ids=np.ones((2, 5), np.int64), attention_mask=np.ones((2, 6), np.int64))
    session.run(**_words(2, 5))


def test_random_inputs_have_the_shapes_that_are_asked_for(
    encoder: tuple[Path, Path, RangeResult],
) -> None:
    session = load(encoder[1]).session()
    inputs = session.random_inputs(0, {"input_ids": (3, 17)})
    assert {value.shape for value in inputs.values()} == {(3, 17)}
    with refused(SessionError, "input_ids", "beside the others"):
        session.random_inputs(0, {"input_ids": (3, 17), "attention_mask": (3, 16)})


def test_a_program_that_computes_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bert.onnx"
    onnx.save(bert(), path)

    def shifted(*_: object) -> Any:
        raise VerificationError("the outputs differ")

    monkeypatch.setattr("tvm_ios.api.range_outputs.verify_outputs", shifted)
    with pytest.raises(VerificationError):
        optimize_range(str(path), RANGES, tmp_path / "out", _options(1))
    assert not (tmp_path / "out").exists()


def test_nothing_is_compared_if_nobody_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "sum.onnx"
    onnx.save(_sum(), path)
    options = _options(1, verify=Verify.off)
    result = optimize_range(str(path), parse_ranges(["x:1..4,1..9,8"]), None, options)
    assert (result.error, result.reference, result.compared) == (None, None, ())


def _sum() -> Any:
    d = Drawing()
    x = d.input("x", "batch", "length", 8)
    return d.finished({"y": d.op("Add", d.op("Relu", x), d.normal(8))})


def test_a_model_that_is_no_one_graph_in_the_range_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bert.onnx"
    onnx.save(bert(), path)
    with refused(OpenExtentError, "sequence"):
        optimize_range(str(path), parse_ranges(["input_ids:1..8,1..64"]), None, _options(1))


def test_an_interrupted_search_leaves_the_sequential_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ranges, "_scheduled", interrupted)
    path = tmp_path / "bert.onnx"
    onnx.save(bert(), path)
    with pytest.raises(KeyboardInterrupt):
        optimize_range(str(path), RANGES, tmp_path / "out", _options(2))
    saved = load(tmp_path / "out")
    assert saved.notes["schedules"] == []
    session, inputs = saved.session(), _words(3, 7)
    session.run(**inputs)
    expected = onnxruntime.InferenceSession(path).run(None, inputs)
    assert output_errors([session.get_output(n) for n in range(2)], expected)[1] < 1e-5


@pytest.fixture
def convolutions(tmp_path: Path) -> str:
    """Two convolutions of images of any size, with enough channels for Winograd's filtering."""
    d = Drawing()
    x = d.input("x", 1, 32, "height", "width")
    for _ in range(2):
        x = d.op("Relu", d.op("Conv", x, d.normal(32, 32, 3, 3), pads=[1, 1, 1, 1]))
    path = tmp_path / "convolutions.onnx"
    onnx.save(d.finished({"y": x}), path)
    return str(path)


IMAGES = parse_ranges(["x:1,32,16..64,16..64"])


def _timed_as(monkeypatch: pytest.MonkeyPatch, *fastest: str) -> None:
    """Let every unit be fastest in one form, or in one at each of the timed shapes."""
    from tvm_ios.measuring.chosen_forms import ChosenForms

    shapes = cycle(fastest)

    def compiled(self: Any, pieces: Any, progress: Any = None) -> None:
        best = next(shapes)
        forms = self._kernels.compile_forms({str(i): self._source(u) for i, u in enumerate(pieces)})
        for i, units in enumerate(pieces):
            timed = {f.key: (f, 0.5 if f.name == best else 1.0) for f in forms[str(i)]}
            self._compiled.timed[units] = timed

    monkeypatch.setattr(ChosenForms, "compile", compiled)


def test_units_have_the_form_that_is_fastest_in_the_range(
    convolutions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _timed_as(monkeypatch, "winograd-4")
    result = optimize_range(convolutions, IMAGES, tmp_path / "out", _options(2, policies=()))
    assert result.forms == {"winograd-4": 2}
    assert result.left_out == ""
    assert result.error is not None
    assert result.error < 1e-4
    saved = load(tmp_path / "out")
    assert set(saved.schedule["kernels"].values()) == {"winograd-4"}
    session = onnxruntime.InferenceSession(convolutions)
    for executor in ("native", "poisoning"):
        with closing(saved.session(executor)) as ours:
            for height, width in ((16, 16), (64, 64), (33, 18), (17, 61)):
                x = np.random.default_rng(0).standard_normal((1, 32, height, width), np.float32)
                (want,) = session.run(None, {"x": x})
                ours.run(x=x)
                assert output_errors([ours.get_output(0)], [want])[1] < 1e-4


def _faster_at_the_most_extents(
    built: Any, candidates: Any, contests: Any, *_: Any, **others: Any
) -> list[dict[int, PairedRatio]]:
    ratios = dict.fromkeys(range(len(candidates)), PairedRatio(0.5, 0.4, 0.6, 9))
    return [ratios if set(cell.point.values()) == {64} else {} for cell, _ in contests]


@pytest.mark.parametrize("lanes", [1, 2])
def test_units_have_other_forms_in_a_box_where_these_are_faster(
    convolutions: str, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _timed_as(monkeypatch, "", "", "winograd-4")
    monkeypatch.setattr("tvm_ios.api.range_schedules._faster", _faster_at_the_most_extents)
    # Fast runs of tests search at fewer.
    monkeypatch.setattr("tvm_ios.api.range_schedules._SEARCHED", 9)
    options = _options(lanes, policies=("sequential",))
    result = optimize_range(convolutions, IMAGES, tmp_path / "out", options)
    assert result.forms == {}
    (kept,) = result.schedules
    assert kept.forms == {"winograd-4": 2}
    assert kept.boxes == ({"height": (46, 64), "width": (46, 64)},)
    saved = load(tmp_path / "out")
    assert "kernels" not in saved.at_shapes({"x": (1, 32, 45, 64)}).schedule
    inside = saved.at_shapes({"x": (1, 32, 46, 64)})
    assert set(inside.schedule["kernels"].values()) == {"winograd-4"}
    session = onnxruntime.InferenceSession(convolutions)
    for executor in ("native", "poisoning"):
        with closing(saved.session(executor)) as ours:
            for height, width in ((16, 16), (64, 64), (33, 18), (46, 47), (45, 64)):
                x = np.random.default_rng(0).standard_normal((1, 32, height, width), np.float32)
                (want,) = session.run(None, {"x": x})
                ours.run(x=x)
                error = output_errors([ours.get_output(0)], [want])[1]
                # Winograd's filtering rounds otherwise than products do.
                assert error < 1e-4
                assert (error > 0) or min(height, width) < 46


@pytest.mark.parametrize(("verify", "why"), [(Verify.off, "nothing is compared"), (None, "differ")])
def test_forms_that_round_too_much_are_left_out(
    convolutions: str, verify: Verify | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _timed_as(monkeypatch, "winograd-6")
    monkeypatch.setattr("tvm_ios.api.range_outputs.LARGEST", 1e-9)
    given = {} if verify is None else {"verify": verify}
    result = optimize_range(convolutions, IMAGES, None, _options(1, **given))
    assert result.forms == {}
    assert "winograd-6 left out" in result.left_out
    assert why in result.left_out


@pytest.mark.slow
def test_a_budget_that_only_the_direct_kernels_hold_leaves_the_forms_out(
    convolutions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def peak(**others: Any) -> tuple[int, Any]:
        result = optimize_range(convolutions, IMAGES, None, _options(1, **others))
        return max(point.arena for point in result.points), result.forms

    monkeypatch.setattr("runtime_ext.cpu.forms.winograd.estimate._NEAR_BYTES", 1 << 40)
    _timed_as(monkeypatch, "")
    direct, _ = peak()
    _timed_as(monkeypatch, "winograd-4")
    filtered, forms = peak()
    assert filtered > direct
    assert forms
    assert peak(memory_budget=direct) == (direct, {})
