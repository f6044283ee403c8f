"""top.GRU."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

T, N, I, H = 5, 2, 4, 3
WEIGHTS = [uniform(1, 3 * H, I), uniform(1, 3 * H, H)]
EMPTY = uniform(0)


class TestGru(OpConformance):
    op = top.GRU(hidden_size=H)
    reference = onnx_node("GRU", inputs=(0, 1, 2, 3, EMPTY, 4), outputs=2, hidden_size=H)
    samples = (
        [uniform(T, N, I), *WEIGHTS, uniform(1, 6 * H), uniform(1, N, H)],
        [uniform(T, N, I), *WEIGHTS, None, None],
    )
    flops = (T * N * (2 * 3 * H * (I + H) + 8 * 3 * H),) * 2


class TestLinearBeforeReset(OpConformance):
    op = top.GRU(hidden_size=H, linear_before_reset=True)
    reference = onnx_node("GRU", inputs=(0, 1, 2, 3), outputs=2, hidden_size=H, linear_before_reset=1)
    samples = ([uniform(T, N, I), *WEIGHTS, uniform(1, 6 * H)],)
    flops = (T * N * (2 * 3 * H * (I + H) + 8 * 3 * H),)


def test_a_filter_of_another_size_is_refused() -> None:
    types = tuple(TensorType(shape, F32) for shape in ((5, 2, 4), (1, 9, 5), (1, 9, 3)))
    with pytest.raises(ValueError, match="filter 1x9x5 should be 1x9x4"):
        top.GRU(hidden_size=3).infer(types)
