"""What people do with a page: look, hover, click, search, press keys, print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page_tools import AXE, HOW
from tests.report.browser import chromium, faults_by_axe, opened
from tests.small_executable import save_small_executable
from tvm_ios.api.documents.page import page_document, write_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="there is no Chromium"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("playwright")
    folder = tmp_path_factory.mktemp("page")
    document = page_document(save_small_executable(folder / "small"), 3)
    write_page([document], folder / "page.html")
    write_page([document, {**document, "name": "other"}], folder / "both.html")
    return folder / "page.html"


@pytest.fixture
def page(path: Path) -> Iterator[Any]:
    with opened(path) as page:
        yield page


def names(page: Any) -> list[str]:
    return page.eval_on_selector_all(".node", "nodes => nodes.map(n => n.dataset.unit)")


def chosen(page: Any) -> list[str]:
    """What is chosen in the graph, in the table and in the inspector: the same everywhere."""
    graph = page.eval_on_selector_all(".node.chosen", "all => all.map(n => n.dataset.unit)")
    table = page.eval_on_selector_all("#units tr.chosen", "all => all.map(n => n.dataset.unit)")
    shown = page.locator(".inspector:not([hidden]) h3").all_inner_texts()
    assert graph == table == shown
    assert (page.locator(".launch.chosen").count() > 0) == bool(graph)
    return graph


def test_everything_is_drawn(page: Any) -> None:
    units = names(page)
    assert len(units) == 3
    assert page.locator("#units tbody tr").count() == 3
    assert page.locator(".edge").count() == 2
    assert page.locator(".timeline .run-title").count() == 2
    assert page.locator(".timeline .launch").count() >= 6
    assert page.locator(".arena path.area").count() == 2
    assert page.locator(".blocks tbody tr").count() >= 2
    assert page.locator(".node rect[fill^='url']").count() == 1, "the merged unit is hatched"
    # Bars are where the data say.
    left, right = page.evaluate(
        """() => {
        const run = JSON.parse(document.getElementById("data").textContent).executables[0].runs[1];
        const bar = document.querySelector("[data-launch='1.0'] rect").getBoundingClientRect();
        const row = document.querySelector(".timeline rect.row").getBoundingClientRect();
        const longest = Math.max(...JSON.parse(document.getElementById("data").textContent)
          .executables[0].runs.map(r => r.ms));
        const at = ms => row.left + ms / longest * row.width;
        return [bar.left - at(run.spans[0][3]), bar.right - at(run.spans[0][4])];
        }"""
    )
    assert abs(left) < 2
    assert abs(right) < 3


@pytest.mark.parametrize("where", [".node", ".launch", "#units tbody tr"])
def test_a_click_chooses_everywhere(where: str, page: Any) -> None:
    assert chosen(page) == []
    page.locator(where).first.click(force=True)
    (name,) = chosen(page)
    assert name in names(page)
    assert name in page.locator("#said").inner_text()
    page.keyboard.press("Escape")
    assert chosen(page) == []


def test_hovering_shows_the_unit_everywhere(page: Any) -> None:
    page.locator("#units tbody tr").nth(1).hover()
    assert page.locator(".node.hover").count() == 1
    assert page.locator(".launch.hover").count() >= 2
    page.locator(".launch").first.hover(force=True)
    assert "ms" in page.locator("#tip:not([hidden])").inner_text()
    page.locator("h1").hover()
    assert page.locator("#tip:not([hidden])").count() == 0
    assert page.locator(".node.hover").count() == 0


def test_search_finds_by_name_and_operator(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("add")
    assert page.locator("#found li").count() >= 1
    assert page.locator("#search").get_attribute("aria-expanded") == "true"
    assert page.locator(".node.match").count() >= 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert len(chosen(page)) == 1
    page.fill("#search", "no such unit")
    assert "no unit" in page.locator("#found").inner_text()


def test_keys_walk_along_a_lane_and_zoom(page: Any) -> None:
    page.locator(".timeline svg").focus()
    page.keyboard.press("ArrowRight")
    first = chosen(page)
    page.keyboard.press("ArrowRight")
    assert len(first) == 1
    assert chosen(page) != first
    whole = page.locator(".timeline .axis .tick text").last.text_content()
    page.keyboard.press("+")
    assert page.locator(".timeline .axis .tick text").last.text_content() != whole
    page.keyboard.press("0")
    assert page.locator(".timeline .axis .tick text").last.text_content() == whole
    page.locator(".graph svg").first.focus()
    before = page.locator(".graph svg > g").first.get_attribute("transform")
    page.keyboard.press("ArrowDown")
    assert page.locator(".graph svg > g").first.get_attribute("transform") != before


def test_everything_is_reached_by_tab_with_a_name(page: Any) -> None:
    reached: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                const e = document.activeElement;
                if (e === document.body) return "";
                return e.getAttribute("aria-label") || e.innerText || e.labels?.[0]?.innerText;
                }"""
            )
        )
    assert reached[0].startswith("Skip")
    until = reached.index("") if "" in reached else len(reached)
    assert all(reached[:until])
    assert any("Timeline" in name for name in reached)
    assert any("Graph" in name for name in reached)


def test_a_block_is_shown_and_left(page: Any) -> None:
    page.locator(".blocks tbody button").first.click()
    assert page.locator(".timeline svg.focused").count() == 1
    assert page.locator(".launch.inside").count() >= 1
    assert page.locator(".blocks p.note:not([hidden])").inner_text().startswith("block 0")
    page.locator(".blocks tbody button").first.click()
    assert page.locator(".timeline svg.focused").count() == 0


def test_units_are_sorted(page: Any) -> None:
    page.get_by_role("button", name="ms", exact=True).click()
    column = "#units tbody tr td:nth-child(6)"
    times = [float(text) for text in page.locator(column).all_inner_texts()]
    assert times == sorted(times, reverse=True)
    assert page.locator("#units th[aria-sort='descending']").count() == 1


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_themes(dark: bool, path: Path) -> None:
    """At least 4.5 to 1, WCAG's AA, of text on cards and on units."""
    with opened(path, dark=dark) as page:
        for colouring in ("stage", "family", "block"):
            page.select_option("#colouring", colouring)
            for text, ground in (
                (".node text", ".node rect.fill"),
                (".launch text", ".launch rect.fill"),
            ):
                assert contrast(page, text, "fill", ground, "fill") >= 4.5
        for text in (".figure span", ".note", "th", ".facts", ".says"):
            assert contrast(page, text, "color", ".card", "background-color") >= 4.5
        page.click("#theme")
        assert page.locator("html").get_attribute("data-theme") == ("light" if dark else "dark")


@pytest.mark.skipif(not AXE.is_file(), reason=f"there is no axe-core: {HOW}")
@pytest.mark.parametrize("name", ["page.html", "both.html"])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_that_keeps_people_out(name: str, dark: bool, path: Path) -> None:
    with opened(path.with_name(name), dark=dark) as page:
        assert faults_by_axe(page) == []
        page.locator(".node").first.click(force=True)
        page.keyboard.press("?")
        assert faults_by_axe(page) == []


def contrast(page: Any, text: str, text_property: str, ground: str, property: str) -> float:
    """The least contrast of one element's colour on any of some others'."""
    return page.evaluate(
        """([text, textProperty, ground, property]) => {
        const canvas = document.createElement("canvas");
        const context = canvas.getContext("2d", {willReadFrequently: true});
        const luminance = colour => {
          context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
          const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const on = luminance(getComputedStyle(document.querySelector(text))[textProperty]);
        return Math.min(...[...document.querySelectorAll(ground)].map(element => {
          const under = luminance(getComputedStyle(element)[property]);
          return (Math.max(on, under) + 0.05) / (Math.min(on, under) + 0.05);
        }));
        }""",
        [text, text_property, ground, property],
    )


def test_two_executables_share_scale_and_choice(path: Path) -> None:
    with opened(path.with_name("both.html")) as page:
        assert page.locator("article").count() == 2
        page.locator("#units tbody tr").first.click()
        assert page.locator(".node.chosen").count() == 2
        assert page.locator(".inspector:not([hidden])").count() == 2
        axes = [page.locator(".timeline .axis").nth(n).text_content() for n in (0, 1)]
        assert axes[0] == axes[1]


@pytest.mark.parametrize("dark", [False, True])
def test_it_prints_on_white_paper(dark: bool, path: Path, tmp_path: Path) -> None:
    with opened(path, dark=dark) as page:
        page.emulate_media(media="print")
        assert not page.locator("#theme").is_visible()
        assert page.locator("#units").is_visible()
        for element in ("html", ".card"):
            ground = page.locator(element).first.evaluate(
                "e => getComputedStyle(e).backgroundColor"
            )
            assert ground == "rgb(255, 255, 255)"
        page.pdf(path=str(tmp_path / "page.pdf"))
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
