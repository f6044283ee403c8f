"""Every test here builds a network of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tpuc_lang as tl

from tests.frontends.lang.programs import begin_anew


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    begin_anew()
    yield
    tl.deinit()
