"""Tables of 256 entries of bf16, and circles."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample

from tests.chips.cv18.kernel_values import half_filter, halves, stored_bytes

TABLES = {
    "table_of_bytes": Sample(
        tpu.Lut(), [stored_bytes(2, 3, 9, 11, dtype="uint8"), half_filter(1, 1, 1, 256)], BF16, [{"w": 16}]
    ),
    "sine": Sample(tpu.Active(mode="SIN"), [halves(1, 40, 5, 60, low=-100, high=100)], BF16, [{"h": 2}]),
    "cosine": Sample(tpu.Active(mode="COS"), [halves(1, 40, 5, 60, low=-8, high=8)], BF16),
    "table_of_signed": Sample(tpu.Lut(), [stored_bytes(1, 40, 5, 6), half_filter(1, 1, 1, 256)], BF16, [{"h": 2}]),
}
