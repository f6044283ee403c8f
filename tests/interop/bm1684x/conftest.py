"""What several comparisons with the vendor's model of bm1684x share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chips.bm1684x.oracle_runner import OracleRunner


@pytest.fixture(scope="session")
def runner(oracle_dir: Path) -> Iterator[OracleRunner]:
    """The vendor's model, which instructions are given to one by one."""
    with OracleRunner(oracle_dir) as runner:
        yield runner
