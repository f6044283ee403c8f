"""A constant of the module."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Bool, Constant, F64Array, Op, Str


@dataclass(frozen=True)
class Weight(Op, Constant):
    """The array in the module's weights whose key is this op's location name; its declared type determines how it is
    read.

    `scale`: QAT scales of a float filter, one or one per output channel. Integer lowerings quantize the filter with
    them. Of a constant that a prequantized network adds or multiplies: the step of its integers.
    """

    name = "top.Weight"
    do_compress: Bool | None = None
    path: Str | None = None
    scale: F64Array | None = None
