"""The end of a region."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Op, SideEffects


@dataclass(frozen=True)
class Yield(Op, SideEffects):
    """Its operands are the results of the region."""

    name = "top.Yield"
