"""What several comparisons with the vendor's model of cv183x share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.oracle_runner import OracleRunner


@pytest.fixture(scope="session")
def runner(oracle_dir: Path) -> Iterator[OracleRunner]:
    """The vendor's model, which instructions are given to one by one."""
    with OracleRunner(oracle_dir, CV183X) as runner:
        yield runner
