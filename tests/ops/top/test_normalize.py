"""top.Normalize."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance, uniform


def unit(axes: tuple[int, ...]) -> Any:
    """Divided by the length over `axes`, times the scale of each channel."""

    def reference(x: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
        x = x.astype(np.float64)
        length = np.sqrt((x * x).sum(axes, keepdims=True) + 1e-10)
        return x / length * scale.reshape(1, -1, 1, 1)

    return reference


class TestNormalize(OpConformance):
    op = top.Normalize(channel_shared=False)
    reference = unit((1,))
    samples = ([uniform(2, 3, 4, 5), uniform(1, 3, 1, 1)],)
    flops = 4


class TestNormalizeAcrossSpace(OpConformance):
    op = top.Normalize(across_spatial=True)
    reference = unit((1, 2, 3))
    samples = ([uniform(2, 3, 4, 5), uniform(1)],)
    flops = 4
