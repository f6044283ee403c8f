"""The vendor's runtime with the functional model of this generation, which needs a process of its own for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from tests.chips.oracles import load_oracle

RunFile = Callable[[Path, Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]


@pytest.fixture
def run_file(oracle_dir: Path) -> RunFile:
    """Runs a compiled file on the model of the chip that it names."""
    run: RunFile = load_oracle(oracle_dir, "run_file").run_file
    return run
