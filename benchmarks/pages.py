"""How soon pages show something in headless Chromium, at 300 and 2,000 ops, and how large they are.

python benchmarks/pages.py [--times N]

The pages are those of the tests: chains with shortcuts, made up. Milliseconds are from the start of loading to the
first contents, and to the end of loading with all scripts run; of several times the median. They depend on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tpuc_profile.page import page_text as profile_page
from tpuc_report.page import page_text as report_page
from tpuc_visual.page import render

from tests.browser import Browser, browser
from tests.tools.profile.test_page import report_of
from tests.tools.report.test_report import subject
from tests.tools.visual.test_page import network

SIZES = (300, 2000)
LOADED = "performance.timing.loadEventEnd - performance.timing.navigationStart"
PAGES: dict[str, Callable[[int], str]] = {
    "visual": lambda ops: render(network(ops)),
    "profile": lambda ops: profile_page(report_of(ops)),
    "report": lambda ops: report_page(subject(ops)),
}


def measured(chrome: Browser, path: Path, times: int) -> tuple[float, float]:
    """First paint and end of loading."""
    paints: list[float] = []
    loads: list[float] = []
    for _ in range(times):
        with chrome.open(path.as_uri()) as page:
            paints.append(page.first_paint())
            loads.append(page.value(LOADED))
    return statistics.median(paints), statistics.median(loads)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    print(f"{'page':8} {'ops':>5} {'bytes':>10} {'first paint ms':>15} {'loaded ms':>10}")
    with tempfile.TemporaryDirectory() as folder, browser() as chrome:
        for name, text in PAGES.items():
            for ops in SIZES:
                path = Path(folder) / f"{name}.html"
                path.write_text(text(ops), "utf-8")
                paint, load = measured(chrome, path, times)
                print(f"{name:8} {ops:5} {path.stat().st_size:10,} {paint:15.0f} {load:10.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
