"""What a page of `tvm-ios report` weighs, when it paints, and whether it does what it should.

NASNet-A large is compiled by described costs (nothing is measured of the model itself), its page
is made, and opened in headless Chromium (Debian: chromium; pip install playwright). The page is
also used: clicks, search, hovering. Times to the first paint are medians, of this machine with all
that runs on it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import write_result
from relay_passes.search_options import SearchOptions
from runtime_ext.machine.this_machine import available_lanes

# The browser is that of the tests, which stand beside this folder.
from tests.page_tools import AXE
from tests.report.browser import chromium, faults_by_axe, opened
from tvm_ios.api import Options, optimize
from tvm_ios.api.documents.page import page_document, write_page
from tvm_ios.cli.frame.output import console

#: What a page of the largest network may weigh and take.
MOST_BYTES, MOST_SECONDS = 3_000_000, 2.0


def make_page(model: str, policy: str, folder: Path) -> Path:
    executable = folder / f"{model}.ios"
    options = SearchOptions(lanes=available_lanes())
    optimize(model, executable, Options(search=options, cost="cpu", policies=[policy]))
    write_page([page_document(executable, 3)], folder / "page.html")
    return folder / "page.html"


def painted(path: Path, times: int) -> tuple[float, float]:
    """Median seconds to the first paint, and until the graph is laid out."""
    first: list[float] = []
    placed: list[float] = []
    for _ in range(times):
        with opened(path) as page:
            first.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
            placed.append(page.evaluate("performance.getEntriesByName('placed')[0].startTime"))
    return statistics.median(first) / 1e3, statistics.median(placed) / 1e3


def used(path: Path) -> dict[str, bool]:
    """What was tried, and whether the page did it; errors in the console end this script."""
    with opened(path) as page:
        page.locator("#units tbody tr").nth(7).click()
        name = page.locator(".inspector h3").inner_text()
        done = {
            "a click in the table chooses in the graph": page.locator(".node.chosen").count() == 1,
            "and in the timeline": page.locator(".launch.chosen").count() > 0,
        }
        page.keyboard.press("/")
        page.keyboard.type("concat")
        done["search finds"] = page.locator("#found li").count() > 1
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        done["and chooses"] = page.locator(".inspector h3").inner_text() != name
        page.locator("#units tbody tr").nth(3).hover()
        done["hovering marks"] = page.locator(".node.hover").count() == 1
        page.locator(".blocks tbody button").nth(4).click()
        done["a block is shown"] = page.locator(".launch.inside").count() > 0
        page.keyboard.press("t")
        done["the theme changes"] = page.locator("html[data-theme]").count() == 1
        if AXE.is_file():
            done["axe-core finds no fault (make page-tools)"] = faults_by_axe(page) == []
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="nasnet_a", help="a network of the zoo  [nasnet_a]")
    parser.add_argument("--policy", default="ios-parallel", help="whose schedule  [ios-parallel]")
    parser.add_argument("--times", type=int, default=5, help="how often it is opened  [5]")
    parser.add_argument("--page", type=Path, help="look at this page, which was made before")
    parser.add_argument("--write", action="store_true", help="write results/report_page.json")
    options = parser.parse_args()
    if chromium() is None:
        raise SystemExit("there is no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        path = options.page or make_page(options.model, options.policy, Path(folder))
        first, placed = painted(path, options.times)
        row: dict[str, Any] = {
            "model": options.model,
            "bytes": path.stat().st_size,
            "first_paint": first,
            "placed": placed,
            "checks": used(path),
        }
    show(row)
    if options.write:
        write_result("report_page", [row])
    faults = [name for name, done in row["checks"].items() if not done]
    if faults or row["bytes"] > MOST_BYTES or first > MOST_SECONDS:
        raise SystemExit(f"too heavy, too late or broken: {', '.join(faults) or 'see above'}")


def show(row: dict[str, Any]) -> None:
    table = Table(title=f"a page of {row['model']}")
    table.add_column("what")
    table.add_column("is", justify="right")
    table.add_column("at most", justify="right")
    table.add_row("weight", f"{row['bytes'] / 1e6:.2f} MB", f"{MOST_BYTES / 1e6:.0f} MB")
    table.add_row("first paint", f"{row['first_paint']:.2f} s", f"{MOST_SECONDS:.0f} s")
    table.add_row("graph laid out", f"{row['placed']:.2f} s", "")
    for name, done in row["checks"].items():
        table.add_row(name, "yes" if done else "NO", "")
    console().print(table)


if __name__ == "__main__":
    main()
