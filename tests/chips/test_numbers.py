"""Numbers that commands hold, on both chips."""

from __future__ import annotations

import math

from tpuc.api import F32, ChipDescription, LoweringNode, TensorType
from tpuc_chip_parts.numbers import immediate
from tpuc_ops import top

from tests.chips.needed import needed
from tests.families import each

BM1684X, CV183X = (needed(name).description for name in ("bm1684x", "cv183x"))
LARGEST_BF16 = (2.0 - 2.0**-7) * 2.0**127
NUMBERS = [
    (BM1684X, "f32", 0.1, float.fromhex("0x1.99999ap-4")),
    (BM1684X, "f16", 0.1, float.fromhex("0x1.998p-4")),
    (BM1684X, "bf16", 0.1, float.fromhex("0x1.9ap-4")),
    (BM1684X, "f16", -1e9, -65504.0),
    (BM1684X, "bf16", math.inf, math.inf),
    (CV183X, "bf16", 0.1, float.fromhex("0x1.9ap-4")),
    (CV183X, "bf16", math.inf, LARGEST_BF16),
    (CV183X, "bf16", -3.4e38, -LARGEST_BF16),
]


@each(("chip", "mode", "value", "held"), NUMBERS)
def test_immediates_are_the_nearest_numbers_that_the_chip_holds(
    chip: ChipDescription, mode: str, value: float, held: float
) -> None:
    type_ = TensorType((1,), F32)
    node = LoweringNode(top.AddConst(const_val=value), (type_,), (type_,), "y", mode=mode, chip=chip)
    assert immediate(node, value) == held
