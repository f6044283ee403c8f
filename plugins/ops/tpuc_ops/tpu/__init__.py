"""The TPU dialect: what a chip will do, with stored types, multipliers and shifts."""

from __future__ import annotations

from tpuc.api import Dialect, Op

DIALECT = Dialect("tpu", package=__name__, former={"PRelu": "PReluOp"})


def __getattr__(name: str) -> type[Op]:
    """The op class of this name, imported when first used: `tpu.Conv2D`."""
    op = globals()[name] = DIALECT.definition(name)
    return op
