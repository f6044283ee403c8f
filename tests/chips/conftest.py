"""Fixtures of the tests of all chips."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.accuracy import Bench


@pytest.fixture(scope="session")
def bench(model_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Labeled networks, calibrated once for all chips."""
    return Bench(model_data, tmp_path_factory.mktemp("bench"))
