"""Convolutions by Winograd's filtering: in any partition the same bits, as TVM's within bounds."""

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import (
    AVX512,
    compiler,
    make_unit,
    random_tensors,
    reference,
    run_unit,
    scaled,
    shape_of,
)

op = relax.op
#: To the largest output, on random data: some times what is seen.
BOUNDS = {"winograd-2": 4e-6, "winograd-4": 1e-5, "winograd-6": 5e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("kernels"))


def conv(data, out, kernel=(3, 3), pads=(1, 1, 1, 1), residual=False):
    """A convolution with a bias, and perhaps a residual, before a relu."""
    batch, channels, height, width = data
    rows = height + pads[0] + pads[2] - kernel[0] + 1
    columns = width + pads[1] + pads[3] - kernel[1] + 1

    def body(emit, x, *others):
        *added, weight, bias = others
        value = emit(op.add(emit(op.nn.conv2d(x, weight, padding=pads)), bias))
        for other in added:
            value = emit(op.add(value, other))
        return op.nn.relu(value)

    inputs = [data, *([(batch, out, rows, columns)] if residual else [])]
    return make_unit(inputs, [(out, channels, *kernel), (1, out, 1, 1)], body)


def check_forms(folder, function, layouts, names=tuple(BOUNDS), seed=0):
    """Each form has TVM's results within its bound, in random partitions the same bits."""
    kernels, source = compiler(folder), UnitSource(function, tuple(layouts))
    count = int(function.attrs["num_input"])
    arguments = random_tensors([shape_of(p.ty) for p in function.params], seed)
    arguments[count:] = [scaled(a) if a.ndim == 4 else a for a in arguments[count:]]
    inputs, constants = arguments[:count], arguments[count:]
    want = reference(function, arguments)
    shapes = [each.shape for each in want]
    rng = np.random.default_rng(seed)

    def cuts(tiles):
        return [0, *sorted(rng.integers(0, tiles + 1, 3).tolist()), tiles]

    assert set(names) <= set(kernels.rkernels(source))
    for name in names:
        unit = kernels.compile_rkernels({"u": source}, only={"u": name})["u"][name]
        assert unit.name == name
        assert unit.forms[:2] == ("winogradinput", "winogradoutput")
        got = run_unit(kernels, unit, layouts, inputs, constants, shapes=shapes)
        for have, wish in zip(got, want, strict=True):
            error = float(np.abs(have - wish).max() / np.abs(wish).max())
            assert error <= BOUNDS[name], f"{name}: {error}"
        parts = run_unit(kernels, unit, layouts, inputs, constants, cuts, shapes)
        assert [p.tobytes() for p in parts] == [g.tobytes() for g in got]


NHWC = ("NHWC", "NHWC")


@pytest.mark.parametrize(
    ("data", "out", "options"),
    [
        ((1, 16, 14, 14), 32, {}),
        # Tiles at the right and at the bottom that are cut short; channels that fill no vector.
        ((1, 13, 9, 11), 20, {"residual": True}),
        ((3, 9, 7, 5), 40, {"pads": (0, 2, 1, 0)}),
        # More tiles than a block has.
        ((2, 8, 30, 19), 8, {"pads": (0, 0, 0, 0)}),
    ],
)
def test_convolutions_of_three_by_three(folder, data, out, options):
    layouts = ("NHWC",) * (3 if options.get("residual") else 2)
    check_forms(folder, conv(data, out, **options), layouts)


def test_images_as_the_model_has_them(folder):
    check_forms(folder, conv((1, 10, 8, 8), 12), ("", ""), ["winograd-4"])


def test_filters_of_five_by_five(folder):
    function = conv((1, 12, 11, 10), 16, (5, 5), (2, 2, 2, 2))
    check_forms(folder, function, NHWC, ["winograd-2", "winograd-4"])


@pytest.mark.parametrize(
    ("kernel", "pads"),
    [((1, 7), (0, 3, 0, 3)), ((7, 1), (3, 0, 3, 0)), ((1, 3), (0, 1, 0, 1)), ((3, 1), (0,) * 4)],
)
def test_filters_of_one_row_or_column_are_filtered_along_one_axis(folder, kernel, pads):
    check_forms(folder, conv((2, 20, 17, 17), 24, kernel, pads), NHWC)


def test_filters_that_are_longer_along_one_axis(folder):
    check_forms(folder, conv((1, 8, 11, 10), 16, (3, 7), (1, 3, 1, 3)), NHWC, ["winograd-2"])


def test_what_is_read_is_activated_first_and_borders_stay_zero(folder):
    def body(emit, x, weight):
        active = emit(op.add(x, relax.const(1.0, "float32")))
        return op.nn.conv2d(active, weight, padding=(1, 1))

    check_forms(folder, make_unit([(1, 8, 10, 10)], [(3, 8, 3, 3)], body), NHWC, ["winograd-4"])


def test_results_that_are_split(folder):
    """Merged convolutions: each part of the channels is stored by itself, and padded by itself."""

    def body(emit, x, weight):
        whole = emit(op.nn.conv2d(x, weight, padding=(1, 1)))
        parts = emit(op.split(whole, [20], axis=1))
        first = emit(op.nn.relu(emit(relax.TupleGetItem(parts, 0))))
        return relax.Tuple([first, emit(relax.TupleGetItem(parts, 1))])

    function = make_unit([(1, 8, 10, 10)], [(33, 8, 3, 3)], body)
    check_forms(folder, function, ("NHWC", "NHWC", "NHWC"), ["winograd-2"])


@pytest.mark.parametrize(
    "options", [{"strides": (2, 2)}, {"dilation": (2, 2)}, {"groups": 2}], ids=str
)
def test_other_convolutions_have_no_such_form(folder, options):
    groups = options.get("groups", 1)

    def body(emit, x, weight):
        return op.nn.conv2d(x, weight, padding=(1, 1), **options)

    function = make_unit([(1, 16, 12, 12)], [(32, 16 // groups, 3, 3)], body)
    names = compiler(folder).rkernels(UnitSource(function, NHWC))
    assert not [name for name in names if name.startswith("winograd")]


def test_forms_are_had_by_name_alone_and_timed_unless_left_out(tmp_path):
    source = UnitSource(conv((1, 64, 28, 28), 64), NHWC)
    target = {**AVX512, "opt-level": 0}
    every = KernelCompiler(target, 2, tmp_path)
    (forms,) = every.compile_forms({"u": source}).values()
    assert [form.name for form in forms][-1] == ""
    assert {form.name for form in forms} > {"winograd-4"}
    assert every.compile({"u": source})["u"] == forms[-1]
    without = KernelCompiler(target, 2, tmp_path, without=["winograd"])
    assert without.compile_forms({"u": source})["u"] == forms[-1:]
    # A schedule may name one all the same.
    named = without.compile_rkernels({"u": source}, only={"u": "winograd-4"})
    assert named["u"]["winograd-4"] in forms


def test_few_channels_are_not_worth_a_measurement(tmp_path):
    source = UnitSource(conv((1, 3, 32, 32), 8), NHWC)
    kernels = KernelCompiler(AVX512, 2, tmp_path)
    assert [form.name for form in kernels.compile_forms({"u": source})["u"]] == [""]
