"""Two hook plugins: one observes an event, one wraps a stage of the chip."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import Chip, TpucError, write_atomic
from tpuc_driver.api.command import hookimpl


class Digest:
    """Writes `FILE.sha256` beside every finished file."""

    api_version = 1

    @hookimpl
    def artifact_written(self, path: Path) -> None:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        write_atomic(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n")


class Finite:
    """Refuses simulator results that are NaN or infinite."""

    api_version = 1

    @hookimpl(wrapper=True)
    def simulate(self, chip: Chip) -> Generator[None, Mapping[str, Any], Mapping[str, Any]]:
        outputs = yield
        for name, array in outputs.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise TpucError(f"output '{name}' on {chip.description.name} is not finite; look for an overflow")
        return outputs


DIGEST = Digest()
FINITE = Finite()
