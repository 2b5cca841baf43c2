"""Shapes that a user gives to dynamic inputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.shapes.input_shapes import Extent, InputShapeError, parse_shapes, resolve_shapes


def test_shapes_as_they_are_written() -> None:
    assert parse_shapes(["input:1,3,224,224", "a:0:7", "past:2,0", "scalar:"]) == {
        "input": (1, 3, 224, 224),
        "a:0": (7,),
        "past": (2, 0),
        "scalar": (),
    }


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["1,3,224,224"], "'1,3,224,224' is no shape: write NAME:1,3,224,224"),
        ([":1,3"], "':1,3' is no shape: write NAME:1,3,224,224"),
        (["x:1,three"], "'x:1,three' is no shape: write whole numbers, as in x:1,3,224,224"),
        (["x:1,,2"], "'x:1,,2' is no shape: write whole numbers, as in x:1,3,224,224"),
        (["x:-1,3"], "the shape -1,3 of input 'x' holds a negative number"),
        (["x:1", "x:2"], "the shape of input 'x' is given twice"),
    ],
)
def test_what_is_no_shape(texts: list[str], sentence: str) -> None:
    with pytest.raises(InputShapeError) as caught:
        parse_shapes(texts)
    assert str(caught.value) == sentence


DECLARED: dict[str, list[Extent] | None] = {
    "image": ["batch", 3, "height", "height"],
    "scale": ["batch", None],
    "free": None,
}
WHOLE = {"image": (2, 3, 8, 8), "scale": (2, 5), "free": (4, 4)}


def test_one_name_is_one_number_everywhere() -> None:
    declared: dict[str, list[Extent] | None] = {"a": ["n", 3], "b": [1, "n"], "c": [7]}
    assert resolve_shapes(declared, {"a": (4, 3)}) == {"a": (4, 3), "b": (1, 4), "c": (7,)}


@pytest.mark.parametrize("mark", ["?", "unk__7", "None", "-1", "unknown", "", -1])
def test_marks_of_unknown_dimensions_name_none(mark: Extent) -> None:
    declared: dict[str, list[Extent] | None] = {"x": [mark, 3, mark, mark], "y": [mark]}
    shapes = {"x": (1, 3, 48, 192), "y": (7,)}
    assert resolve_shapes(declared, shapes) == shapes
    with pytest.raises(InputShapeError, match="input 'y' has the dynamic dimension 0: "):
        resolve_shapes(declared, {"x": (1, 3, 1, 1)})


@pytest.mark.parametrize("name", ["unk_batch", "nonempty", "N", "-12", "batch?"])
def test_names_that_are_no_marks(name: str) -> None:
    with pytest.raises(InputShapeError, match="is 1 by the shape of 'x' and 2 by that of 'x'"):
        resolve_shapes({"x": [name, name]}, {"x": (1, 2)})


def test_an_extent_of_zero_is_one_unless_another_is_given() -> None:
    assert resolve_shapes({"x": [0, 3]}, {}) == {"x": (0, 3)}
    assert resolve_shapes({"x": [0, 3]}, {"x": (2, 3)}) == {"x": (2, 3)}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"picture": (1,)}, "there is no input 'picture' to give a shape; there are: image, sc"),
        ({"image": (2, 3, 8)}, "input 'image' has 4 dimensions (batch,3,height,height), not 3 (2,"),
        ({"image": (2, 4, 8, 8)}, "dimension 1 of input 'image' is 3 in the model, not 4"),
        ({"image": (2, 3, 8, 9)}, "the dimension 'height' is 8 by the shape of 'image' and 9 by"),
        ({"scale": (3, 5)}, "the dimension 'batch' is 2 by the shape of 'image' and 3 by that of"),
        ({"scale": (2, -1)}, "the shape 2,-1 of input 'scale' holds a negative number"),
        (
            {"scale": None},
            "input 'scale' has the dynamic dimension 1: give --shape scale:2,N1 ",
        ),
        ({"free": None}, "input 'free' has no shape: give --shape free: with its numbers"),
        (
            {"image": None, "scale": None},
            "input 'image' has the dynamic dimension 0 ('batch'): give --shape "
            "image:1,3,height,height with a number for height",
        ),
    ],
)
def test_shapes_that_do_not_fit(change: dict[str, tuple[int, ...] | None], sentence: str) -> None:
    given_shapes = {k: v for k, v in {**WHOLE, **change}.items() if v is not None}
    with pytest.raises(InputShapeError) as caught:
        resolve_shapes(DECLARED, given_shapes)
    assert str(caught.value).startswith(sentence)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.lists(st.one_of(st.integers(1, 9), st.sampled_from(["m", "n"]), st.none())),
    ),
    st.dictionaries(st.sampled_from(["m", "n"]), st.integers(1, 9)),
    st.data(),
)
def test_any_true_shapes_are_accepted_and_any_false_one_is_refused(
    declared: dict[str, list[Extent]], numbers: dict[str, int], data: st.DataObject
) -> None:
    symbols = {"m": 1, "n": 1} | numbers
    true = {
        name: tuple(
            symbols[e] if isinstance(e, str) else data.draw(st.integers(1, 9)) if e is None else e
            for e in extents
        )
        for name, extents in declared.items()
    }
    assert resolve_shapes(declared, true) == true
    bound = [
        (name, axis)
        for name, extents in declared.items()
        for axis, extent in enumerate(extents)
        if isinstance(extent, int)
        or (isinstance(extent, str) and sum(e.count(extent) for e in declared.values()) > 1)
    ]
    if bound:
        name, axis = data.draw(st.sampled_from(bound))
        wrong = list(true[name])
        wrong[axis] += 1
        with pytest.raises(InputShapeError):
            resolve_shapes(declared, {**true, name: wrong})
