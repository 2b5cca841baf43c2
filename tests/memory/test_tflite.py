"""Models of TensorFlow Lite: ordered, placed, written, and run by TensorFlow Lite Micro."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tflite_micro")

from tests.fast_run import examples
from tests.memory.tiny_models import TINY_MODELS
from tests.refusals import refused, require_names
from tests.tflite_sketch import TfliteSketch, opened, run_micro, schema
from tvm_ios.errors import ModelError, UserError
from tvm_ios.memory.formats.tflite.micro_arena import micro_arena
from tvm_ios.memory.formats.tflite.model import read_tflite
from tvm_ios.memory.formats.tflite.planning import PlannedModel, plan_tflite
from tvm_ios.memory.formats.tflite.schema import PLAN_NAME

#: Of the ten models those that gain, by an order or by offsets.
GAIN = {"mobilenet_quarter", "inception", "nasnet", "randwire", "unet", "detector"}


@cache
def planned(name: str) -> tuple[bytes, PlannedModel]:
    data = TINY_MODELS[name]()
    return data, plan_tflite(data)


def check(data: bytes, found: PlannedModel, times: int = 1) -> None:
    """The interpreter needs what was computed, never more than before, for equal outputs."""
    before, after = run_micro(data, times=times), run_micro(found.data, times=times)
    assert (before.head, after.head) == (found.nbytes_before, found.nbytes)
    assert found.bound <= after.head
    assert after.head + after.tail <= before.head + before.tail
    assert found.reordered or before.tail == after.tail
    for old, new in zip(before.outputs, after.outputs, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", TINY_MODELS)
def test_ten_models_need_the_least_arena_and_compute_the_same(name: str) -> None:
    data, found = planned(name)
    check(data, found)
    assert found.proven
    assert (found.nbytes < found.nbytes_before) == (name in GAIN)
    # A file that gains nothing is left as it was.
    assert (found.data == data) == (name not in GAIN)


@pytest.mark.parametrize("name", sorted(GAIN))
def test_all_but_the_order_and_the_plan_is_kept_byte_for_byte(name: str) -> None:
    data, found = planned(name)
    body = found.data[len(found.data) - len(data) :]
    lists = [graph.listed for graph in read_tflite(data).subgraphs]
    listed = {byte for each in lists for byte in range(each.at, each.at + 4 * each.count)}
    assert {at for at, pair in enumerate(zip(data, body, strict=True)) if pair[0] != pair[1]} <= (
        listed if found.reordered else set()
    )
    # What follows the front stays aligned, and so is the plan.
    assert (len(found.data) - len(data)) % 64 == 0
    if found.offsets is not None:
        assert found.data.index(np.asarray(found.offsets, np.int32).tobytes()) % 16 == 12


def described(model: object) -> object:
    """What an object of the schema says, to compare."""
    if isinstance(model, np.ndarray):
        return model.tobytes()
    if isinstance(model, list):
        return [described(each) for each in model]
    return (
        {k: described(v) for k, v in vars(model).items()} if hasattr(model, "__dict__") else model
    )


def rich_model() -> bytes:
    """A model that gains, with metadata, a signature and names."""
    s = TfliteSketch()
    s.metadata("min_runtime_version", b"1.5.0")
    x = s.input(1, 8, 8, 4)
    wide = [s.conv(x, 8, 1) for _ in range(3)]
    narrow = [s.conv(w, 1, 1) for w in wide]
    y = s.concat(*narrow)
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "serving_default", 0
    signature.inputs, signature.outputs = [schema.TensorMapT()], [schema.TensorMapT()]
    signature.inputs[0].name, signature.inputs[0].tensorIndex = "image", x
    signature.outputs[0].name, signature.outputs[0].tensorIndex = "result", y
    s.model.signatureDefs = [signature]
    return s.file(y)


def test_the_written_model_says_the_same_but_for_the_order_and_the_plan() -> None:
    data = rich_model()
    found = plan_tflite(data)
    check(data, found)
    assert found.reordered
    old, new = opened(data), opened(found.data)
    operators = old.subgraphs[0].operators
    old.subgraphs[0].operators = [operators[number] for number in found.orders[0]]
    if found.offsets is not None:
        *new.metadata, entry = new.metadata
        *new.buffers, buffer = new.buffers
        assert entry.name == PLAN_NAME.encode()
        assert entry.buffer == len(new.buffers)
        numbers = buffer.data.view(np.int32).tolist()
        assert numbers == [0, 0, len(found.offsets), *found.offsets]
    assert described(old) == described(new)


def test_a_plan_is_replaced_where_it_lies() -> None:
    _, found = planned("nasnet")
    again = plan_tflite(found.data)
    # A model that is planned already is left as it is.
    assert again.data == found.data
    assert again.offsets == found.offsets
    # A plan in which nothing shares memory is taken over.
    model = read_tflite(found.data)
    sizes = [-(-tensor.nbytes // 16) * 16 for tensor in model.tensors]
    apart = np.cumsum([0, *sizes])[:-1]
    apart[[n for n, tensor in enumerate(model.tensors) if tensor.constant]] = -1
    old, new = (np.asarray(each, np.int32).tobytes() for each in (found.offsets, apart))
    assert found.data.count(old) == 1
    worse = found.data.replace(old, new)
    better = plan_tflite(worse)
    check(worse, better)
    assert better.nbytes == found.nbytes < better.nbytes_before
    assert len(better.data) == len(worse)


def test_views_take_no_memory() -> None:
    s = TfliteSketch()
    x = s.flat(s.conv(s.input(1, 8, 8, 4), 16))
    y = s.reshape(x, 1, 4, 16, 16)
    found = plan_tflite(data := s.file(s.conv(y, 2), s.reshape(y, 1, 1024, 1)))
    check(data, found)
    assert found.nbytes_before >= 2 * 1024
    # The convolution's input, which is an output too, and its other output.
    assert found.nbytes == found.bound == 1024 + 256 or found.nbytes < found.nbytes_before


def test_element_wise_operators_write_over_an_input_where_they_may() -> None:
    s = TfliteSketch()
    x = s.conv(s.input(1, 16, 16, 2), 8)
    y = s.unary(x, "HARD_SWISH")
    data = s.file(s.mean(s.add(y, s.add(y, x, "Mul"))))
    plain, found = plan_tflite(data), plan_tflite(data, in_place=True)
    check(data, plain)
    check(data, found)
    assert found.nbytes == found.bound < plain.nbytes == plain.bound


def test_nothing_is_written_over_an_input_that_is_repeated() -> None:
    s = TfliteSketch(np.float32)
    # Each takes 16 bytes of the arena.
    two, four, y = s.input(2, 1), s.input(2, 2), s.tensor([2, 2])
    s.operator("MUL", [two, four], [y], kind="MulOptions")
    found = plan_tflite(data := s.file(y), in_place=True)
    check(data, found)
    assert (found.nbytes_before, found.nbytes) == (48, 32)


def int4_weights(s: TfliteSketch, x: int) -> int:
    y = s.conv(x, 8, 3)
    weights = s.graph.tensors[s.graph.operators[-1].inputs[1]]
    weights.type = schema.TensorType.INT4
    buffer = s.model.buffers[weights.buffer]
    buffer.data = buffer.data[: len(buffer.data) // 2]
    return y


def add_n(s: TfliteSketch, x: int) -> int:
    y = s.tensor(s.shape(x))
    s.operator("ADD_N", [x] * 5, [y], kind="AddNOptions")
    return y


def mirror_pad(s: TfliteSketch, x: int) -> int:
    y = s.tensor([1, 10, 8, 4])
    pads = s.tensor([4, 2], np.int32, [0, 0, 1, 1, 0, 0, 0, 0])
    s.operator("MIRROR_PAD", [x, pads], [y], kind="MirrorPadOptions")
    return y


def reduce_max(s: TfliteSketch, x: int) -> int:
    y, axes = s.tensor([1, 4]), s.tensor([2], np.int32, [1, 2])
    s.operator("REDUCE_MAX", [x, axes], [y], kind="ReducerOptions", keepDims=False)
    return y


def svdf_state(s: TfliteSketch) -> int:
    return s.tensor([1, 80], np.int16, scales=[1 / 1024], zero=0, variable=True)


def svdf(s: TfliteSketch, x: int, state: int | None = None) -> int:
    """Add an SVDF of 40 units of rank 1 that remembers two steps."""
    units, steps = 40, 2
    flat = s.flat(x)
    (_, depth) = s.shape(flat)
    y, scales = s.tensor([1, units]), [1 / 1024]
    feature = s.tensor([units, depth], data=s.rng.integers(-9, 9, (units, depth)), zero=0)
    weights = s.tensor([units, steps], np.int16, s.rng.integers(-99, 99, (units, steps)), scales, 0)
    bias = s.tensor([units], np.int32, s.rng.integers(-99, 99, units), [scales[0] ** 2], 0)
    state = svdf_state(s) if state is None else state
    s.operator("SVDF", [flat, feature, weights, bias, state], [y], kind="SVDFOptions", rank=1)
    return y


def lstm(s: TfliteSketch, x: int) -> int:
    units, depth = 12, 4
    x = s.reshape(x, 1, 64, depth)
    inputs = [x]
    inputs += [s.tensor([units, d], data=s.rng.normal(0, 0.3, (units, d))) for d in [depth] * 4]
    inputs += [s.tensor([units, units], data=s.rng.normal(0, 0.3, (units, units))) for _ in "1234"]
    inputs += [-1] * 3 + [s.tensor([units], data=s.rng.normal(0, 0.3, units)) for _ in "1234"]
    inputs += [-1] * 2 + [s.tensor([1, units], variable=True) for _ in "12"] + [-1] * 4
    y = s.tensor([1, 64, units])
    s.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y],
        kind="UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4,
    )  # fmt: skip
    return y


@pytest.mark.parametrize(
    ("add", "dtype", "scratch"),
    [
        (int4_weights, np.int8, 288),
        (add_n, np.int8, 48),
        (add_n, np.float32, 48),
        (mirror_pad, np.int8, 32),
        (reduce_max, np.int8, 32),
        (svdf, np.int8, 320),
        (lstm, np.float32, 4 * 48),
        (lambda s, x: s.enlarge(x, 3), np.int8, 4 * 3 * 256),
        (lambda s, x: s.mean(x), np.float32, 32),
    ],
)
def test_scratch_is_counted_as_kernels_ask_for_it(
    add: Callable[[TfliteSketch, int], int], dtype: type, scratch: int
) -> None:
    s = TfliteSketch(dtype)
    y = add(s, s.input(1, 8, 8, 4))
    data = s.file(y)
    found = plan_tflite(data)
    # States of the kernel go from run to run.
    check(data, found, times=3)
    model = read_tflite(data)
    arena = micro_arena(model, [range(len(model.subgraphs[0].operators))])
    assert sum(span.size for span in arena.scratch) == scratch


@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_random_graphs_need_what_was_computed(seed: int) -> None:
    s = TfliteSketch(seed=seed)
    rng = np.random.default_rng(seed)
    tensors = [s.input(1, 4, 4, 8), s.input(1, 4, 4, 4)]
    for _ in range(int(rng.integers(4, 14))):
        one, other = (tensors[n] for n in rng.integers(max(0, len(tensors) - 5), len(tensors), 2))
        match int(rng.integers(7)):
            case 0 if s.shape(one) == s.shape(other):
                made = s.add(one, other)
            case 1 | 0:
                made = s.concat(one, other)
            case 2:
                made = s.reshape(s.flat(one), *s.shape(one))
            case 3:
                made = s.unary(one, "RELU")
            case 4:
                made = int4_weights(s, one)
            case _:
                made = s.conv(one, int(rng.integers(1, 24)), 1)
        tensors.append(made)
    outputs = dict.fromkeys([tensors[-1], tensors[int(rng.integers(2, len(tensors)))]])
    data = s.file(*outputs)
    for in_place in (False, True):
        check(data, plan_tflite(data, in_place=in_place))


def test_operators_of_one_variable_keep_their_order() -> None:
    s = TfliteSketch(np.float32)
    x = s.input(1, 16)
    handle = s.tensor([1], np.int32)
    s.graph.tensors[handle].type = schema.TensorType.RESOURCE
    s.operator("VAR_HANDLE", [], [handle], kind="VarHandleOptions", sharedName="v", container="")
    wide = s.dense(x, 400)
    old, new = s.tensor([1, 16]), s.tensor([1, 16])
    s.operator("ASSIGN_VARIABLE", [handle, x], [], kind="AssignVariableOptions")
    s.operator("READ_VARIABLE", [handle], [old], kind="ReadVariableOptions")
    narrow = s.dense(wide, 16)
    s.operator("ASSIGN_VARIABLE", [handle, narrow], [], kind="AssignVariableOptions")
    s.operator("READ_VARIABLE", [handle], [new], kind="ReadVariableOptions")
    wider = s.dense(x, 300)
    data = s.file(s.concat(old, new, s.dense(wider, 4)))
    found = plan_tflite(data)
    check(data, found, times=2)
    assert [n for n in found.orders[0] if n in (0, 2, 3, 5, 6)] == [0, 2, 3, 5, 6]


def test_operators_with_one_state_keep_their_order() -> None:
    s = TfliteSketch()
    x, big, state = s.input(1, 16), s.input(1, 2000), svdf_state(s)
    first = svdf(s, s.dense(s.dense(x, 1500), 16), state)
    # It would better be the first, to be rid of its input.
    second = svdf(s, big, state)
    data = s.file(s.concat(first, second))
    found = plan_tflite(data)
    check(data, found, times=3)
    assert found.nbytes > 3500


def branches(s: TfliteSketch, x: int, count: int = 3) -> int:
    """Add branches, the first operators of all before their second ones."""
    wide = [s.dense(x, 256) for _ in range(count)]
    return s.concat(*(s.dense(w, 16) for w in wide))


def while_loop() -> bytes:
    """Run three times what makes a vector out of another one, and one counts."""
    s = TfliteSketch(np.float32)
    count, x = s.input(1, dtype=np.int32), s.input(1, 48)
    y = branches(s, x)
    ends = s.tensor([1], np.int32), s.tensor([1, 48])
    s.operator(
        "WHILE", [count, y], ends, kind="WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2
    )
    s.graph.outputs = [*ends, branches(s, ends[1])]
    s.subgraph()
    count, _ = s.input(1, dtype=np.int32), s.input(1, 48)
    less, limit = s.tensor([1], np.bool_), s.tensor([1], np.int32, [3])
    s.operator("LESS", [count, limit], [less])
    s.graph.outputs = [less]
    s.subgraph()
    count, x = s.input(1, dtype=np.int32), s.input(1, 48)
    more, one = s.tensor([1], np.int32), s.tensor([1], np.int32, [1])
    s.operator("ADD", [count, one], [more], kind="AddOptions")
    s.graph.outputs = [more, branches(s, x)]
    return s.file()


def condition() -> bytes:
    """Run one of two subgraphs, which are listed in either order."""
    s = TfliteSketch(np.float32)
    x = s.input(1, 32)
    zero, positive = s.tensor([1, 1], data=[[0.0]]), s.tensor([1, 1], np.bool_)
    s.operator("GREATER", [s.dense(x, 1, 0), zero], [positive])
    y = s.tensor([1, 48])
    s.operator("IF", [positive, x], [y], kind="IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    s.graph.outputs = [branches(s, y), y]
    for count in (3, 4):
        s.subgraph()
        s.graph.outputs = [s.dense(branches(s, s.input(1, 32), count), 48)]
    return s.file()


@pytest.mark.parametrize("make", [while_loop, condition])
def test_subgraphs_are_ordered_and_placed_with_their_callers(make: Callable[[], bytes]) -> None:
    data = make()
    found = plan_tflite(data)
    check(data, found, times=3)
    assert all(order != tuple(range(len(order))) for order in found.orders if len(order) > 3)
    assert found.nbytes < found.nbytes_before


def test_tensors_that_share_their_number_with_a_variable_are_left_to_the_device() -> None:
    s = TfliteSketch()
    x = s.input(1, 8, 8, 4)
    truth, wide = s.tensor([1, 1], np.bool_, [[True]]), s.conv(x, 16)
    wider = s.unary(s.conv(s.reshape(wide, 1, 8, 8, 16), 32, 1), "HARD_SWISH")
    y, out = s.conv(wider, 4, 1), s.tensor([1, 40])
    s.operator("IF", [truth, y], [out], kind="IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=1)
    s.graph.outputs = [out]
    s.subgraph()
    inside = s.input(1, 8, 8, 4)
    while (state := svdf_state(s)) < wide:
        s.graph.tensors[state].isVariable = False
    s.graph.outputs = [svdf(s, inside, state)]
    found = plan_tflite(data := s.file(), in_place=True)
    check(data, found, times=3)
    assert found.offsets is not None
    assert found.offsets[state] == -1


def test_a_model_whose_subgraphs_have_no_operators_is_left_as_it_is() -> None:
    s = TfliteSketch()
    x = s.input(1, 16)
    data = s.file(x)
    found = plan_tflite(data)
    assert (found.data, found.nbytes, found.bound) == (data, 16, 16)


def damaged(change: Callable[[TfliteSketch], None]) -> bytes:
    s = TfliteSketch()
    y = s.conv(s.conv(s.input(1, 8, 8, 4), 8), 4)
    s.graph.outputs = [y]
    change(s)
    return s.file()


def outside(s: TfliteSketch) -> None:
    s.model.buffers[1].data, s.model.buffers[1].offset, s.model.buffers[1].size = None, 4096, 288


def custom(s: TfliteSketch) -> None:
    s.operator("CUSTOM", [0], [s.tensor([1, 4])])
    s.metadata(PLAN_NAME, np.asarray([0, 0, 8, *[0] * 8], np.int32).tobytes())


def renumber(number: int) -> Callable[[TfliteSketch], None]:
    def change(s: TfliteSketch) -> None:
        s.graph.operators[1].inputs[0] = number

    return change


def tensor_says(**fields: object) -> Callable[[TfliteSketch], None]:
    def change(s: TfliteSketch) -> None:
        for name, value in fields.items():
            setattr(s.graph.tensors[2], name, value)

    return change


def endless(s: TfliteSketch) -> None:
    s.operator("CALL_ONCE", [], [], kind="CallOnceOptions", initSubgraphIndex=0)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (outside, ("outside",)),
        (custom, ("custom operators",)),
        (renumber(99), ("99", "7")),
        (lambda s: s.graph.operators.reverse(), ("t2", "t5")),
        (tensor_says(type=schema.TensorType.STRING), ("t2", "5")),
        (tensor_says(shape=[-1, 8, 8, 8]), ("t2", "dimension")),
        (tensor_says(shape=[1 << 20, 1 << 20]), ("t2", 1 << 40)),
        (tensor_says(externalBuffer=1), ("outside",)),
        (endless, ("subgraphs",)),
        (lambda s: s.operator("RELU", [0], [2]), ("t2",)),
    ],
)
def test_what_cannot_be_planned_is_refused(
    change: Callable[[TfliteSketch], None], names: tuple[object, ...]
) -> None:
    with refused(UserError, *names):
        plan_tflite(damaged(change))


def test_files_that_are_cut_off_are_refused() -> None:
    data = rich_model()
    for length in range(0, len(data), 7):
        with pytest.raises(ModelError):
            plan_tflite(data[:length])
    with refused(ModelError, "TFL3"):
        plan_tflite(b"no model at all")


@examples(300)
@given(st.integers(0, 2**32 - 1))
def test_damaged_files_are_refused_or_planned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(rich_model())
    for at in rng.integers(0, len(data), 3):
        data[at] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)])
    try:
        found = plan_tflite(bytes(data), time_limit=1.0)
    except UserError as error:
        require_names(str(error))
    else:
        assert found.nbytes <= found.nbytes_before
