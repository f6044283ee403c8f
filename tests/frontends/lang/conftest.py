"""Every test here builds a network of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tpuc_lang as tl


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    tl.deinit()
    tl.init("BM1684X")
    yield
    tl.deinit()
