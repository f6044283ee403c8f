"""What every chip of the family promises, on a few operators in integers and in bf16."""

from __future__ import annotations

from tpuc_ops import tpu
from tpuc_testing import integers, quantized, quantized_element
from tpuc_testing.chip_conformance import ChipConformance
from tpuc_testing.kernel_conformance import Sample

from tests.chips.cv18.kernel_samples import FLOATS, INTEGERS


def pooled(channels: int, rows: int) -> Sample:
    """A maximum over 3x3."""
    x = quantized(integers(1, channels, rows, 9), 0.05)
    return Sample(tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Max"), [x], quantized_element("int8", 0.05))


class Cv18Conformance(ChipConformance):
    samples = {
        **{name: INTEGERS[name] for name in ("depthwise", "matmul", "add")},
        **{f"{name}_bf16": FLOATS[name] for name in ("conv", "softmax")},
    }
    growing = {"pool": [pooled(8, 5), pooled(8, 9), pooled(40, 9), pooled(40, 30)]}
