"""What tests of TensorFlow graphs share."""

from __future__ import annotations

import pytest
from tpuc.registry import Registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry()
