"""The TPU dialect: operations as a chip computes them, with stored types, multipliers, and shifts."""

from __future__ import annotations

from tpuc.api import Dialect, Op

DIALECT = Dialect("tpu", package=__name__, former={"PRelu": "PReluOp"})


def __getattr__(name: str) -> type[Op]:
    """Return the op class of this name, imported at first use: `tpu.Conv2D`."""
    op = globals()[name] = DIALECT.definition(name)
    return op
