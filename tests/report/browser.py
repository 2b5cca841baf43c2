"""A page in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.page_tools import AXE

_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def chromium() -> str | None:
    """The path of an installed Chromium, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def opened(
    path: Path, *, dark: bool = False, width: int = 1440, height: int = 900
) -> Iterator[Any]:
    """A page of playwright that has drawn a report; what it complained of is an error.

    Raises
    ------
    AssertionError
        At the end, if the console has an error or a warning, or the page asked the network.
    """
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium(),
            args=list(_QUIET),
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if _serious(said) else None)
        page.on("request", lambda asked: complaints.append(asked.url) if _remote(asked) else None)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-placed]", timeout=60_000)
        yield page
        context.close()
    assert complaints == []


def faults_by_axe(page: Any) -> list[str]:
    """What axe-core finds that people with a keyboard or a screen reader cannot use."""
    page.add_script_tag(path=str(AXE))
    violations = page.evaluate("axe.run().then(found => found.violations)")
    return [f"{v['id']}: {v['nodes'][0]['html']}" for v in violations]


def _serious(message: Any) -> bool:
    return message.type in ("error", "warning")


def _remote(request: Any) -> bool:
    return not request.url.startswith(("file:", "data:", "blob:"))
