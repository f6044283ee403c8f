"""What every chip promises, on a few operators in integers and in floats."""

from __future__ import annotations

from tpuc_testing.chip_conformance import ChipConformance
from tpuc_testing.kernel_conformance import Sample

from tests.chips.bm1684x.kernels import samples
from tests.chips.bm1684x.kernels.samples import I8, conv_f32, conv_int8, f32, i8


def convolved(channels: int, rows: int) -> Sample:
    """A convolution of bytes with 3x3 filters. Its planes are longer than the bursts of DDR: the vendor's model takes
    more cycles for shorter ones.
    """
    return Sample(*conv_int8(i8(1, 20, rows, 66), channels, (3, 3)), I8)


class TestBm1684x(ChipConformance):
    chip = "bm1684x"
    samples = {
        **{name: samples.CONVOLUTIONS[name] for name in ("dw_i8", "group_i8", "group_f32", "full_f32")},
        "conv_f32": Sample(*conv_f32(f32(1, 30, 9, 8), 20, (3, 3)), None, [{"h": 3}, {"c": 64, "w": 2}]),
    }
    growing = {"conv": [convolved(16, 5), convolved(16, 9), convolved(80, 9), convolved(80, 40)]}
