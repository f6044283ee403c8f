"""The TOP dialect: the meaning of a network, independent of any chip."""

from __future__ import annotations

from tpuc.api import Dialect, Op

DIALECT = Dialect("top", package=__name__)


def __getattr__(name: str) -> type[Op]:
    """Return the op class of this name, imported at first use: `top.Conv`."""
    op = globals()[name] = DIALECT.definition(name)
    return op
