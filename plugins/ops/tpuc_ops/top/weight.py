"""A constant of the module."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Bool, Constant, F64Array, Op, Str


@dataclass(frozen=True)
class Weight(Op, Constant):
    """The array in the module's weights whose key is this op's location name; its declared type says how it is read.

    `scale`: the steps that training learned for a filter of floats, one or one per output channel. Integer lowerings
    quantise it with them.
    """

    name = "top.Weight"
    do_compress: Bool | None = None
    path: Str | None = None
    scale: F64Array | None = None
