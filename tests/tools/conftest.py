"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, Browser, Page, browser

Keep = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def chrome() -> Generator[Browser]:
    """One Chromium for all tests of a run."""
    if CHROMIUM is None:
        pytest.skip("needs chromium (Debian: chromium)")
    with browser() as found:
        yield found


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Keep:
    """Keeps a picture of a page in the folder of `--pictures`, where one is given."""
    folder: Path | None = request.config.getoption("--pictures")

    def picture(page: Page, name: str) -> None:
        if folder is not None:
            page.picture(folder / f"{name}.png")

    return picture
