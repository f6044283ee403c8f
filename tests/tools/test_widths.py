"""The pages of profile, report and visual fit a phone and a wide window, in light and dark, without overflow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tpuc_profile.page import page_text as profile_page
from tpuc_report.page import page_text as report_page
from tpuc_visual.page import render

from tests.browser import Browser
from tests.tools.conftest import Keep
from tests.tools.profile.test_page import report_of
from tests.tools.report.test_report import subject
from tests.tools.visual.test_page import network

PAGES: dict[str, Callable[[], str]] = {
    "profile": lambda: profile_page(report_of(300)),
    "report": lambda: report_page(subject(300)),
    "visual": lambda: render(network(60)),
}
OUTSIDE = """[...document.querySelectorAll('body *')].filter(one => {
  const box = one.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 0.5) return false;
  for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== 'visible') return false;
  return !one.closest('#tip');
}).map(one => one.tagName + '.' + one.className + '#' + one.id + ' ' + Math.round(one.getBoundingClientRect().right))"""
"""Elements that reach beyond the window and are not in a part that scrolls."""


@pytest.mark.parametrize("name", PAGES)
def test_nothing_reaches_beyond_the_window(name: str, chrome: Browser, keep: Keep, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.html"
    path.write_text(PAGES[name](), "utf-8")
    for width, dark in product((1400, 390), (False, True)):
        with chrome.open(path.as_uri(), width=width, height=844, dark=dark) as page:
            keep(page, f"{name}-{width}-{'dark' if dark else 'light'}")
            assert page.value(OUTSIDE) == [], (width, dark)
            assert page.value("document.documentElement.scrollWidth") <= width, (width, dark)
            ground = "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)"
            assert page.value("getComputedStyle(document.body).backgroundColor") == ground
