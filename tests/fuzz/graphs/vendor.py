"""The vendor's functional model, where its tools are installed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.graphs.judge import RunVendor
from tests.fuzz.graphs.maker import Array
from tests.vendor_runs import VendorRuns

SECONDS = 120

_runs = functools.cache(VendorRuns)
"""One for all graphs of this process, whose end ends what it started."""


def vendor_of(oracle: Path) -> RunVendor:
    """Runs compiled files by the tools in the folder `oracle`."""

    def run(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return _runs(oracle).run(path, inputs, timeout=SECONDS)

    return run
