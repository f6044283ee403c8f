"""An op definition as it must not be."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.ir.op import Op


@dataclass(frozen=True)
class Untyped(Op):
    name = "t.Untyped"
    size: int = 1
