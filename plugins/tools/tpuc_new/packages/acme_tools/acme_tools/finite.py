"""A hook that wraps a stage of the chip."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from tpuc.api import Chip, TpucError
from tpuc_driver.api.command import hookimpl


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


FINITE = Finite()
