"""The pictures of the documents are what today's schedules draw, and are small."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.makers import load_maker
from tests.docs.pages import ROOT
from tests.fast_run import one_in
from tvm_ios.plot import save_picture

pyplot = pytest.importorskip("matplotlib.pyplot")
MAKER = load_maker("pictures")


def said(picture: Path) -> tuple[list[str], int]:
    """The words and numbers of a picture, and how many shapes it has."""
    elements = list(ElementTree.fromstring(picture.read_text()).iter())
    words = ["".join(e.itertext()) for e in elements if e.tag.endswith("}text")]
    return words, sum(e.tag.endswith("}path") for e in elements)


@pytest.mark.parametrize("name", one_in(2, MAKER.PICTURES))
def test_pictures_are_current(name: str, tmp_path: Path) -> None:
    drawn = tmp_path / f"{name}.svg"
    save_picture(MAKER.PICTURES[name](), drawn)
    pyplot.close("all")
    kept = MAKER.path_of(name)
    assert said(drawn) == said(kept), f"draw it anew: python docs/make/pictures.py {name}"
    assert kept.stat().st_size < 100_000


def test_every_picture_is_shown() -> None:
    shown = "".join((ROOT / page).read_text() for page in ("README.md", "docs/concepts.md"))
    for name in MAKER.PICTURES:
        assert re.search(rf"!\[[^]]+\]\([\w/]*{name}\.svg\)", shown), name


def test_equal_pictures_are_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_picture(MAKER.PICTURES["ios"](), tmp_path / f"{name}.svg")
        pyplot.close("all")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
