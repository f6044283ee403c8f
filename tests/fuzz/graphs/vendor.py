"""The vendor's functional model, where its tools are installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.fuzz.graphs.judge import RunVendor
from tests.fuzz.graphs.maker import Array

SECONDS = 120


def vendor_of(oracle: Path, folder: Path) -> RunVendor:
    """Runs compiled files by the tools in the folder `oracle`."""

    def run(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        source, target = folder / "vendor_in.npz", folder / "vendor_out.npz"
        target.unlink(missing_ok=True)
        np.savez(source, **inputs)  # type: ignore[arg-type]
        command = [sys.executable, str(oracle / "run_file.py"), str(path), str(source), str(target)]
        done = subprocess.run([*command, "--timeout", str(SECONDS)], capture_output=True, text=True, check=False)
        if done.returncode or not target.exists():
            raise RuntimeError(f"the vendor's runtime: {(done.stderr or done.stdout).strip()[-500:]}")
        with np.load(target) as arrays:
            return dict(arrays)

    return run
