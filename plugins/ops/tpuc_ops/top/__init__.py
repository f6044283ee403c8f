"""The TOP dialect: what a network means, on no chip in particular."""

from __future__ import annotations

from tpuc.api import Dialect, Op

DIALECT = Dialect("top", package=__name__)


def __getattr__(name: str) -> type[Op]:
    """The op class of this name, imported when first used: `top.Conv`."""
    op = globals()[name] = DIALECT.definition(name)
    return op
