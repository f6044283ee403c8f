"""Tables of 256 entries of bf16."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc.testing.kernel_conformance import Sample
from tpuc_ops.tpu.lut import Lut

from tests.chips.cv183x.kernel_values import half_filter, stored_bytes

TABLES = {
    "table_of_bytes": Sample(
        Lut(), [stored_bytes(2, 3, 9, 11, dtype="uint8"), half_filter(1, 1, 1, 256)], BF16, [{"w": 16}]
    ),
    "table_of_signed": Sample(Lut(), [stored_bytes(1, 40, 5, 6), half_filter(1, 1, 1, 256)], BF16, [{"h": 2}]),
}
