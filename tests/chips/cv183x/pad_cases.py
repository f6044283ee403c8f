"""Borders of all kinds, in local memory and by copies."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample

from tests.chips.cv18.kernel_values import I8, U8, halves, stored_bytes

PADS = {
    "pad_channels": Sample(
        tpu.Pad(paddings=(0, 0, 0, 0, 0, 40, 0, 0)), [stored_bytes(2, 30, 5, 6)], I8, [{"c": 32}, {"h": 2, "n": 1}]
    ),
    "pad_last_group": Sample(
        tpu.Pad(paddings=(0, 0, 0, 0, 0, 5, 0, 0), val=-2.0), [stored_bytes(2, 66, 5, 6)], I8, [{"c": 32}, {"h": 2}]
    ),
    "pad_last_group_halves": Sample(
        tpu.Pad(paddings=(0, 0, 0, 0, 0, 64, 0, 0)), [halves(2, 40, 5, 6)], BF16, [{"n": 1}]
    ),
    "pad_around": Sample(
        tpu.Pad(paddings=(0, 0, 1, 2, 0, 3, 4, 5), val=-7.0),
        [stored_bytes(1, 40, 5, 6)],
        I8,
        [{"h": 1}, {"c": 32, "w": 2}, {"h": 2, "w": 3}],
    ),
    "pad_unsigned": Sample(
        tpu.Pad(paddings=(0, 0, 3, 0, 0, 0, 0, 1), val=255.0), [stored_bytes(1, 5, 4, 3, dtype="uint8")], U8, [{"h": 2}]
    ),
    "pad_halves": Sample(
        tpu.Pad(paddings=(0, 0, 1, 1, 0, 9, 1, 1)), [halves(1, 31, 5, 6)], BF16, [{"c": 32, "h": 3}, {"w": 1}]
    ),
    "pad_halves_value": Sample(tpu.Pad(paddings=(0, 0, 1, 0, 0, 2, 1, 1), val=-0.75), [halves(1, 31, 5, 6)], BF16),
    "pad_before_channels": Sample(tpu.Pad(paddings=(0, 3, 0, 0, 0, 0, 0, 0), val=3.0), [stored_bytes(1, 30, 5, 6)], I8),
    "pad_edges": Sample(tpu.Pad(paddings=(0, 0, 1, 2, 0, 1, 3, 1), mode="edge"), [stored_bytes(1, 7, 4, 5)], I8),
    "pad_mirrors": Sample(tpu.Pad(paddings=(0, 0, 1, 2, 0, 0, 3, 1), mode="reflect"), [stored_bytes(1, 7, 4, 5)], I8),
    "pad_cut_mirrors": Sample(tpu.Pad(paddings=(0, 0, -1, 2, 0, 0, 2, -1), mode="reflect"), [halves(1, 7, 5, 6)], BF16),
    "pad_row_edges": Sample(tpu.Pad(paddings=(0, 2, 0, 3), mode="edge"), [halves(3, 9)], BF16),
}
