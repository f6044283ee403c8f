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

    def of_bits(path: Path, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The runtime's own type for 16-bit floats that numpy has not is an integer."""
        return run(
            path, {name: array.view("u2") if array.dtype.kind == "V" else array for name, array in inputs.items()}
        )

    return of_bits
