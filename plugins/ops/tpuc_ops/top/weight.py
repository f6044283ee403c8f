"""A constant of the module."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Bool, Constant, Op, Str


@dataclass(frozen=True)
class Weight(Op, Constant):
    """The array in the module's weights whose key is this op's location name; its declared type says how it is read."""

    name = "top.Weight"
    do_compress: Bool | None = None
    path: Str | None = None
